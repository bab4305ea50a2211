package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// discovering is a configuration that finds its workers in a file of a folder.
func discovering(folder, more string) (list, configuration string) {
	list = filepath.Join(folder, "workers.json")
	return list, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
discover: { file: %q, networks: [127.0.0.0/8] }
%s`, filepath.Join(folder, "data"), list, more)
}

// Workers that are found are models. What the file says of a name is not theirs.
func TestWorkersAreModels(t *testing.T) {
	own, up := upstreamtest.New(t), upstreamtest.New(t)
	own.Answer(echo)
	up.Answer(echo)
	list, configuration := discovering(t.TempDir(), fmt.Sprintf(`
providers:
  up: { protocol: openai-chat, base_url: %q }
models:
  fast:   { targets: [up/real] }
  joined: { targets: [discovered/found] }
  empty:  { targets: [discovered/nobody] }
`, own.BaseURL()))
	put := func(workers string) {
		t.Helper()
		if err := os.WriteFile(list+".next", []byte(workers), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(list+".next", list); err != nil {
			t.Fatal(err)
		}
	}
	worker := func(id, model, name string) string {
		return fmt.Sprintf(`{"id":%q,"model":%q,"protocol":"openai-chat","url":%q,"name":%q}`, id, model, up.BaseURL(), name)
	}
	put("[" + worker("w1", "found", "inner") + "," + worker("w2", "fast", "stolen") + "]")
	g := start(t, configuration, quick())

	untilServed := func(model, text string) {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			got, body, _ := g.try(t, model, "")
			if got == 200 && strings.Contains(body, text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d %s, want 200 with %q", model, got, body, text)
			}
		}
	}
	if got, body, h := g.try(t, "found", ""); got != 200 || h.Get("Isogloss-Target") != "file:w1/inner" { // also the first that comes
		t.Errorf("%d %s, answered by %s", got, body, h.Get("Isogloss-Target"))
	}
	if _, page := g.get(t, g.url+"/v1/models"); !strings.Contains(page, `"found"`) || !strings.Contains(page, `"joined"`) || strings.Count(page, `"fast"`) != 1 {
		t.Errorf("the list is %s", page)
	}
	g.want(t, "joined", "", 200, "inner")
	g.want(t, "fast", "", 200, "real") // and not the worker's
	status, body, header := g.try(t, "empty", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "no_worker") || header.Get("Retry-After") == "" {
		t.Errorf("no worker: %d %s %v", status, body, header)
	}

	put("[" + worker("w3", "nobody", "late") + "]") // whoever was the last of a model is kept for a while
	untilServed("empty", "late")
	g.want(t, "fast", "", 200, "real")
	for _, r := range up.Requests() {
		if strings.Contains(string(r.Body), "stolen") {
			t.Error("a worker has taken over a model of the file")
		}
	}
}

// The port is opened when workers are known: also where the source is away and they
// are those of the last time, the first request is served.
func TestWorkersBeforeThePort(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	list, configuration := discovering(t.TempDir(), "")
	if err := os.WriteFile(list, fmt.Appendf(nil, `[{"id":"w1","model":"found","protocol":"openai-chat","url":%q,"name":"inner"}]`, up.BaseURL()), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, configuration, quick())
	if line := g.log.waitFor(t, `"msg":"listening"`, 1); !strings.Contains(line, `"models":1,`) {
		t.Error(line)
	}
	g.want(t, "found", "", 200, "inner")
	g.wait(t)
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	g = start(t, configuration, quick())
	g.want(t, "found", "", 200, "inner")
}

// A worker is asked in the way of its engine, whether its bytes pass or are translated.
func TestWorkersOfAnEngine(t *testing.T) {
	up := upstreamtest.New(t)
	up.Answer(echo)
	list, configuration := discovering(t.TempDir(), "")
	worker := func(model, engine string) string {
		return fmt.Sprintf(`{"id":%q,"model":%q,"protocol":"openai-chat","url":%q,"engine":%q}`, model, model, up.BaseURL(), engine)
	}
	if err := os.WriteFile(list, []byte("["+worker("a", "ollama")+","+worker("b", "vllm")+","+worker("c", "anthropic")+","+worker("d", "nobody's")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, configuration, quick())
	for model, want := range map[string]string{"a": `"max_tokens":7`, "b": `"max_completion_tokens":7`, "c": `"max_completion_tokens":7`, "d": `"max_completion_tokens":7`} {
		for path, limit := range map[string]string{"/v1/chat/completions": "max_completion_tokens", "/v1/messages": "max_tokens"} {
			body := fmt.Sprintf(`{"model":%q,%q:7,"messages":[{"role":"user","content":"hi"}]}`, model, limit)
			resp, err := http.Post(g.url+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			requests := up.Requests()
			if last := string(requests[len(requests)-1].Body); resp.StatusCode != http.StatusOK || !strings.Contains(last, want) {
				t.Errorf("%s, model %s: %s; the worker got %s, want %s", path, model, resp.Status, last, want)
			}
		}
	}
}

// What is looked for on this machine is known by a preset that says the same of it.
func TestEnginesArePresets(t *testing.T) {
	for _, e := range discover.Engines() {
		preset, ok := provider.Lookup(e.Preset)
		if want := fmt.Sprintf("http://127.0.0.1:%d/v1", e.Port); !ok || preset.BaseURL != want {
			t.Errorf("%s: the preset %q is at %q, want %s", e.Name, e.Preset, preset.BaseURL, want)
		}
	}
}
