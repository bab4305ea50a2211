package relay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openaichat"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func alwaysStream(g *gateway) { g.provider.UpstreamStream = provider.Always }

// sections reads the files of a txtar archive.
func sections(t testing.TB, file string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, f := range a.Files {
		parts[f.Name] = string(f.Data)
	}
	return parts
}

// TestCollectedEqualsNonStreaming checks that a non-streaming client gets the same
// response whether the gateway requests a stream from the upstream and collects it, or
// requests a non-streaming response.
func TestCollectedEqualsNonStreaming(t *testing.T) {
	files, err := filepath.Glob("testdata/collect/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			c := sections(t, file)
			asAsked := func(conn *upstreamtest.Conn) {
				script := upstreamtest.JSON(http.StatusOK, c["body.json"])
				if bytes.Contains(conn.Request.Body, []byte(`"stream":true`)) {
					script = upstreamtest.StreamRandom(c["stream.sse"], 5)
				}
				script(conn)
			}
			mirror, always := newGateway(t), newGateway(t, alwaysStream)
			mirror.up.Answer(asAsked)
			always.up.Answer(asAsked)
			_, whole, _ := mirror.post(t, chatPath, c["request.json"])
			resp, collected, err := always.post(t, chatPath, c["request.json"])
			if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("%v %s %v\n%s", err, resp.Status, resp.Header, collected)
			}
			wantSame(t, collected, whole)
			ask := strings.TrimSpace(c["request.json"])
			want := ask[:len(ask)-1] + `,"stream":true,"stream_options":{"include_usage":true}}`
			if sent := strings.TrimSpace(string(always.up.Last(t).Body)); sent != want {
				t.Errorf("the upstream got\n%s\nwant\n%s", sent, want)
			}
			always.wantLine(t, `"stream":false,"upstream_stream":true`, `"input_tokens":40,"cache_read_tokens":100`, `"output_tokens":24`, `"outcome":"ok"`)
		})
	}
}

// wantSame compares two JSON texts by value, and numbers by their text.
func wantSame(t testing.TB, got, want string) {
	t.Helper()
	if !reflect.DeepEqual(decoded(t, got), decoded(t, want)) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func decoded(t testing.TB, text string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

func TestAlwaysStreamEditsLittle(t *testing.T) {
	g := newGateway(t, alwaysStream)
	g.up.Answer(upstreamtest.Stream(weather("", "", countChunk)))
	for _, c := range []struct{ name, body, want string }{
		{"stream false", `{"model":"real-chat", "stream" : false ,"z":1.10}`, `{"model":"real-chat", "stream" : true ,"z":1.10,"stream_options":{"include_usage":true}}`},
		{"stream null", `{"stream":null,"model":"alias-chat"}`, `{"stream":true,"model":"real-chat","stream_options":{"include_usage":true}}`},
		{"usage asked", `{"model":"real-chat","stream_options":{"include_usage":true}}`, `{"model":"real-chat","stream_options":{"include_usage":true},"stream":true}`},
		{"streamed anyway", streamRequest, streamRequest},
	} {
		if resp, got, err := g.post(t, chatPath, c.body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %s %s", c.name, err, resp.Status, got)
		}
		if sent := string(g.up.Last(t).Body); sent != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, sent, c.want)
		}
	}
}

func TestOtherEndpointsAreNotStreamed(t *testing.T) {
	g := newGateway(t, alwaysStream)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for _, path := range []string{"/v1/completions", "/v1/embeddings", "/v1/rerank"} {
		if _, got, err := g.post(t, path, plainRequest); err != nil || got != plainResponse {
			t.Errorf("%s: %v %s", path, err, got)
		}
		if sent := g.up.Last(t); string(sent.Body) != plainRequest || sent.Path != path {
			t.Errorf("%s: the upstream got %s at %s", path, sent.Body, sent.Path)
		}
	}
}

const wordChunk = `data: {"id":"c1","created":7,"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"

func TestUncollectableStreamIsAnError(t *testing.T) {
	whole := wordChunk + lastChunk + "\n\n"
	for name, c := range map[string]struct {
		script upstreamtest.Script
		ask    string
		status int
		code   string
	}{
		"cut off":               {upstreamtest.Break(wordChunk), plainRequest, http.StatusBadGateway, "upstream_truncated"},
		"cut in an event":       {upstreamtest.Break(wordChunk + lastChunk[:40]), plainRequest, http.StatusBadGateway, "upstream_truncated"},
		"ends too early":        {upstreamtest.Stream(wordChunk), plainRequest, http.StatusBadGateway, "upstream_truncated"},
		"ends in an event":      {upstreamtest.Stream(wordChunk + lastChunk[:40]), plainRequest, http.StatusBadGateway, "upstream_truncated"},
		"empty":                 {upstreamtest.Stream(""), plainRequest, http.StatusBadGateway, "upstream_truncated"},
		"one of three choices":  {upstreamtest.Stream(whole), `{"model":"real-chat","n":3}`, http.StatusBadGateway, "upstream_truncated"},
		"no choices":            {upstreamtest.Stream("data: [DONE]\n\n"), plainRequest, http.StatusBadGateway, "upstream_invalid_response"},
		"no choices, but usage": {upstreamtest.Stream(countChunk + "data: [DONE]\n\n"), plainRequest, http.StatusBadGateway, "upstream_invalid_response"},
		"not JSON":              {upstreamtest.Stream(wordChunk + "data: oops\n\n" + lastChunk + "\n\n"), plainRequest, http.StatusBadGateway, "upstream_invalid_response"},
		"error first":           {upstreamtest.Stream(`data: {"error":{"message":"slow down","type":"rate_limit_error","code":"rate_limit_exceeded"}}` + "\n\n"), plainRequest, http.StatusTooManyRequests, "rate_limit_exceeded"},
		"error later":           {upstreamtest.Stream(wordChunk + `data: {"error":{"message":"overloaded","code":503},"choices":[]}` + "\n\ndata: [DONE]\n\n"), plainRequest, http.StatusServiceUnavailable, "503"},
		"error after finish":    {upstreamtest.Stream(whole + `data: {"error":"engine died"}` + "\n\ndata: [DONE]\n\n"), plainRequest, http.StatusBadGateway, "upstream_error"},
		"named error":           {upstreamtest.Stream("event: error\ndata: {\"error\":{\"message\":\"m\",\"type\":\"invalid_request_error\"}}\n\n"), plainRequest, http.StatusBadRequest, ""},
		"unframed error":        {upstreamtest.Stream(`{"error":{"message":"m","code":400}}` + "\n\n"), plainRequest, http.StatusBadRequest, "400"},
		"HTML":                  {upstreamtest.Stream("<html>\n\n</html>\n"), plainRequest, http.StatusBadGateway, "upstream_truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, alwaysStream)
			g.up.Answer(c.script)
			resp, got, err := g.post(t, chatPath, c.ask)
			if err != nil {
				t.Fatal(err)
			}
			wantError(t, resp, got, c.status, c.code)
			g.wantLine(t, `"outcome":"`, fmt.Sprintf(`"status":%d`, c.status), `"error_kind":"`)
		})
	}
}

func TestFinishedStreamIsCollectedWithoutItsLastEvent(t *testing.T) {
	whole := wordChunk + lastChunk + "\n\n"
	for name, script := range map[string]upstreamtest.Script{
		"no DONE":           upstreamtest.Stream(whole),
		"no last blank":     upstreamtest.Stream(strings.TrimSpace(whole)),
		"broken afterwards": upstreamtest.Break(whole),
		"cut in usage":      upstreamtest.Stream(whole + countChunk[:30]),
		"data after DONE":   upstreamtest.Stream(whole + "data: [DONE]\n\ndata: oops\n\n"),
	} {
		g := newGateway(t, alwaysStream)
		g.up.Answer(script)
		resp, got, err := g.post(t, chatPath, plainRequest)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(got, `"content":"hi"`) {
			t.Errorf("%s: %v %s %s", name, err, resp.Status, got)
		}
	}
}

func TestUnrequestedStreamIsCollected(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.StreamRandom(wordChunk+lastChunk+"\n\n"+countChunk+"data: [DONE]\n\n", 4))
	resp, got, err := g.post(t, chatPath, plainRequest)
	if err != nil || resp.Header.Get("Content-Type") != "application/json" || string(g.up.Last(t).Body) != plainRequest {
		t.Fatalf("%v %v", err, resp.Header)
	}
	wantSame(t, got, `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":140,"completion_tokens":24,"total_tokens":164}}`)
}

func TestNonStreamingResponseIsStreamed(t *testing.T) {
	g := newGateway(t)
	g.up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	for ask, usage := range map[string]bool{
		streamRequest: false,
		`{"model":"real-chat","stream":true,"stream_options":{"include_usage":true}}`: true,
	} {
		resp, got, err := g.post(t, chatPath, ask)
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %s %v", err, resp.Status, resp.Header)
		}
		if !strings.HasSuffix(got, "data: [DONE]\n\n") {
			t.Errorf("no [DONE]: %s", got)
		}
		events, err := protocoltest.ReadStream(openaichat.Codec{}, strings.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		all, err := protocoltest.Collect(events)
		if err != nil {
			t.Fatal(err, got)
		}
		body := openaichat.Codec{}.EncodeResponse(all, &llm.Request{}, &llm.Report{})
		want := strings.Replace(plainResponse, `"content":"hi"`, `"content":"hi","refusal":null`, 1)
		want = strings.Replace(want, `"finish_reason"`, `"logprobs":null,"finish_reason"`, 1)
		if !usage {
			want, _, _ = strings.Cut(want, `,"usage"`)
			want += "}"
		}
		wantSame(t, string(body), want)
	}
	g.wantLine(t, `"finish":"stop","input_tokens":3`, `"output_tokens":2`)
}

func TestErrorObjectWithStatus200(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		status int
		code   string
	}{
		"rate limit":      {`{"error":{"message":"slow","type":"rate_limit_error","param":null,"code":null}}`, http.StatusTooManyRequests, "rate_limit_exceeded"},
		"status as code":  {`{"error":{"message":"bad","code":422},"choices":[]}`, http.StatusUnprocessableEntity, "422"},
		"bare string":     {`{"error":"out of memory"}`, http.StatusBadGateway, "upstream_error"},
		"without a word":  {`{"error":{}}`, http.StatusBadGateway, "upstream_error"},
		"their own key":   {`{"error":{"message":"wrong key ` + upstreamKey + `","code":"invalid_api_key"}}`, http.StatusBadGateway, "invalid_api_key"},
		"key in the code": {`{"error":{"message":"m","code":"` + upstreamKey + `","param":"` + upstreamKey + `"}}`, http.StatusBadGateway, "***"},
	} {
		for kind, script := range map[string]upstreamtest.Script{
			"whole":            upstreamtest.JSON(http.StatusOK, c.object),
			"first event":      upstreamtest.Stream("data: " + c.object + "\n\ndata: [DONE]\n\n"),
			"last, unfinished": upstreamtest.Stream("data: " + c.object),
		} {
			for _, ask := range []string{plainRequest, streamRequest} {
				g := newGateway(t)
				g.up.Answer(script)
				resp, got, err := g.post(t, chatPath, ask)
				if err != nil {
					t.Fatal(name, kind, err)
				}
				wantError(t, resp, got, c.status, c.code)
				if strings.Contains(got+g.line(t), upstreamKey) {
					t.Errorf("%s, %s: the key is shown in %s or in %s", name, kind, got, g.line(t))
				}
			}
		}
	}
}

func TestErrorEventAfterOutput(t *testing.T) {
	before := ": hi\n\n" + wordChunk
	object := "data: {\"error\" : {\"message\":\"died, with KEY\",\"code\":500}}\n\n"
	g := newGateway(t)
	stream := before + strings.Replace(object, "KEY", upstreamKey, 1) + "data: [DONE]\n\n"
	for cut, script := range cuts("text/event-stream", stream) {
		g.up.Answer(script)
		resp, got, err := g.post(t, chatPath, streamRequest)
		if want := before + strings.Replace(object, "KEY", "***", 1); err != nil || got != want || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v %s, the client got\n%s\nwant\n%s", cut, err, resp.Status, got, want)
		}
	}
	g.wantLine(t, `"outcome":"upstream_error"`, `"error_kind":"upstream"`)
}
