package relay

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const (
	chatPath      = "/v1/chat/completions"
	plainRequest  = `{"model":"real-chat","messages":[]}`
	streamRequest = `{"model":"real-chat","stream":true,"messages":[]}`

	plainResponse = `{"id":"c1","object":"chat.completion","created":1,"model":"real-chat","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// oddities are unusual but valid JSON members that decoding and encoding again would
// change.
const oddities = `
	"z":1,"a":{"y":[ ],"x":{ }},  "int64":9223372036854775807, "uint64":18446744073709551615,"huge":123456789012345678901234567890,
	"price":1.10 , "hundred":1e2,"E":-0.0E-07,"minus":-0,
	"slash":"a\/b","acute":"\u00e9é","pair":"\ud83d\ude00😀","half":"\ud83d","control":"\u0000\t\u001f","del":"","html":"<&>\u2028 ",
	"nil":null,"list":[null,[],{},[{"deep":{"unknown":null}}]],
	"messages":[{"role":"user","content":"北京今天适合跑步吗？👩‍👩‍👧‍👦","extra":{"1.10":1.10}}],"`

func TestBodyReachesTheUpstreamUnchanged(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for name, body := range map[string]string{
		"model last":      "{" + oddities + "model\" :\t\"real-chat\"\r\n}",
		"model first":     " {\n \"model\":\"real-chat\"," + strings.TrimSuffix(oddities, ",\"") + "}\n",
		"model escaped":   `{"\u006dodel":"real\u002dchat"}`,
		"nothing else":    `{"model":"real-chat"}`,
		"lone nulls":      `{"model":"real-chat","stream":null,"stream_options":null,"n":null,"nvext":null,"tools":null}`,
		"false stream":    `{"model":"real-chat","stream":false,"stream_options":{"include_usage":true}}`,
		"slashed":         `{"model":"vendor\/slashed"}`,
		"trailing spaces": "\t{\"model\":\"real-chat\"} \r\n\t ",
	} {
		if _, answer, err := g.post(t, chatPath, body); err != nil || answer != plainResponse {
			t.Fatalf("%s: %v %s", name, err, answer)
		}
		if got := string(g.up.Last(t).Body); got != body {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", name, got, body)
		}
	}
}

// TestAliasEditsOnlyTheModel checks that replacing an alias changes only the model's
// value, which «» marks in each body.
func TestAliasEditsOnlyTheModel(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for _, c := range []struct{ name, body, want string }{
		{"last", "{" + oddities + "model\" : \t«\"alias-chat\"» \n}", "real-chat"},
		{"first", "{ \"model\":«\"alias-chat\"» ," + strings.TrimSuffix(oddities, ",\"") + "}", "real-chat"},
		{"middle", "{" + oddities + "model\"\n:\r«\"alias-chat\"»\t,\"model_\":\"alias-chat\",\"Model name\":\"alias-chat\"}", "real-chat"},
		{"only", `{"model":«"alias-chat"»}`, "real-chat"},
		{"escaped value", `{"model":«"\u0061lias\u002dchat"»}`, "real-chat"},
		{"escaped name", `{"x":"model","mod\u0065l":«"alias-chat"»}`, "real-chat"},
		{"nested models stay", `{"a":{"model":"alias-chat"},"model":«"alias-chat"»,"b":[{"model":"alias-chat"}]}`, "real-chat"},
		{"pattern", `{"model":«"any/thing"»}`, "thing"},
		{"pattern with slashes", `{"model":«"any\/meta/llama:70b"»,"q":1.10}`, "meta/llama:70b"},
		{"pattern with odd text", `{"model":«"any/\u00e9\"\\北\u0007"»}`, "é\\\"\\\\北\\u0007"},
	} {
		head, rest, _ := strings.Cut(c.body, "«")
		model, tail, _ := strings.Cut(rest, "»")
		if _, answer, err := g.post(t, chatPath, head+model+tail); err != nil || answer != plainResponse {
			t.Fatalf("%s: %v %s", c.name, err, answer)
		}
		want := head + `"` + c.want + `"` + tail
		if got := string(g.up.Last(t).Body); got != want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

func TestUpstreamHeadersAreAnAllowList(t *testing.T) {
	g := newGateway(t, func(g *gateway) {
		g.provider.Headers = http.Header{"X-Org": {"acme"}, "Openai-Beta": {"ours"}}
	})
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	resp, _, _ := g.post(t, chatPath+"?api-version=1&key=client", plainRequest,
		"Authorization", "Bearer client-key", "X-Api-Key", "client-key", "X-Goog-Api-Key", "client-key", "Api-Key", "client-key",
		"Cookie", "a=b", "Accept-Encoding", "gzip, br", "Connection", "close, X-Hop", "X-Hop", "1", "Te", "trailers",
		"Proxy-Authorization", "Basic x", "X-Forwarded-For", "1.2.3.4", "Forwarded", "for=1.2.3.4", "Origin", "http://localhost:3000",
		"Referer", "http://localhost/", "User-Agent", "client/1", "X-Stainless-Os", "Linux", "Upgrade-Insecure-Requests", "1",
		"Accept", "application/json", "Idempotency-Key", "i1", "Openai-Beta", "theirs", "X-Client-Request-Id", "r1")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	got := g.up.Last(t)
	key := got.Header["Idempotency-Key"]
	if len(key) != 1 || len(key[0]) != 64 { // TestIdempotencyKeysOfCallers checks its value
		t.Errorf("the Idempotency-Key is %q", key)
	}
	want := http.Header{
		"Accept": {"application/json"}, "Authorization": {"Bearer " + upstreamKey}, "Content-Length": {fmt.Sprint(len(plainRequest))},
		"Content-Type": {"application/json"}, "Idempotency-Key": key, "Isogloss-Hops": {"1"}, "Openai-Beta": {"ours"}, "User-Agent": {"isogloss"},
		"X-Client-Request-Id": {"r1"}, "X-Org": {"acme"},
	}
	if !maps.EqualFunc(got.Header, want, slices.Equal) {
		t.Errorf("the upstream got\n%v\nwant\n%v", got.Header, want)
	}
	if got.Path != chatPath {
		t.Errorf("the upstream was called at %s", got.Path)
	}
}

func TestUpstreamRequestAddsNoHeaders(t *testing.T) {
	g := newGateway(t, func(g *gateway) { g.provider.Auth, g.provider.Key = provider.NoneAuth, "" })
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	g.raw(t, "POST "+chatPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json;charset=utf-8\r\nContent-Length: 35\r\nAuthorization: Bearer client-key\r\nConnection: close\r\n\r\n"+plainRequest, "HTTP/1.1 200 ")
	want := []string{"Content-Length", "Content-Type", "Isogloss-Hops", "User-Agent"}
	if got := slices.Sorted(maps.Keys(g.up.Last(t).Header)); !slices.Equal(got, want) {
		t.Errorf("the upstream got %v, want %v", got, want)
	}
}

func TestQuirksRenameOnlyNames(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"renamed", `{ "model":"real-chat" , "max_completion_tokens" : 1e2 ,"x":"max_completion_tokens"}`,
			`{ "model":"real-chat" , "max_tokens" : 1e2 ,"x":"max_completion_tokens"}`},
		{"escaped", `{"max\u005fcompletion_tokens":7,"model":"real-chat"}`, `{"max_tokens":7,"model":"real-chat"}`},
		{"null", `{"max_completion_tokens":null,"model":"real-chat"}`, `{"max_tokens":null,"model":"real-chat"}`},
		{"both stay", `{"max_completion_tokens":7,"max_tokens":8,"model":"real-chat"}`, `{"max_completion_tokens":7,"max_tokens":8,"model":"real-chat"}`},
		{"nested stays", `{"a":{"max_completion_tokens":7},"model":"real-chat"}`, `{"a":{"max_completion_tokens":7},"model":"real-chat"}`},
		{"with an alias", `{"model":"alias-chat","max_completion_tokens":7}`, `{"model":"real-chat","max_tokens":7}`},
	} {
		g := newGateway(t, func(g *gateway) {
			g.provider.Quirks = []provider.Quirk{provider.RenameField("max_completion_tokens", "max_tokens")}
		})
		g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
		if _, answer, err := g.post(t, chatPath, c.body); err != nil || answer != plainResponse {
			t.Fatalf("%s: %v %s", c.name, err, answer)
		}
		if got := string(g.up.Last(t).Body); got != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestChunkedRequestBody(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	var pieces strings.Builder
	for _, b := range []byte(plainRequest) {
		fmt.Fprintf(&pieces, "1\r\n%c\r\n", b)
	}
	g.raw(t, "POST "+chatPath+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"+pieces.String()+"0\r\n\r\n", "HTTP/1.1 200 ")
	got := g.up.Last(t)
	if string(got.Body) != plainRequest || got.Header.Get("Content-Length") != fmt.Sprint(len(plainRequest)) {
		t.Errorf("the upstream got %q with %v", got.Body, got.Header)
	}
}

func TestExpectContinue(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	c, r := g.dial(t)
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n", chatPath, len(plainRequest))
	if line, err := r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	fmt.Fprint(c, plainRequest)
	rest, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(rest), "\r\nHTTP/1.1 200 ") || !strings.HasSuffix(string(rest), plainResponse) {
		t.Fatalf("%q %v", rest, err)
	}
	if got := string(g.up.Last(t).Body); got != plainRequest {
		t.Errorf("the upstream got %s", got)
	}
}

// dial opens a connection to the gateway.
func (g *gateway) dial(t testing.TB) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := g.dialer(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

// raw sends a request as text and checks that the response starts with want.
func (g *gateway) raw(t testing.TB, request, want string) string {
	t.Helper()
	c, r := g.dial(t)
	fmt.Fprint(c, request)
	answer, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(answer), want) {
		t.Fatalf("got %q (%v), want %q", answer, err, want)
	}
	return string(answer)
}

// cuts returns scripts that send the same body in different pieces.
func cuts(media, body string) map[string]upstreamtest.Script {
	all := map[string]upstreamtest.Script{
		"one read":     pieces(media, body, len(body)),
		"byte by byte": pieces(media, body, 1),
		"with length": func(c *upstreamtest.Conn) {
			c.Whole(http.StatusOK, media, body, "Connection", "close")
		},
		"until close": func(c *upstreamtest.Conn) {
			c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + media + "\r\nConnection: close\r\n\r\n" + body)
		},
	}
	for seed := range uint64(100) {
		if media == "text/event-stream" {
			all[fmt.Sprintf("random %d", seed)] = upstreamtest.StreamRandom(body, seed)
		} else {
			all[fmt.Sprintf("random %d", seed)] = pieces(media, body, 2+rand.IntN(80))
		}
	}
	return all
}

// pieces sends a chunked body in pieces of n bytes.
func pieces(media, body string, n int) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		c.Send("HTTP/1.1 200 OK\r\nContent-Type: " + media + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		for p := range slices.Chunk([]byte(body), n) {
			if !c.Chunk(string(p)) {
				return
			}
		}
		c.EndStream()
		c.KeepAlive()
	}
}

func TestNonStreamingResponseReachesTheClientUnchanged(t *testing.T) {
	g := newGateway(t)
	answer := " {\"choices\" : [ {\"finish_reason\":\"stop\"} ],\r\n" + oddities + "error\":null,\"same\":1,\"same\":2}\n\n"
	for name, script := range cuts("application/json", answer) {
		g.up.Answer(script)
		resp, got, err := g.post(t, chatPath, plainRequest)
		if err != nil || got != answer || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %v, the client got\n%s", name, resp.Status, err, got)
		}
		if resp.ContentLength != int64(len(answer)) || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", name, resp.Header)
		}
	}
}

const lastChunk = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

func TestStreamReachesTheClientUnchanged(t *testing.T) {
	chunk := `{"id":"c1","choices":[{"index":0,"delta":{"content":"北京 \u00e9 \/ 😀"},"n":1.10}]}`
	for name, stream := range map[string]string{
		"plain":           "data: " + chunk + "\n\n" + lastChunk + "\n\ndata: [DONE]\n\n",
		"comments":        ": hello\n\n:\n\ndata: " + chunk + "\n: within\n\n" + lastChunk + "\n\n: bye\n\ndata: [DONE]\n\n",
		"CRLF":            "data: " + chunk + "\r\n\r\n" + lastChunk + "\r\n\r\ndata: [DONE]\r\n\r\n",
		"CR":              "data: " + chunk + "\r\r" + lastChunk + "\r\rdata: [DONE]\r\r",
		"mixed ends":      "data: " + chunk + "\r\n\n" + lastChunk + "\n\r\ndata: [DONE]\r\r\n",
		"BOM":             "\xef\xbb\xbfdata: " + chunk + "\n\n" + lastChunk + "\n\ndata: [DONE]\n\n",
		"no space":        "data:" + chunk + "\n\n" + strings.Replace(lastChunk, ": ", ":", 1) + "\n\ndata:[DONE]\n\n",
		"two spaces":      "data:  " + chunk + "\n\n" + lastChunk + "\n\ndata:  [DONE] \n\n",
		"several lines":   "data: {\"id\":\ndata: \"c1\",\ndata:\"choices\":[]}\n\n" + lastChunk + "\n\ndata: [DONE]\n\n",
		"other fields":    "id: 7\nevent: chunk\nretry: 10\nfoo: bar\nfoo\ndata: " + chunk + "\n\nevent: x\n\n" + lastChunk + "\n\ndata: [DONE]\n\n",
		"blank lines":     "\n\n\ndata: " + chunk + "\n\n\n\n" + lastChunk + "\n\n\ndata: [DONE]\n\n",
		"no last blank":   "data: " + chunk + "\n\n" + lastChunk + "\n\ndata: [DONE]\n",
		"no last newline": "data: " + chunk + "\n\n" + lastChunk + "\n\ndata: [DONE]",
		"no DONE":         "data: " + chunk + "\n\n" + lastChunk + "\n\n",
		"finish at EOF":   "data: " + chunk + "\n\n" + lastChunk,
		"DONE only":       "data: [DONE]\n\n",
		"data comment":    "data: : heartbeat\n\ndata:\n\n" + lastChunk + "\n\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			for cut, script := range cuts("text/event-stream", stream) {
				g.up.Answer(script)
				resp, got, err := g.post(t, chatPath, streamRequest)
				if err != nil || got != stream {
					t.Fatalf("%s: %v, the client got\n%q\nwant\n%q", cut, err, got, stream)
				}
				if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("%s: %s %v", cut, resp.Status, resp.Header)
				}
			}
		})
	}
}

func TestResponseHeaders(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse,
		"X-Request-Id", "up-1", "X-Ratelimit-Remaining-Tokens", "9", "Openai-Version", "2020-10-01", "Openai-Processing-Ms", "5",
		"Set-Cookie", "a=b", "Server", "x", "Access-Control-Allow-Origin", "*", "X-Secret", "1"))
	resp, _, _ := g.post(t, chatPath, plainRequest)
	got := resp.Header.Clone()
	if id := got.Get("X-Request-Id"); len(id) != 36 || id == "up-1" {
		t.Errorf("request id %q", id)
	}
	got.Del("X-Request-Id")
	got.Del("Date")
	want := http.Header{
		"Content-Length": {fmt.Sprint(len(plainResponse))}, "Content-Type": {"application/json"},
		"Isogloss-Attempts": {"1"}, "Isogloss-Fidelity": {"exact"}, "Isogloss-Target": {"up/real-chat"}, "Isogloss-Upstream-Request-Id": {"up-1"},
		"Openai-Processing-Ms": {"5"}, "Openai-Version": {"2020-10-01"}, "X-Ratelimit-Remaining-Tokens": {"9"},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the client got\n%v\nwant\n%v", got, want)
	}
}

// serve adds models that are sent to the upstream under their own names.
func (g *gateway) serve(names ...string) {
	routes := g.routes()
	for _, n := range names {
		target := route.Target{Provider: g.provider, Model: n, Timeouts: g.provider.Timeouts}
		routes = append(routes, &route.Route{Name: n, OwnedBy: "up", Targets: []route.Target{target}})
	}
	s := *g.state
	s.Routes = route.New(routes)
	g.relay.Use(&s)
}

// TestConversationPassesUnchanged sends two recorded turns of a conversation with a tool
// call and checks every byte in both directions.
func TestConversationPassesUnchanged(t *testing.T) {
	for round, want := range map[string]struct{ line, metric string }{
		"round1": {`"finish":"tool_calls","input_tokens":140,"cache_read_tokens":0,"cache_write_tokens":0,"output_tokens":24,`,
			`isogloss_tokens_total{kind="input",model="gpt-5.4",provider="up"} 140`},
		"round2": {`"finish":"stop","first_byte_ms":`, `isogloss_tokens_total{kind="input",model="gpt-5.4",provider="up"} 0`},
	} {
		t.Run(round, func(t *testing.T) {
			g := newGateway(t)
			g.serve("gpt-5.4")
			ask, stream := testdata(t, "weather/"+round+".request.json"), testdata(t, "weather/"+round+".stream.sse")
			g.up.Answer(upstreamtest.StreamRandom(stream, 1))
			resp, got, err := g.post(t, chatPath, ask)
			if err != nil || got != stream || resp.StatusCode != http.StatusOK {
				t.Errorf("%v %s: the client got\n%s\nwant\n%s", err, resp.Status, got, stream)
			}
			if sent := string(g.up.Last(t).Body); sent != ask {
				t.Errorf("the upstream got\n%s\nwant\n%s", sent, ask)
			}
			g.wantLine(t, want.line, `"model":"gpt-5.4"`, `"outcome":"ok"`, `"status":200`, fmt.Sprintf(`"bytes_in":%d,"bytes_out":%d,`, len(ask), len(stream)))
			g.wantMetrics(t, want.metric,
				`isogloss_requests_total{dialect="openai-chat",endpoint="chat_completions",model="gpt-5.4",outcome="ok",provider="up",status="200",stream="true"} 1`)
			if strings.Contains(g.log.String(), "北京") {
				t.Errorf("the log quotes the prompt: %s", g.log)
			}
		})
	}
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// wantLine checks that the exchange's log line contains each text.
func (g *gateway) wantLine(t testing.TB, texts ...string) {
	t.Helper()
	line := g.line(t)
	for _, want := range texts {
		if !strings.Contains(line, want) {
			t.Errorf("the log line lacks %s:\n%s", want, line)
		}
	}
}

// wantMetrics checks that the metrics page contains each complete line.
func (g *gateway) wantMetrics(t testing.TB, lines ...string) {
	t.Helper()
	have := strings.Split(g.metrics(), "\n")
	for _, want := range lines {
		if !slices.Contains(have, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}
