package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/translate"
)

const (
	answer = `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	events = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}

data: [DONE]

`
)

// TestProxy sends a request, a stream, a request that is no JSON, and one that the server refuses.
func TestProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path != "/v1/chat/completions" || !bytes.Contains(body, []byte(`"model":"qwen3"`)):
			t.Errorf("%s %s", r.URL.Path, body)
		case bytes.Contains(body, []byte("refuse")):
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down","type":"rate_limit","code":null}}`)
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}
	}))
	defer server.Close()
	var logged bytes.Buffer
	translator, err := translate.New(translate.Options{Client: protocol.Anthropic, Upstream: protocol.OpenAIChat, Model: "qwen3"})
	if err != nil {
		t.Fatal(err)
	}
	h := newProxy(translator, server.URL, log.New(&logged, "", 0))
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"model":"claude","max_tokens":100,"messages":[{"role":"user","content":"Hello"}]}`, 200, `"content":[{"type":"text","text":"Hello."}]`},
		{`{"model":"claude","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"Hello"}]}`, 200, "event: message_stop"},
		{`{"model":"claude","max_tokens":100,"messages":[{"role":"user","content":"refuse"}]}`, 429, `"type":"rate_limit_error"`},
		{`{`, 400, `"type":"invalid_request_error"`},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", c.body, w.Code, w.Body)
		}
	}
	if n := strings.Count(logged.String(), "usage "); n < 2 {
		t.Errorf("logged %s", &logged)
	}
}
