package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const (
	chunkEvent  = `data: {"id":"c1","object":"chat.completion.chunk","model":"model","choices":[{"index":0,"delta":{"content":"pr1vate answer","reasoning":"pr1vate thought","tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{\"pr1vate\":1}"}}]}}]}` + "\n\n"
	finalEvents = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	wholeReply  = `{"id":"c1","object":"chat.completion","model":"model","choices":[{"index":0,"message":{"role":"assistant","content":"pr1vate answer"},"finish_reason":"pr1vate reason in prose"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	faultBody   = `{"error":{"message":"pr1vate: key s3cret-provider-key is bad for pr1vate prompt","type":"pr1vate prose","code":"pr1vate prose"}}`
)

// oddExchanges lists what an upstream of Chat can do beyond the scenarios.
func oddExchanges() []struct {
	name, model string
	stream      bool
	script      upstreamtest.Script
} {
	junk := func(text string) upstreamtest.Script {
		return func(c *upstreamtest.Conn) { c.Send(text) }
	}
	return []struct {
		name, model string
		stream      bool
		script      upstreamtest.Script
	}{
		{"whole", "whole", false, upstreamtest.JSON(http.StatusOK, wholeReply)},
		{"streamed", "whole", true, upstreamtest.Stream(chunkEvent + finalEvents)},
		{"collected", "collected", false, upstreamtest.Stream(chunkEvent + finalEvents)},
		{"cut stream", "whole", true, upstreamtest.Break(chunkEvent)},
		{"cut in an event", "whole", true, upstreamtest.Break(chunkEvent + chunkEvent[:60])},
		{"cut while collected", "collected", false, upstreamtest.Break(chunkEvent)},
		{"cut whole", "whole", false, junk("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n" + wholeReply)},
		{"error", "whole", false, upstreamtest.JSON(http.StatusBadRequest, faultBody)},
		{"error page", "whole", false, upstreamtest.JSON(http.StatusBadGateway, "<html>pr1vate s3cret-provider-key</html>")},
		{"error for the credential", "whole", false, upstreamtest.JSON(http.StatusUnauthorized, faultBody)},
		{"error with status 200", "whole", false, upstreamtest.JSON(http.StatusOK, faultBody)},
		{"error event first", "whole", true, upstreamtest.Stream("data: " + faultBody + "\n\n")},
		{"error event later", "whole", true, upstreamtest.Stream(chunkEvent + "data: " + faultBody + "\n\n")},
		{"error event while collected", "collected", false, upstreamtest.Stream(chunkEvent + "data: " + faultBody + "\n\n")},
		{"redirect", "whole", false, upstreamtest.JSON(http.StatusFound, "{}", "Location", "http://127.0.0.1:1/?pr1vate")},
		{"not JSON", "whole", false, upstreamtest.JSON(http.StatusOK, "pr1vate")},
		{"not an event", "whole", true, upstreamtest.Stream("data: pr1vate\n\n")},
		{"not HTTP", "whole", false, junk("pr1vate is not HTTP\r\n\r\n")},
		{"bad header", "whole", false, junk("HTTP/1.1 200 OK\r\npr1vate without a colon\r\n\r\n")},
		{"bad chunk", "whole", true, junk("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\npr1vate\r\n")},
		{"bad gzip", "whole", false, upstreamtest.JSON(http.StatusOK, "pr1vate", "Content-Encoding", "gzip")},
		{"strange encoding", "whole", false, upstreamtest.JSON(http.StatusOK, "x", "Content-Encoding", "pr1vate")},
		{"strange names", "whole", false, upstreamtest.JSON(http.StatusOK, wholeReply, "X-Request-Id", "pr1vate with blanks", "X-Ratelimit-Pr1vate", "1")},
		{"more than was announced", "whole", false, func(c *upstreamtest.Conn) {
			c.Whole(http.StatusOK, "application/json", wholeReply)
			c.Send("pr1vate bytes that belong to no answer")
			c.Gone(patience)
		}},
		{"silence", "whole", false, func(c *upstreamtest.Conn) { c.Gone(patience) }},
		{"nobody there", "away", false, nil},
		{"no such model", "nothing", false, nil},
	}
}

// askBadly sends requests that the gateway rejects without an upstream request.
func (g *watched) askBadly(t *testing.T) {
	t.Helper()
	for _, body := range []string{
		`pr1vate`, `{"pr1vate`, `{"model":"whole","messages":pr1vate}`, `{"model":"whole","stream":"pr1vate"}`,
		`{"model":"whole","pr1vate":1,"pr1vate":2}`, `{"model":{"pr1vate":1}}`, `["pr1vate"]`, "{\"model\":\"whole\",\"messages\":\"pr1vate \xff\"}",
		`{"model":"whole","nvext":{"pr1vate":1}}`, `{"model":"whole","n":"pr1vate"}`, `{"model":"whole","stream_options":"pr1vate"}`,
	} {
		if answer := g.ask(t, body); strings.Contains(answer, secret) {
			t.Errorf("the client got %s", answer)
		}
	}
	good := `{"model":"whole","messages":[{"role":"user","content":"pr1vate"}]}`
	for _, header := range [][2]string{
		{"Authorization", "Bearer pr1vate-wrong-key"}, {"Authorization", ""}, {"X-Api-Key", "pr1vate-wrong-key"},
		{"Content-Type", "text/pr1vate"}, {"Content-Encoding", "pr1vate"}, {"Traceparent", "pr1vate"},
	} {
		g.ask(t, good, header[0], header[1])
	}
	for _, raw := range []string{
		"GET /pr1vate?pr1vate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET / HTTP/1.1\r\nAuthorization pr1vate\r\n\r\n",
		"pr1vate\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: pr1vate\r\n\r\n",
		"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Api-Key: s3cret-client-key-0001\r\nContent-Length: 7\r\n\r\npr1vate",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, raw)
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
}

// reloadBadly writes a file with an error next to each secret.
func (g *watched) reloadBadly(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(g.config, []byte(strings.Join(badConfigurations(), "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	g.log.WaitFor(t, "the changed configuration is refused", 1, g.ended)
	if err := os.WriteFile(g.config, []byte(badConfigurations()[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	g.log.WaitFor(t, "base_url", 1, g.ended)
}

// badConfigurations lists files whose errors are in secrets.
func badConfigurations() []string {
	return []string{`
keys: [s3cret, "s3cret with blanks in it", s3cret-twice-0000001, s3cret-twice-0000001]
providers:
  a: { preset: openai, api_key: "s3cret key", auth: none }
  b: { protocol: openai-chat, base_url: "https://user:s3cret@example.com/v1", api_key: s3cret }
  c: { protocol: openai-chat, base_url: "http://example.com/v1", api_key: s3cret }
  d: { preset: openai, apikey: s3cret }
  e: { preset: openai, api_key: { value: s3cret } }
  f: { preset: openai, api_key: [s3cret] }
  g: { preset: openai, api_key: s3cret, headers: { Authorization: "Bearer s3cret", "bad header": s3cret, X-Token: [s3cret] } }
  h: { preset: openai, api_key: "${s3cret-in-braces}" }
models:
  m: { targets: [nobody/m] }
traces: { endpoint: "http://user:s3cret@127.0.0.1:4318" }
`,
		"keys: s3cret-not-a-list-0001\n",
		"keys: { s3cret: s3cret }\n",
		"providers: { openai: s3cret }\n",
		"providers: [s3cret]\n",
		"providers: { openai: { preset: openai, api_key: s3cret\n",
		"providers:\n  openai:\n    api_key: \"s3cret\n",
		"providers:\n  openai:\n    api_key: 's3cret' s3cret\n",
		"providers:\n  openai:\n  api_key: s3cret\n    x: s3cret\n",
		"keys:\n\t- s3cret\n",
		"keys: &a [s3cret, *b]\n",
		"keys: !!s3cret s3cret\n",
		"keys: [s3cret-key-0000000001]\nkeys: [s3cret-key-0000000001]\n",
	}
}

// ask sends a chat request with marked texts in every header and returns the whole response.
func (g *watched) ask(t *testing.T, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.url+"/v1/chat/completions?key=pr1vate", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Cookie", "X-Custom", "Idempotency-Key", "X-Forwarded-For", "Referer"} {
		req.Header.Set(name, "pr1vate"+fmt.Sprint(g.sent.Load()))
	}
	req.Header.Set("Content-Type", testrig.JSONMedia)
	req.Header.Set("Authorization", "Bearer s3cret-client-key-0001")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body) // a truncated response counts too
	g.sent.Add(1)
	return fmt.Sprint(resp.Status, resp.Header, string(answer))
}
