package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// discovering returns a configuration that discovers workers from a file in a folder, and
// the file's path.
func discovering(folder, more string) (list, configuration string) {
	list = filepath.Join(folder, "workers.json")
	return list, fmt.Sprintf(`
listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
data: %q
discover: { file: %q, networks: [127.0.0.0/8] }
%s`, filepath.Join(folder, "data"), list, more)
}

// TestWorkersAreModels checks that discovered workers are served as models and that a
// configured model or pattern takes precedence over workers of its names.
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
  chat/*: { targets: [up/*] }
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
	put("[" + worker("w1", "found", "inner") + "," + worker("w2", "fast", "stolen") + "," + worker("w4", "chat/big", "stolen") + "," + worker("w5", "*", "stolen") + "]")
	g := start(t, configuration, quick())

	untilServed := func(model, text string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s returns 200 with %q", model, text), func() bool {
			got, body, _ := g.try(t, model, "")
			return got == 200 && strings.Contains(body, text)
		})
	}
	if got, body, h := g.try(t, "found", ""); got != 200 || h.Get("Isogloss-Target") != "file:w1/inner" { // the first request already succeeds
		t.Errorf("%d %s, served by %s", got, body, h.Get("Isogloss-Target"))
	}
	if _, page := g.get(t, g.url+"/v1/models"); !strings.Contains(page, `"found"`) || !strings.Contains(page, `"joined"`) || strings.Count(page, `"fast"`) != 1 {
		t.Errorf("the list is %s", page)
	}
	g.want(t, "joined", "", 200, "inner")
	g.want(t, "fast", "", 200, "real")    // the configured target, not the worker
	g.want(t, "chat/big", "", 200, "big") // the configured pattern, not the worker
	if got, body, _ := g.try(t, "unknown", ""); got != http.StatusNotFound {
		t.Errorf("a worker serves every name: %d %s", got, body)
	}
	status, body, header := g.try(t, "empty", "")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "no_worker") || header.Get("Retry-After") == "" {
		t.Errorf("no worker: %d %s %v", status, body, header)
	}

	put("[" + worker("w3", "nobody", "late") + "]") // the last worker of a model stays for a grace period
	untilServed("empty", "late")
	g.want(t, "fast", "", 200, "real")
	for _, r := range up.Requests() {
		if strings.Contains(string(r.Body), "stolen") {
			t.Error("a worker has taken over a model of the file")
		}
	}
}

// TestWorkersBeforeThePort checks that the port opens after the workers are known, so
// that the first request succeeds, even if the source is unreachable and the workers come
// from the snapshot.
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

// TestWorkersOfAnEngine checks that requests to a worker follow its engine's preset, in
// both lanes.
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

// TestEnginesArePresets checks that every engine that local discovery finds has a
// provider preset with the same settings.
func TestEnginesArePresets(t *testing.T) {
	for _, e := range discover.Engines() {
		preset, ok := provider.Lookup(e.Preset)
		if want := fmt.Sprintf("http://127.0.0.1:%d/v1", e.Port); !ok || preset.BaseURL != want {
			t.Errorf("%s: the preset %q is at %q, want %s", e.Name, e.Preset, preset.BaseURL, want)
		}
	}
}
