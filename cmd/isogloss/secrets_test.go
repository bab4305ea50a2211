package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// Texts that only the client and the upstream may see contain the word private. Texts
// that only the operator may know contain the word secret. The gateway's own messages
// contain neither.
const (
	private = "pr1vate"
	secret  = "s3cret"
)

// guarded is a configuration with a secret in every possible place.
const guarded = `
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
keys: [s3cret-client-key-0001]
providers:
  up:
    protocol: openai-chat
    base_url: %[1]s?sig=s3cret-query
    api_key: s3cret-provider-key
    headers: { X-Token: s3cret-header }
    include_usage: true
    paths: [POST /v1/audio/speech]
    timeouts: { first_byte: 1s }
  collected:
    protocol: openai-chat
    base_url: %[1]s
    api_key: s3cret-provider-key
    upstream_stream: always
  away:
    protocol: openai-chat
    base_url: http://127.0.0.1:1/v1
    api_key: s3cret-provider-key
models:
  whole:     { targets: [up/model] }
  collected: { targets: [collected/model] }
  away:      { targets: [away/model] }
traces: { endpoint: %[2]s, sample: 1 }
log: { level: %[3]s, format: %[4]s }
`

// collector receives spans and stores their bytes.
type collector struct {
	*httptest.Server
	mu sync.Mutex
	b  bytes.Buffer
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprintln(&c.b, r.Header)
		c.b.Write(body)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

const (
	chunk = `data: {"id":"c1","object":"chat.completion.chunk","model":"model","choices":[{"index":0,"delta":{"content":"pr1vate answer","reasoning":"pr1vate thought","tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{\"pr1vate\":1}"}}]}}]}` + "\n\n"
	final = `data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	whole = `{"id":"c1","object":"chat.completion","model":"model","choices":[{"index":0,"message":{"role":"assistant","content":"pr1vate answer"},"finish_reason":"pr1vate reason in prose"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	fault = `{"error":{"message":"pr1vate: key s3cret-provider-key is bad for pr1vate prompt","type":"pr1vate prose","code":"pr1vate prose"}}`
)

// exchanges lists the kinds of exchanges. Each has a text from the upstream that the
// client must receive.
func exchanges() []struct {
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
		{"whole", "whole", false, upstreamtest.JSON(http.StatusOK, whole)},
		{"streamed", "whole", true, upstreamtest.Stream(chunk + final)},
		{"collected", "collected", false, upstreamtest.Stream(chunk + final)},
		{"cut stream", "whole", true, upstreamtest.Break(chunk)},
		{"cut in an event", "whole", true, upstreamtest.Break(chunk + chunk[:60])},
		{"cut while collected", "collected", false, upstreamtest.Break(chunk)},
		{"cut whole", "whole", false, junk("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n" + whole)},
		{"error", "whole", false, upstreamtest.JSON(http.StatusBadRequest, fault)},
		{"error page", "whole", false, upstreamtest.JSON(http.StatusBadGateway, "<html>pr1vate s3cret-provider-key</html>")},
		{"error for the credential", "whole", false, upstreamtest.JSON(http.StatusUnauthorized, fault)},
		{"error with status 200", "whole", false, upstreamtest.JSON(http.StatusOK, fault)},
		{"error event first", "whole", true, upstreamtest.Stream("data: " + fault + "\n\n")},
		{"error event later", "whole", true, upstreamtest.Stream(chunk + "data: " + fault + "\n\n")},
		{"error event while collected", "collected", false, upstreamtest.Stream(chunk + "data: " + fault + "\n\n")},
		{"redirect", "whole", false, upstreamtest.JSON(http.StatusFound, "{}", "Location", "http://127.0.0.1:1/?pr1vate")},
		{"not JSON", "whole", false, upstreamtest.JSON(http.StatusOK, "pr1vate")},
		{"not an event", "whole", true, upstreamtest.Stream("data: pr1vate\n\n")},
		{"not HTTP", "whole", false, junk("pr1vate is not HTTP\r\n\r\n")},
		{"bad header", "whole", false, junk("HTTP/1.1 200 OK\r\npr1vate without a colon\r\n\r\n")},
		{"bad chunk", "whole", true, junk("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\npr1vate\r\n")},
		{"bad gzip", "whole", false, upstreamtest.JSON(http.StatusOK, "pr1vate", "Content-Encoding", "gzip")},
		{"strange encoding", "whole", false, upstreamtest.JSON(http.StatusOK, "x", "Content-Encoding", "pr1vate")},
		{"strange names", "whole", false, upstreamtest.JSON(http.StatusOK, whole, "X-Request-Id", "pr1vate with blanks", "X-Ratelimit-Pr1vate", "1")},
		{"more than was announced", "whole", false, func(c *upstreamtest.Conn) {
			c.Whole(http.StatusOK, "application/json", whole)
			c.Send("pr1vate bytes that belong to no answer")
			c.Gone(patience)
		}},
		{"silence", "whole", false, func(c *upstreamtest.Conn) { c.Gone(patience) }},
		{"nobody there", "away", false, nil},
		{"no such model", "nothing", false, nil},
	}
}

// TestLogsHaveNoPrivateContent runs every kind of exchange at every log level and
// searches the logs, metrics and spans for private content.
func TestLogsHaveNoPrivateContent(t *testing.T) {
	for _, c := range []struct{ level, format string }{{"debug", "json"}, {"debug", "text"}, {"error", "json"}} {
		t.Run(c.level+" "+c.format, func(t *testing.T) {
			t.Parallel()
			up, spans := upstreamtest.New(t), newCollector(t)
			file := writeFile(t, "isogloss.yaml", fmt.Sprintf(guarded, up.BaseURL(), spans.URL, c.level, c.format))
			p := serveQuietly(t, file, c.level, c.format)
			for _, e := range exchanges() {
				up.Answer(e.script)
				before := len(up.Requests())
				answer := p.ask(t, fmt.Sprintf(`{"model":%q,"stream":%t,"pr1vate_field":"pr1vate","messages":[{"role":"system","content":"pr1vate prompt"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"pr1vate\":1}"}}]}]}`, e.model, e.stream))
				if strings.Contains(answer, secret) {
					t.Errorf("%s: the client got %s", e.name, answer)
				}
				for _, r := range up.Requests()[before:] {
					if !bytes.Contains(r.Body, []byte(private)) || r.Header.Get("Authorization") != "Bearer s3cret-provider-key" {
						t.Errorf("%s: the upstream was sent %+v, and nothing private is at stake", e.name, r)
					}
				}
			}
			up.Answer(upstreamtest.JSON(http.StatusOK, whole))
			p.askBadly(t)
			p.abort(t, up)
			p.reloadBadly(t, file)
			_, metrics := get(t, p.metricsURL)
			p.signal(t, syscall.SIGTERM) // flushes the remaining spans
			if code := p.exit(t); code != 0 {
				t.Errorf("the exit code is %d", code)
			}
			for where, text := range map[string]string{"log": p.log.String(), "output": p.out.String(), "metrics": metrics, "spans": spans.String()} {
				wantNoCanary(t, where, text)
			}
			if n := strings.Count(spans.String(), "isogloss.exchange.id"); n < len(exchanges()) {
				t.Errorf("there are %d spans, want one for each exchange", n)
			}
			if n := strings.Count(p.log.String(), "exchange"); c.level == "debug" && n < len(exchanges()) {
				t.Errorf("there are %d lines, want one for each exchange", n)
			}
		})
	}
}

// wantNoCanary fails if a text contains a canary, also in encoded form.
func wantNoCanary(t *testing.T, where, text string) {
	t.Helper()
	for _, canary := range []string{private, secret} {
		for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%d", []byte(canary))} {
			form = strings.Trim(form, "[]")
			if _, after, found := strings.Cut(strings.ToLower(text), form); found {
				t.Errorf("the %s holds %s: %s%.200q", where, canary, form, after)
			}
		}
	}
}

// serveQuietly starts a gateway whose log may lack its addresses.
func serveQuietly(t *testing.T, file, level, format string) *process {
	t.Helper()
	if level == "debug" && format == "json" {
		return serve(t, nil, "-c", file)
	}
	// At this level or format the log lacks the addresses, so choose them.
	data, metrics := freePair(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }", "listen: "+data+"\nadmin: { listen: "+metrics+" }", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return serveAt(t, data, metrics, "-c", file)
}

// ask sends a chat request with private text in every header and returns the whole
// response.
func (p *process) ask(t *testing.T, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, p.url+"/v1/chat/completions?key=pr1vate", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"User-Agent", "Cookie", "X-Custom", "Idempotency-Key", "Openai-Beta", "X-Client-Request-Id", "X-Forwarded-For", "Referer"} {
		req.Header.Set(name, "pr1vate")
	}
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	req.Header.Set("Tracestate", "vendor=pr1vate")
	req.Header.Set("Baggage", "user=pr1vate")
	req.Header.Set("Content-Type", "application/json")
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
	return fmt.Sprint(resp.Status, resp.Header, string(answer))
}

// askBadly sends requests that the gateway rejects without an upstream request.
func (p *process) askBadly(t *testing.T) {
	t.Helper()
	for _, body := range []string{
		`pr1vate`, `{"pr1vate`, `{"model":"whole","messages":pr1vate}`, `{"model":"whole","stream":"pr1vate"}`,
		`{"model":"whole","pr1vate":1,"pr1vate":2}`, `{"model":{"pr1vate":1}}`, `["pr1vate"]`, "{\"model\":\"whole\",\"messages\":\"pr1vate \xff\"}",
		`{"model":"whole","nvext":{"pr1vate":1}}`, `{"model":"whole","n":"pr1vate"}`, `{"model":"whole","stream_options":"pr1vate"}`,
	} {
		if answer := p.ask(t, body); strings.Contains(answer, secret) {
			t.Errorf("the client got %s", answer)
		}
	}
	good := `{"model":"whole","messages":[{"role":"user","content":"pr1vate"}]}`
	for _, header := range [][2]string{
		{"Authorization", "Bearer pr1vate-wrong-key"}, {"Authorization", ""}, {"X-Api-Key", "pr1vate-wrong-key"},
		{"Content-Type", "text/pr1vate"}, {"Content-Encoding", "pr1vate"}, {"Traceparent", "pr1vate"},
	} {
		p.ask(t, good, header[0], header[1])
	}
	for _, raw := range []string{
		"GET /pr1vate?pr1vate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET / HTTP/1.1\r\nAuthorization pr1vate\r\n\r\n",
		"pr1vate\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: pr1vate\r\n\r\n",
		"POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Api-Key: s3cret-client-key-0001\r\nContent-Length: 7\r\n\r\npr1vate",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, raw)
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
}

// abort disconnects during a stream.
func (p *process) abort(t *testing.T, up *upstreamtest.Server) {
	t.Helper()
	gone := make(chan bool, 1)
	up.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(chunk)
		gone <- c.Gone(patience)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/chat/completions", strings.NewReader(`{"model":"whole","stream":true,"messages":"pr1vate"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "s3cret-client-key-0001")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = resp.Body.Close()
	if !<-gone {
		t.Error("the upstream connection stayed open after the disconnect")
	}
}

// reloadBadly writes a file with an error next to each secret.
func (p *process) reloadBadly(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(badConfigurations(), "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.log.WaitFor(t, "the changed configuration is refused", 1, p.ended)
	if err := os.WriteFile(file, []byte(badConfigurations()[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	p.log.WaitFor(t, "base_url", 1, p.ended)
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

// TestCommandsPrintNoSecret runs the commands on valid and invalid configurations and
// checks that no output contains a secret.
func TestCommandsPrintNoSecret(t *testing.T) {
	texts := append(badConfigurations(), fmt.Sprintf(guarded, "http://127.0.0.1:1/v1", "http://127.0.0.1:2", "debug", "json"))
	for i, text := range texts {
		file := writeFile(t, "isogloss.yaml", text)
		for _, args := range [][]string{{"check", "-c", file}, {"models", "-c", file}, {"models", "--json", "-c", file}} {
			r := command(t, t.TempDir(), nil, args...)
			wantNoCanary(t, args[0]+" of\n"+text, r.stdout+r.stderr)
			if good := i == len(texts)-1; good != (r.code == 0) {
				t.Errorf("%s has exit code %d of\n%s", args[0], r.code, text)
			}
		}
	}
	env := []string{"OPENAI_API_KEY=s3cret", "ANTHROPIC_API_KEY=s3cret"}
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"models"}, {"models", "--json"}, {"check"}, {"serve", "--listen", "0.0.0.0:0"}} {
		r := command(t, t.TempDir(), env, args...)
		wantNoCanary(t, strings.Join(args, " "), r.stdout+r.stderr)
	}
}
