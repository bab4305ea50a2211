package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// trap is a server that nobody may call.
type trap struct {
	net.Listener
	calls atomic.Int64
}

// newTrap listens on all loopback addresses.
func newTrap() *trap {
	t := &trap{Listener: testrig.Must(net.Listen("tcp", "127.0.0.1:0"))}
	go func() {
		for {
			c, err := t.Accept()
			if err != nil {
				return
			}
			t.calls.Add(1)
			_ = c.Close() // a call is all that counts
		}
	}()
	return t
}

func (t *trap) port() string { _, port, _ := net.SplitHostPort(t.Addr().String()); return port }

// addresses returns the forms of the trap's address that filters miss.
func addresses() []string {
	return []string{"http://127.0.0.1:PORT/x.png", "http://localhost:PORT/x.png", "http://127.1:PORT/", "http://0.0.0.0:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://2130706433:PORT/", "http://0177.0.0.1:PORT/", "http://user@127.0.0.1:PORT/", "http://example.com@127.0.0.1:PORT/"}
}

// mediaBodies returns requests that name a URL, by dialect. URL and MODEL are replaced.
func mediaBodies() map[testrig.Dialect]map[string]string {
	return map[testrig.Dialect]map[string]string{
		testrig.Chat: {
			"image": `{"model":"MODEL","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"URL"}}]}]}`,
			"base":  `{"model":"MODEL","messages":[{"role":"user","content":"hi"}],"api_base":"URL","base_url":"URL","custom_host":"URL","api_key":"x"}`,
		},
		testrig.Responses: {
			"image": `{"model":"MODEL","store":false,"input":[{"role":"user","content":[{"type":"input_image","image_url":"URL"}]}]}`,
			"file":  `{"model":"MODEL","store":false,"input":[{"role":"user","content":[{"type":"input_file","file_url":"URL"}]}]}`,
			"mcp":   `{"model":"MODEL","store":false,"input":"hi","tools":[{"type":"mcp","server_label":"x","server_url":"URL"}]}`,
		},
		testrig.Messages: {
			"image":    `{"model":"MODEL","max_tokens":5,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"URL"}}]}]}`,
			"document": `{"model":"MODEL","max_tokens":5,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"URL"}}]}]}`,
		},
		testrig.Gemini: {
			"file": `{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"URL"}}]}]}`,
		},
	}
}

func ssrfAttacks() (all []attack) {
	for d, bodies := range mediaBodies() {
		for what, body := range bodies {
			for i, u := range dialects() {
				list := addresses()
				if d != u {
					list = list[i : i+2] // the gateway would fetch in the translation; two forms will do
				}
				for _, address := range list {
					target := targetName(u)
					fill := func(t *trap) request {
						url := strings.Replace(address, "PORT", t.port(), 1)
						q := request{path: d.Path(target+"/m", false), key: "full", body: strings.NewReplacer("URL", url, "MODEL", target+"/m").Replace(body)}
						q.headers = []string{"X-Base-Url", url, "X-Custom-Host", url, "X-Portkey-Custom-Host", url, "Api-Base", url, "Anthropic-Version", "2023-06-01"}
						return q
					}
					all = append(all, attack{name: fmt.Sprintf("ssrf/%s-%s/%s/%s", targetName(d), target, what, address), do: trapped(fill)})
				}
			}
		}
	}
	return append(append(all, redirectAttacks()...), workerAttacks()...)
}

// trapped sends a request and checks that the trap was not called.
func trapped(fill func(*trap) request) func(context.Context, *rig) *evidence {
	return func(ctx context.Context, r *rig) *evidence {
		t := newTrap()
		defer t.Close()
		e := r.send(ctx, fill(t))
		e.problem(t.calls.Load() > 0, "the gateway called an address of the request")
		e.problem(e.status == 0, "no response")
		return e
	}
}

// redirectAttacks are upstreams that send the gateway, with its key, elsewhere.
func redirectAttacks() (all []attack) {
	for _, d := range dialects() {
		for _, status := range []int{300, 301, 302, 303, 305, 307, 308} {
			for _, stream := range []bool{false, true} {
				name := fmt.Sprintf("ssrf/redirect/%s/%d", targetName(d), status)
				if stream {
					name += "-stream"
				}
				do := func(ctx context.Context, r *rig) *evidence {
					t := newTrap()
					defer t.Close()
					model := fmt.Sprintf("redirect-%d-%t", status, stream)
					r.script(model, func(c *testrig.Call) bool {
						return c.Respond(status, testrig.JSONMedia, "{}", "Location", "http://"+t.Addr().String()+"/v1/chat/completions?k="+spoof, "Refresh", "0; url=http://"+t.Addr().String())
					})
					q := testrig.Query{Model: targetName(d) + "/" + model, Prompt: "hi", Stream: stream}
					e := r.send(ctx, request{path: d.Path(q.Model, stream), body: d.Body(q), key: "full", headers: []string{"Anthropic-Version", "2023-06-01"}})
					e.problem(t.calls.Load() > 0, "the gateway followed the redirect")
					e.problem(e.header.Get("Location")+e.header.Get("Refresh") != "", "the client is redirected")
					e.problem(e.status < 500, "status %d, want 5xx", e.status)
					return e
				}
				all = append(all, attack{name: name, do: do, holds: []oracle{lacks(spoof), errorOf(d)}})
			}
		}
	}
	return all
}

// script sets the upstream's script for a model.
func (r *rig) script(model string, s testrig.Script) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scripts[model] = s
}

// workerRows are entries of a workers file that the gateway must not use; PORT is that of a
// trap. Each offers the model named by its key.
func workerRows() map[string]string {
	row := func(url, model string) string {
		return fmt.Sprintf(`{"id":%q,"model":%q,"url":%q,"protocol":"openai-chat"}`, model, model, url)
	}
	return map[string]string{
		"outside-network": row("http://127.77.0.1:PORT/v1", "outside-network"),
		"metadata":        row("http://169.254.169.254/v1", "metadata"),
		"mapped":          row("http://[::ffff:127.77.0.1]:PORT/v1", "mapped"),
		"any":             row("http://0.0.0.0:PORT/v1", "any"),
		"name":            row("http://localhost:PORT/v1", "name"),
		"userinfo":        row("http://127.0.0.1@127.77.0.1:PORT/v1", "userinfo"),
		"file":            row("file:///etc/passwd", "file"),
		"gopher":          row("gopher://127.0.0.1:PORT/", "gopher"),
		"fragment":        row("http://127.77.0.1:PORT#@127.0.0.1/", "fragment"),
		"decimal":         row("http://2135752705:PORT/v1", "decimal"),
		"takes-pattern":   row("http://127.0.0.1:PORT/v1", "chat/takes-pattern"),
		"star":            row("http://127.0.0.1:PORT/v1", "*"),
		"star-prefix":     row("http://127.0.0.1:PORT/v1", "m*"),
		"not-listed":      row("http://127.0.0.1:PORT/v1", "not-listed"),
		"dots":            row("http://127.0.0.1:PORT/v1", "listed-/../x"),
	}
}

// workerAttacks offer workers that are not allowed. The workers file of the rig has all of
// them, and every attack requests one model.
func workerAttacks() (all []attack) {
	for name := range workerRows() {
		model := map[string]string{"takes-pattern": "chat/takes-pattern", "star": "anything", "star-prefix": "mmm", "dots": "listed-/../x"}[name]
		if model == "" {
			model = name
		}
		do := func(ctx context.Context, r *rig) *evidence {
			before := r.trap.calls.Load()
			e := r.send(ctx, request{path: "/v1/chat/completions", key: "full", body: fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model)})
			e.problem(r.trap.calls.Load() > before, "the gateway called a worker that is not allowed")
			if name == "takes-pattern" {
				e.problem(e.status != http.StatusOK || len(e.upstream) != 1, "the worker took the model from the file's pattern: status %d", e.status)
			} else {
				e.problem(e.status < 400 || e.status > 499, "status %d, want 4xx: the worker's model exists", e.status)
			}
			return e
		}
		all = append(all, attack{name: "ssrf/worker/" + name, do: do})
	}
	return all
}

// ssrfRig starts a gateway with a file of workers.
func ssrfRig(ctx context.Context, o options) (*rig, error) {
	var rows []string
	t := newTrap()
	for _, row := range workerRows() {
		rows = append(rows, strings.Replace(row, "PORT", t.port(), 1))
	}
	file := filepath.Join(os.TempDir(), "redteam-workers-"+t.port()+".json")
	defer os.Remove(file)
	if err := os.WriteFile(file, []byte("["+strings.Join(rows, ",")+"]"), 0o600); err != nil {
		return nil, err
	}
	r, err := start(func(r *rig) *config {
		r.trap = t
		c := tenantStore(r)
		c.top = append(c.top, fmt.Sprintf("discover: { file: %q, networks: [127.0.0.0/24], models: [\"listed-*\", \"chat/*\", \"outside-network\", metadata, mapped, any, name, userinfo, file, gopher, fragment, decimal], api_key: %s }", file, workerKey))
		return c
	})(ctx, o)
	return r, err
}
