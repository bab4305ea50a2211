package relay

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/sse"
)

const (
	textChunk   = `data: {"id":"c1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"
	stopChunk   = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	tokensChunk = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"
	sentinel    = "data: [DONE]\n\n"
)

// readError parses an error body and checks that it has all its members.
func readError(t testing.TB, body string) (code, message string) {
	t.Helper()
	var e struct {
		Error map[string]*string `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("no error body: %v: %q", err, body)
	}
	_, param := e.Error["param"]
	if len(e.Error) != 4 || !param || e.Error["type"] == nil || e.Error["message"] == nil || e.Error["code"] == nil {
		t.Fatalf("not OpenAI's error object: %s", body)
	}
	return *e.Error["code"], *e.Error["message"]
}

// readErrorEvent checks that a body consists of sent and one complete error event.
func readErrorEvent(t testing.TB, body, sent string) (code, message string) {
	t.Helper()
	rest, ok := strings.CutPrefix(body, sent)
	if !ok || !strings.HasSuffix(rest, "\n\n") || strings.Contains(rest, "[DONE]") {
		t.Fatalf("the client got %q, want %q and an error", body, sent)
	}
	events := sse.NewReader(strings.NewReader(rest), sse.Options{})
	e, err := events.Next()
	if err != nil || !e.HasData || e.Name != nil {
		t.Fatalf("no event in %q: %v", rest, err)
	}
	code, message = readError(t, string(e.Data))
	if e, err := events.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("a further event: %q, %v", e.Raw, err)
	}
	return code, message
}

// wantFailure checks that one upstream failure is logged and counted.
func (g *gateway) wantFailure(t testing.TB, kind string) {
	t.Helper()
	g.wantLine(t, `"outcome":"upstream_error"`, `"error_kind":"`+kind+`"`)
	g.wantMetrics(t, `isogloss_upstream_errors_total{kind="`+kind+`",provider="up"} 1`)
	g.wantIdle(t)
}

// wantIdle waits until no request is in flight: the gauge falls after the client has read
// all of the response.
func (g *gateway) wantIdle(t testing.TB) {
	t.Helper()
	eventually(t, "nothing is in flight", func() bool {
		for l := range strings.Lines(g.metrics()) {
			if strings.HasPrefix(l, "isogloss_requests_in_flight{") && !strings.HasSuffix(l, " 0\n") {
				return false
			}
		}
		return true
	})
}

// wantSuccess checks that the exchange is logged and counted as a success.
func (g *gateway) wantSuccess(t testing.TB) {
	t.Helper()
	g.wantLine(t, `"outcome":"ok"`, `"status":200`)
	if strings.Contains(g.metrics(), "isogloss_upstream_errors_total{") {
		t.Error("a success was counted as a failure of the upstream")
	}
	g.wantIdle(t)
}

// ends are the ways in which an upstream can end a stream.
var ends = map[string]func(*upstreamtest.Conn){
	"clean":  (*upstreamtest.Conn).EndStream,
	"closed": func(*upstreamtest.Conn) {},
	"reset":  (*upstreamtest.Conn).Reset,
}

// streamEnd sends a stream and ends it with end.
func streamEnd(body string, end func(*upstreamtest.Conn)) upstreamtest.Script {
	return func(c *upstreamtest.Conn) {
		c.BeginStream()
		if body != "" {
			c.Chunk(body)
		}
		end(c)
	}
}

// TestTruncatedStream checks that the complete events before a truncation reach the
// client and that a separate error event follows.
func TestTruncatedStream(t *testing.T) {
	half := strings.TrimSuffix(textChunk, "}]}\n\n")
	cases := []struct{ name, body, sent string }{
		{"right after the headers", "", ""},
		{"in the first line", half, ""},
		{"in a later line", textChunk + half, textChunk},
		{"in a field name", textChunk + "da", textChunk},
		{"in the line of the sentinel", textChunk + "data: [DO", textChunk},
		{"between events", textChunk + textChunk, textChunk + textChunk},
		{"in a comment", textChunk + ": wa", textChunk},
		{"after comments only", ": wait\n\n:\n\n", ": wait\n\n:\n\n"},
		{"after heartbeats only", "data:\n\nevent: ping\n\n", "data:\n\nevent: ping\n\n"},
		{"after a finish reason that is empty", strings.Replace(textChunk, "null", `""`, 1), strings.Replace(textChunk, "null", `""`, 1)},
		{"in a character", textChunk + half[:60] + "\xe5\x8c", textChunk},
		{"after garbage", "\x00\xff\x7f garbage", ""},
	}
	for _, c := range cases {
		for how, end := range ends {
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				g := newGateway(t)
				g.up.Answer(streamEnd(c.body, end))
				wantTruncated(t, g, streamRequest, c.sent, "upstream_truncated")
				g.wantFailure(t, "upstream")
			})
		}
	}
}

// wantTruncated sends a request whose stream is truncated and checks the error: a status
// if no event was sent, else an event.
func wantTruncated(t testing.TB, g *gateway, ask, sent, code string) {
	t.Helper()
	resp, body, err := g.post(t, chatPath, ask)
	if err != nil {
		t.Fatalf("the client's connection broke: %v", err)
	}
	var got string
	if sent == "" {
		if resp.StatusCode != http.StatusBadGateway {
			t.Fatalf("status %d", resp.StatusCode)
		}
		got, _ = readError(t, body)
	} else {
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		got, _ = readErrorEvent(t, body, sent)
	}
	if got != code {
		t.Errorf("code %s, want %s", got, code)
	}
}

// TestTruncatedAfterUnterminatedEvent checks that a last event without its blank line is
// delivered and that the error event is separate from it.
func TestTruncatedAfterUnterminatedEvent(t *testing.T) {
	for name, missing := range map[string]string{"no line end": "\n\n", "no blank line": "\n"} {
		t.Run(name, func(t *testing.T) {
			last := strings.TrimSuffix(textChunk, missing)
			g := newGateway(t)
			g.up.Answer(streamEnd(textChunk+last, ends["clean"]))
			_, body, _ := g.post(t, chatPath, streamRequest)
			events := sse.NewReader(strings.NewReader(body), sse.Options{})
			for range 2 {
				if e, err := events.Next(); err != nil || !bytes.Contains([]byte(textChunk), e.Data) {
					t.Fatalf("%v: %q", err, body)
				}
			}
			if e, err := events.Next(); err != nil || !bytes.Contains(e.Data, []byte(`"upstream_truncated"`)) {
				t.Fatalf("%v: %q", err, body)
			}
			g.wantFailure(t, "upstream")
		})
	}
}

func TestNoResponse(t *testing.T) {
	for name, script := range map[string]upstreamtest.Script{
		"closed before the first byte": func(*upstreamtest.Conn) {},
		"reset before the first byte":  (*upstreamtest.Conn).Reset,
		"in the status line":           func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 20") },
		"in a header":                  func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 200 OK\r\nContent-Ty") },
		"no HTTP":                      func(c *upstreamtest.Conn) { c.Send("SSH-2.0-OpenSSH_9.6\r\n\r\n") },
		"a length that is no number":   func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n") },
	} {
		for how, ask := range map[string]string{"stream": streamRequest, "whole": plainRequest} {
			t.Run(name+", "+how, func(t *testing.T) {
				g := newGateway(t)
				g.up.Answer(script)
				wantTruncated(t, g, ask, "", "upstream_no_answer")
				g.wantFailure(t, "upstream")
			})
		}
	}
}

// TestErrorInsideAStream checks that an error event in a response with status 200 is an
// error: with a status if it is the first event, else in the stream.
func TestErrorInsideAStream(t *testing.T) {
	const (
		plain  = `{"error":{"message":"no GPU ` + upstreamKey + `","type":"server_error","param":null,"code":"no_gpu"}}`
		number = `{"id":"g","object":"chat.completion.chunk","choices":[],"error":{"code":502,"message":"worker limit"}}`
		limit  = `{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`
	)
	cases := []struct {
		name, body string
		status     int
		kind       string
		sent       string // bytes delivered before the error, for status 200
		own        string // the upstream's error event, as it is delivered
	}{
		{name: "first event", body: "data: " + plain + "\n\n", status: 502, kind: "upstream"},
		{name: "first event, then a sentinel", body: "data: " + plain + "\n\n" + sentinel, status: 502, kind: "upstream"},
		{name: "first event, named", body: "event: error\ndata: " + limit + "\n\n", status: 429, kind: "rate_limit"},
		{name: "first event without a blank line", body: "data: " + limit, status: 429, kind: "rate_limit"},
		{name: "ERR-09 first", body: "data: " + number + "\n\n", status: 502, kind: "upstream"},
		{name: "ERR-09 later", body: textChunk + "data: " + number + "\n\n", status: 200, kind: "upstream", sent: textChunk, own: "data: " + number + "\n\n"},
		{name: "after a comment in the same read", body: ": wait\n\ndata: " + limit + "\n\n", status: 429, kind: "rate_limit"},
		{name: "later", body: textChunk + "data: " + limit + "\n\n" + textChunk + sentinel, status: 200, kind: "rate_limit", sent: textChunk, own: "data: " + limit + "\n\n"},
		{name: "later, with our key", body: textChunk + "data: " + plain + "\n\n", status: 200, kind: "upstream", sent: textChunk, own: "data: " + strings.Replace(plain, upstreamKey, "***", 1) + "\n\n"},
		{name: "later, without a blank line", body: textChunk + "data: " + limit + "\n", status: 200, kind: "rate_limit", sent: textChunk},
		{name: "after the finish reason", body: stopChunk + "data: " + limit + "\n\n", status: 200, kind: "rate_limit", sent: stopChunk, own: "data: " + limit + "\n\n"},
		{name: "SSE-27 bare", body: plain, status: 502, kind: "upstream"},
		{name: "SSE-27 bare with a line end", body: limit + "\n", status: 429, kind: "rate_limit"},
		{name: "SSE-27 bare over several lines", body: "{\n \"error\": {\n  \"message\": \"x\",\n  \"code\": 429\n }\n}\n", status: 429, kind: "rate_limit"},
		{name: "SSE-27 bare with a blank line", body: limit + "\n\n", status: 429, kind: "rate_limit"},
		{name: "SSE-27 bare, later", body: textChunk + limit + "\n\n", status: 200, kind: "rate_limit", sent: textChunk},
		{name: "SSE-27 bare at the end", body: textChunk + limit, status: 200, kind: "rate_limit", sent: textChunk},
		{name: "a whole answer that is not framed", body: plainResponse, status: 502, kind: "upstream"},
		{name: "a whole answer that is not framed, with a blank line", body: plainResponse + "\n\n", status: 502, kind: "upstream"},
		{name: "data that is no JSON", body: "data: <html>\n\n", status: 502, kind: "upstream"},
		{name: "data that is no JSON, later", body: textChunk + `data: <b>"error":1` + "\n\n", status: 200, kind: "upstream", sent: textChunk},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := newGateway(t)
			g.up.Answer(upstreamtest.Stream(c.body))
			resp, body, err := g.post(t, chatPath, streamRequest)
			if err != nil || resp.StatusCode != c.status {
				t.Fatalf("status %d, %v: %q", resp.StatusCode, err, body)
			}
			switch {
			case c.status != http.StatusOK:
				readError(t, body)
			case c.own != "" && body != c.sent+c.own:
				t.Errorf("the client got %q, want %q", body, c.sent+c.own)
			case c.own == "":
				readErrorEvent(t, body, c.sent)
			}
			if strings.Contains(body+g.line(t), upstreamKey) {
				t.Errorf("the gateway's key got out: %s", body)
			}
			g.wantFailure(t, c.kind)
		})
	}
}

func TestStreamCompletion(t *testing.T) {
	other := strings.Replace(stopChunk, `"index":0`, `"index":1`, 1)
	two := strings.Replace(streamRequest, `"stream"`, `"n":2,"stream"`, 1)
	cases := []struct {
		name, ask, body string
		ok              bool
	}{
		{"SSE-18 finish reason without a sentinel", streamRequest, textChunk + stopChunk, true},
		{"usage last", streamRequest, textChunk + stopChunk + tokensChunk, true},
		{"a sentinel without finish reason", streamRequest, textChunk + sentinel, true},
		{"n=2, one finish", two, textChunk + stopChunk, false},
		{"n=2, one finish twice", two, textChunk + stopChunk + stopChunk, false},
		{"n=2, both", two, textChunk + stopChunk + other, true},
		{"n=2, one finish and a sentinel", two, textChunk + stopChunk + sentinel, true},
	}
	for _, c := range cases {
		for how, end := range ends {
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				g := newGateway(t)
				g.up.Answer(streamEnd(c.body, end))
				if !c.ok {
					wantTruncated(t, g, c.ask, c.body, "upstream_truncated")
					g.wantFailure(t, "upstream")
					return
				}
				if _, body, err := g.post(t, chatPath, c.ask); err != nil || body != c.body {
					t.Fatalf("%v: %q", err, body)
				}
				g.wantSuccess(t)
			})
		}
	}
}

// TestLastEventWithoutBlankLine checks that the end of the body terminates the last event
// (SSE-17).
func TestLastEventWithoutBlankLine(t *testing.T) {
	for _, body := range []string{
		textChunk + strings.TrimSuffix(stopChunk, "\n"),
		textChunk + strings.TrimSuffix(stopChunk, "\n\n"),
		textChunk + stopChunk + strings.TrimSuffix(sentinel, "\n\n"),
	} {
		g := newGateway(t)
		g.up.Answer(upstreamtest.Stream(body))
		if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != body {
			t.Errorf("%v: %q, want %q", err, got, body)
		}
		g.wantSuccess(t)
	}
}

// TestHiddenUsageWithoutBlankLine checks that a usage chunk that the client did not
// request is removed even if it is the last event and lacks its blank line.
func TestHiddenUsageWithoutBlankLine(t *testing.T) {
	g := newGateway(t, func(g *gateway) { g.provider.IncludeUsage = true })
	g.up.Answer(upstreamtest.Stream(textChunk + stopChunk + strings.TrimSuffix(tokensChunk, "\n\n")))
	if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != textChunk+stopChunk {
		t.Errorf("%v: %q", err, got)
	}
	g.wantLine(t, `"outcome":"ok"`, `"input_tokens":3`)
}

// TestNothingAfterDone checks that bytes after [DONE] are dropped (SSE-21).
func TestNothingAfterDone(t *testing.T) {
	for name, n := range map[string]int{"one read": 1 << 20, "byte by byte": 1} {
		for after, more := range map[string]string{
			"a second one": sentinel, "a chunk": textChunk, "an error": `data: {"error":{"message":"x"}}` + "\n\n",
			"garbage": strings.Repeat("\x00\xff", 4000), "half an event": `data: {"ch`,
		} {
			t.Run(after+", "+name, func(t *testing.T) {
				g := newGateway(t)
				g.up.Answer(upstreamtest.StreamCut(textChunk+sentinel+more, n))
				if _, got, err := g.post(t, chatPath, streamRequest); err != nil || got != textChunk+sentinel {
					t.Errorf("%v: %q", err, got)
				}
				g.wantSuccess(t)
			})
		}
	}
}

// TestSocketKeptOpenAfterDone checks that the response ends at [DONE] even if the
// upstream keeps the connection open (SSE-20).
func TestSocketKeptOpenAfterDone(t *testing.T) {
	for name, drip := range map[string]string{"silent": "", "dripping": ":\n\n"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t bubble) {
				g := newGateway(t)
				released := make(chan bool, 1)
				g.up.Answer(func(c *upstreamtest.Conn) {
					c.BeginStream()
					c.Chunk(textChunk + sentinel)
					for drip != "" && c.Chunk(drip) {
						time.Sleep(5 * time.Millisecond)
					}
					released <- c.Gone(5 * time.Second)
				})
				start := time.Now()
				_, body, err := g.post(t, chatPath, streamRequest)
				if took := time.Since(start); took != 0 || err != nil || body != textChunk+sentinel {
					t.Fatalf("after %v: %v %q", took, err, body)
				}
				if !<-released {
					t.Error("the upstream's connection is still open")
				}
				g.wantSuccess(t)
			})
		})
	}
}

func TestInvalidNonStreamingResponse(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		script upstreamtest.Script
		code   string
	}{
		"shorter than its length": {func(c *upstreamtest.Conn) { c.Send(head + "Content-Length: 5000\r\n\r\n" + plainResponse) }, "upstream_truncated"},
		"cut in a chunk":          {func(c *upstreamtest.Conn) { c.Send(head + "Transfer-Encoding: chunked\r\n\r\nfff\r\n" + plainResponse) }, "upstream_truncated"},
		"without the last chunk": {func(c *upstreamtest.Conn) {
			c.Send(head + "Transfer-Encoding: chunked\r\n\r\n")
			c.Chunk(plainResponse)
		}, "upstream_truncated"},
		"reset": {func(c *upstreamtest.Conn) {
			c.Send(head + "Content-Length: 5000\r\n\r\n" + plainResponse)
			c.Reset()
		}, "upstream_truncated"},
		"truncated JSON": {upstreamtest.JSON(200, plainResponse[:len(plainResponse)-1]), "upstream_invalid_response"},
		"two objects":    {upstreamtest.JSON(200, plainResponse+plainResponse), "upstream_invalid_response"},
		"a page":         {func(c *upstreamtest.Conn) { c.Whole(200, "text/html", "<html>busy</html>") }, "upstream_invalid_response"},
		"empty":          {upstreamtest.JSON(200, ""), "upstream_invalid_response"},
		"no content":     {func(c *upstreamtest.Conn) { c.Send("HTTP/1.1 204 No Content\r\n\r\n") }, "upstream_invalid_response"},
	} {
		for how, ask := range map[string]string{"whole": plainRequest, "stream": streamRequest} {
			t.Run(name+", "+how, func(t *testing.T) {
				g := newGateway(t)
				g.up.Answer(c.script)
				wantTruncated(t, g, ask, "", c.code)
				g.wantFailure(t, "upstream")
			})
		}
	}
}

func TestErrorObjectInNonStreamingResponse(t *testing.T) {
	for body, status := range map[string]int{
		`{"error":{"message":"m","type":"t","param":null,"code":null}}`: 502,
		`{"error":{"message":"m","code":429}}`:                          429,
		`{"error":"text"}`:                                              502,
	} {
		for how, ask := range map[string]string{"whole": plainRequest, "stream": streamRequest} {
			t.Run(how, func(t *testing.T) {
				g := newGateway(t)
				g.up.Answer(upstreamtest.JSON(200, body))
				resp, got, err := g.post(t, chatPath, ask)
				if err != nil || resp.StatusCode != status {
					t.Fatalf("status %d, %v", resp.StatusCode, err)
				}
				readError(t, got)
				g.wantLine(t, `"outcome":"upstream_error"`)
			})
		}
	}
}

// TestTruncatedWhileCollecting checks that a non-streaming client gets only an error when
// the collected stream is truncated.
func TestTruncatedWhileCollecting(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "between events": textChunk, "in a line": textChunk + "data: {", "comments only": ": wait\n\n",
		"an error": textChunk + `data: {"error":{"message":"m","code":502}}` + "\n\n", "no JSON": "data: <html>\n\n",
	} {
		for how, end := range ends {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				g := newGateway(t, func(g *gateway) { g.provider.UpstreamStream = provider.Always })
				g.up.Answer(streamEnd(body, end))
				resp, got, err := g.post(t, chatPath, plainRequest)
				if err != nil || resp.StatusCode != http.StatusBadGateway {
					t.Fatalf("status %d, %v: %s", resp.StatusCode, err, got)
				}
				readError(t, got)
				g.wantFailure(t, "upstream")
			})
		}
	}
}
