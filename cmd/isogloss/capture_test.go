package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

const (
	plainResponse = `{"id":"chatcmpl-7","object":"chat.completion","created":1770000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello Ada!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}`
	plainRequest  = `{"model":"fast","max_tokens":9,"messages":[{"role":"user","content":"My name is Ada."}]}`
)

// capturing starts a capture and returns when it is attached.
func capturing(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"capture", "--out", dir}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), environment([]string{})
	p := watch(t, cmd)
	p.log.WaitFor(t, "attached to the gateway", 1, p.ended)
	return p
}

// captured returns the files of a folder and their contents.
func captured(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f] = read(t, f)
	}
	return out
}

func send(t *testing.T, url, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestCaptureOverRestart checks that a capture continues with the new process when the
// captured process is replaced.
func TestCaptureOverRestart(t *testing.T) {
	r := startRow(t)
	r.upstream.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	dir := t.TempDir()
	c := capturing(t, dir, "--listen", strings.TrimPrefix(r.url, "http://"), "--all", "--count", "2")
	if status, body := send(t, r.url+"/v1/messages", plainRequest); status != http.StatusOK {
		t.Fatal(status, body)
	}
	r.until("the first is not written", func() bool { return len(captured(t, dir)) == 1 })
	r.replace()
	r.until("it is not attached again", func() bool { return strings.Count(c.log.String(), "attached to the gateway") == 2 })
	http.DefaultClient.CloseIdleConnections() // connections to the old process
	if status, body := send(t, r.url+"/v1/messages", plainRequest); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if code := c.exit(t); code != 0 {
		t.Errorf("the exit code is %d: %s", code, c.log)
	}
	if n := len(captured(t, dir)); n != 2 {
		t.Errorf("%d files", n)
	}
	r.says("capture attached")
}

const secretive = `
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
keys: [sk-client-canary-key-1]
providers:
  bad: { protocol: openai-chat, base_url: "%s", api_key: sk-bad-canary-key, headers: { X-Extra: extra-canary-value } }
  good: { protocol: openai-chat, base_url: "%s", api_key: sk-good-canary-key }
models:
  fast: { targets: [bad/one, good/two] }
`

// TestCaptureHasNoCredentials checks that no file contains a credential, not even with
// --clear, and that a file names the failed attempts and contains the successful one.
func TestCaptureHasNoCredentials(t *testing.T) {
	bad, good := upstreamtest.New(t), upstreamtest.New(t)
	bad.Answer(upstreamtest.JSON(http.StatusInternalServerError, `{"error":{"message":"sk-bad-canary-key broke"}}`))
	good.Answer(upstreamtest.JSON(http.StatusOK, strings.Replace(plainResponse, "Hello Ada!", "Hello sk-good-canary-key and sk-client-canary-key-1!", 1)))
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(secretive, bad.BaseURL(), good.BaseURL()))
	p := serve(t, nil, "-c", file)
	address := strings.TrimPrefix(p.url, "http://")
	digest := fmt.Sprintf("sha256:%.12x", sha256.Sum256([]byte("sk-client-canary-key-1")))
	for name, flags := range map[string][]string{"clear": {"--clear"}, "masked": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := capturing(t, dir, append([]string{"--listen", address, "--key", digest, "--json"}, flags...)...)
			ask := strings.Replace(plainRequest, "Ada", "Ada, sk-client-canary-key-1", 1)
			status, body := send(t, p.url+"/v1/messages?key=query-canary-key", ask,
				"X-Api-Key", "sk-client-canary-key-1", "Cookie", "session=cookie-canary-value", "Authorization", "Bearer other-canary-token", "User-Agent", "sdk/1.2 (mail canary@example.com)")
			if status != http.StatusOK {
				t.Fatal(status, body)
			}
			if code := c.exit(t); code != 0 {
				t.Fatalf("the exit code is %d: %s", code, c.log)
			}
			var said struct{ File, Client, Upstream string }
			if err := json.Unmarshal([]byte(c.out.String()), &said); err != nil || said.Client != "anthropic" || said.Upstream != "chat" {
				t.Errorf("it prints %s: %v", c.out, err)
			}
			text := read(t, said.File)
			if strings.Contains(text, "canary") {
				t.Errorf("a credential is left:\n%s", text)
			}
			if got := strings.Contains(text, "My name is Ada"); got != (name == "clear") {
				t.Errorf("the prompt is there: %t\n%s", got, text)
			}
			for _, want := range []string{"another attempt: bad/one, status 500", "target good/two", "client: sdk/1.2\n", `"model":"two"`, "model fast two"} {
				if !strings.Contains(text, want) {
					t.Errorf("there is no %q:\n%s", want, text)
				}
			}
			if info, err := os.Stat(said.File); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if res := command(t, t.TempDir(), nil, "replay", said.File, "-c", file); res.code != 0 || !strings.Contains(res.stdout, "fast is good/two") {
				t.Errorf("replay says %d %s %s", res.code, res.stdout, res.stderr)
			}
		})
	}
}

// TestCaptureExpandsReferences checks that a request with previous_response_id is
// captured with its references expanded, because only this gateway can expand them.
func TestCaptureExpandsReferences(t *testing.T) {
	up := upstreamtest.New(t)
	p := serve(t, nil, "-c", writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL())))
	previous := ""
	for _, stream := range []bool{false, true} {
		up.Answer(upstreamtest.JSON(http.StatusOK, strings.Replace(plainResponse, `"id":"`, `"id":"`+fmt.Sprint(stream), 1)))
		dir := t.TempDir()
		c := capturing(t, dir, "--listen", strings.TrimPrefix(p.url, "http://"), "--model", "fast", "--clear")
		status, body := send(t, p.url+"/v1/responses", fmt.Sprintf(`{"model":"fast","stream":%t,"previous_response_id":%q,"input":"stream %t"}`, stream, previous, stream))
		if status != http.StatusOK {
			t.Fatal(status, body)
		}
		if code := c.exit(t); code != 0 {
			t.Fatal(c.log)
		}
		for file, text := range captured(t, dir) {
			res := command(t, t.TempDir(), nil, "replay", file)
			if res.code != 0 || !strings.Contains(res.stdout, "same") {
				t.Errorf("replay says %d %s %s\n%s", res.code, res.stdout, res.stderr, text)
			}
			if previous != "" && (!strings.Contains(text, "stream false") || !strings.Contains(body, previous)) {
				t.Errorf("the past is not there:\n%s", text)
			}
		}
		var response struct{ ID string }
		if !stream && json.Unmarshal([]byte(body), &response) != nil {
			t.Fatal(body)
		}
		previous = response.ID
	}
}

// TestReplayDiffers checks that a replay with another configuration reports the
// differences.
func TestReplayDiffers(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(upstreamtest.JSON(http.StatusOK, plainResponse))
	p := serve(t, nil, "-c", writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, up.BaseURL())))
	dir := t.TempDir()
	c := capturing(t, dir, "--listen", strings.TrimPrefix(p.url, "http://"), "--model", "fast")
	if status, body := send(t, p.url+"/v1/messages", plainRequest); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if code := c.exit(t); code != 0 {
		t.Fatal(c.log)
	}
	file := strings.TrimSpace(c.out.String())
	const provider = "listen: 127.0.0.1:0\nproviders: { p: { %s } }\nmodels: { %s: { targets: [p/model] } }\n"
	for _, x := range []struct {
		name, config string
		args         []string
		code         int
		want         string
	}{
		{"the same", fmt.Sprintf(provider, "protocol: openai-chat, base_url: 'https://api.example.com/v1', api_key: k", "fast"), nil, 0, "same"},
		{"another dialect", fmt.Sprintf(provider, "preset: anthropic, api_key: k", "fast"), nil, 1, "  heard dialect\n    was chat\n    is  anthropic\n"},
		{"another model", fmt.Sprintf(provider, "protocol: openai-chat, base_url: 'https://api.example.com/v1', api_key: '${NOT_HERE}'", "n"), []string{"--model", "n"}, 0, "n is p/model"},
		{"no such model", fmt.Sprintf(provider, "protocol: openai-chat, base_url: 'https://api.example.com/v1', api_key: '${NOT_HERE}'", "n"), nil, 1, `has no model "fast"; name one that it has with --model`},
		{"a setting", fmt.Sprintf(provider, "preset: mistral, api_key: k", "fast"), nil, 1, "  heard /max_tokens\n    is  9\n"},
	} {
		t.Run(x.name, func(t *testing.T) {
			args := append([]string{"replay", file, "-c", writeFile(t, "next.yaml", x.config)}, x.args...)
			res := command(t, t.TempDir(), nil, args...)
			if res.code != x.code || !strings.Contains(res.stdout+res.stderr, x.want) {
				t.Errorf("got %d\n%s%s\nwant %d with %s", res.code, res.stdout, res.stderr, x.code, x.want)
			}
		})
	}
	if res := command(t, t.TempDir(), nil, "conform", "--corpus", dir); res.code != 0 || !strings.Contains(res.stdout, "1 passed, 0 failed") {
		t.Errorf("conform says %d %s %s", res.code, res.stdout, res.stderr)
	}
}

func TestCaptureWithoutGateway(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{nil, "nothing to capture; write --model"},
		{[]string{"--all", "--listen", "127.0.0.1:1"}, "no gateway of this user was found on this machine; start it with 'isogloss serve'"},
		{[]string{"--all", "--socket", "/nowhere.sock"}, "no gateway is running there; start it with 'isogloss serve'"},
		{[]string{"--all", "--count", "0"}, "must be positive"},
	} {
		res := command(t, t.TempDir(), []string{"TMPDIR=" + t.TempDir()}, append([]string{"capture"}, x.args...)...)
		if res.code != 1 || !strings.Contains(res.stderr, x.want) {
			t.Errorf("capture %v: %d %s", x.args, res.code, res.stderr)
		}
	}
}

// respondEither is an upstream that streams if requested.
func respondEither(c *upstreamtest.Conn) {
	var ask struct{ Stream bool }
	if json.Unmarshal(c.Request.Body, &ask) != nil || !ask.Stream {
		c.Whole(http.StatusOK, "application/json", plainResponse)
		return
	}
	c.BeginStream()
	for _, data := range []string{
		`{"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello "},"finish_reason":null}]}`,
		`{"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[{"index":0,"delta":{"content":"Ada!"},"finish_reason":null}]}`,
		`{"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"id":"chatcmpl-8","object":"chat.completion.chunk","created":1770000000,"model":"m","choices":[],"usage":{"prompt_tokens":11,"completion_tokens":2,"total_tokens":13}}`,
		`[DONE]`,
	} {
		c.Chunk("data: " + data + "\n\n")
	}
	c.EndStream()
}

// TestReplayWithTheSameConfiguration checks that an exchange that depends on the
// configuration replays without differences with that configuration, for every dialect
// and path.
func TestReplayWithTheSameConfiguration(t *testing.T) {
	requests := []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"fast","max_completion_tokens":9,"messages":[{"role":"user","content":"I am Ada."}]}`},
		{"/v1/chat/completions", `{"model":"fast","stream":true,"max_completion_tokens":9,"messages":[{"role":"user","content":"I am Ada."}]}`},
		{"/v1/responses", `{"model":"fast","input":"I am Ada."}`},
		{"/v1/responses", `{"model":"fast","stream":true,"input":"I am Ada.","tools":[{"type":"custom","name":"g","description":"Ada's."}]}`},
		{"/v1/messages", `{"model":"fast","max_tokens":9,"stream":true,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"I am Ada."}]}`},
		{"/v1beta/models/fast:generateContent", `{"contents":[{"role":"user","parts":[{"text":"I am Ada."}]}],"generationConfig":{"topK":7}}`},
		{"/v1/models/fast:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"I am Ada."}]}]}`},
		{"/v1beta/models/fast:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"I am Ada."}]}]}`},
		{"/v1/chat/completions", `{"model":"fast","temperature":"no number","messages":[{"role":"user","content":"I am Ada."}]}`},
	}
	for name, config := range map[string]string{
		"nothing":         `providers: { p: { protocol: openai-chat, base_url: %q } }`,
		"upstream_stream": `providers: { p: { protocol: openai-chat, base_url: %q, upstream_stream: always } }`,
		"include_usage":   `providers: { p: { protocol: openai-chat, base_url: %q, include_usage: true } }`,
		"quirks":          `providers: { p: { preset: mistral, base_url: %q, api_key: sk-some-key } }`,
		"loose":           "fidelity: loose\nproviders: { p: { protocol: openai-chat, base_url: %q } }",
		"ledger":          "store: sqlite\ndata: data\nproviders: { p: { protocol: openai-chat, base_url: %q } }\nkeys: [sk-client-canary-key-1]",
	} {
		t.Run(name, func(t *testing.T) {
			up := upstreamtest.New(t)
			up.Answer(respondEither)
			file := writeFile(t, "isogloss.yaml", fmt.Sprintf(config, up.BaseURL())+"\nlisten: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nmodels: { fast: { targets: [p/m] } }\n")
			p := serve(t, nil, "-c", file)
			dir := t.TempDir()
			c := capturing(t, dir, "--listen", strings.TrimPrefix(p.url, "http://"), "--all", "--count", fmt.Sprint(len(requests)))
			for _, r := range requests {
				send(t, p.url+r.path, r.body, "Authorization", "Bearer sk-client-canary-key-1")
			}
			if code := c.exit(t); code != 0 {
				t.Fatalf("the exit code is %d: %s", code, c.log)
			}
			files := captured(t, dir)
			if len(files) != len(requests) {
				t.Errorf("%d files of %d requests: %s", len(files), len(requests), c.log)
			}
			args := []string{"replay", "-c", file}
			for f, text := range files {
				args = append(args, f)
				if strings.Contains(text, "Ada") {
					t.Errorf("a name is left:\n%s", text)
				}
			}
			if res := command(t, t.TempDir(), nil, args...); res.code != 0 {
				t.Errorf("%s%s", res.stdout, res.stderr)
			}
			if res := command(t, t.TempDir(), nil, "conform", "--corpus", dir); !strings.Contains(res.stdout, ", 0 failed") || strings.Count(res.stdout, "ok  ")+strings.Count(res.stdout, "left ") != len(requests) {
				t.Errorf("conform says %d %s %s", res.code, res.stdout, res.stderr)
			}
		})
	}
}
