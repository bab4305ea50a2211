package app

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
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

// TestZones checks that a gateway sends requests to workers of its own zone, to another
// zone's while these are full or failing, and to any if it has no zone.
func TestZones(t *testing.T) {
	near, far := upstreamtest.New(t), upstreamtest.New(t)
	for _, balance := range []string{"order", "weight", "least-busy", "cache"} {
		t.Run(balance, func(t *testing.T) {
			near.Answer(echo)
			far.Answer(echo)
			list, configuration := discovering(t.TempDir(), "zone: z1\nmodels: { m: { targets: [discovered/w], balance: "+balance+" } }\n")
			worker := func(id, zone string, up *upstreamtest.Server) string {
				return fmt.Sprintf(`{"id":%q,"model":"w","protocol":"openai-chat","url":%q,"capacity":1,"zone":%q}`, id, up.BaseURL(), zone)
			}
			if err := os.WriteFile(list, []byte("["+worker("a", "z2", far)+","+worker("b", "z1", near)+","+worker("c", "", far)+"]"), 0o600); err != nil {
				t.Fatal(err)
			}
			g := start(t, configuration, quick())
			target := func() string {
				t.Helper()
				got, body, h := g.try(t, "m", "")
				if got != http.StatusOK {
					t.Errorf("%d %s", got, body)
				}
				return h.Get("Isogloss-Target")
			}
			for range 20 {
				if got := target(); got != "file:b/w" {
					t.Fatalf("%s serves a request, not the worker of the zone", got)
				}
			}
			entered, release := make(chan struct{}), make(chan struct{})
			near.Answer(func(c *upstreamtest.Conn) {
				close(entered)
				<-release
				echo(c)
			})
			done := make(chan struct{})
			go func() { defer close(done); target() }()
			<-entered
			if got := target(); got == "file:b/w" {
				t.Error("a full worker serves a request")
			}
			close(release)
			<-done
			near.Answer(upstreamtest.JSON(http.StatusInternalServerError, `{"error":{"message":"broken"}}`))
			if got := target(); got == "file:b/w" {
				t.Error("a broken worker serves a request")
			}
			near.Answer(echo)
			g.replace(t, strings.Replace(configuration, "zone: z1\n", "zone: z2\n", 1))
			eventually(t, "the new zone counts", func() bool { return target() == "file:a/w" })
		})
	}
}

// TestEngineMetrics checks that workers whose engines report a queue come after others
// with least-busy, that the metrics of refused workers and of unknown engines are not
// read, and that engine_metrics turns it off.
func TestEngineMetrics(t *testing.T) {
	var queue atomic.Int64
	full, idle, other := upstreamtest.New(t), upstreamtest.New(t), upstreamtest.New(t)
	serves := func(waiting func() int64) upstreamtest.Script {
		return func(c *upstreamtest.Conn) {
			if c.Request.Path != "/metrics" {
				echo(c)
				return
			}
			if got := c.Request.Header.Get("Authorization"); got != "Bearer key-of-workers" {
				t.Errorf("the metrics are requested with %q", got)
			}
			c.Whole(http.StatusOK, "text/plain", fmt.Sprintf("vllm:num_requests_waiting{engine=\"0\"} %d\n", waiting()))
		}
	}
	full.Answer(serves(queue.Load))
	idle.Answer(serves(func() int64 { return 0 }))
	other.Answer(echo)
	queue.Store(3)
	list, configuration := discovering(t.TempDir(), "")
	configuration = strings.Replace(configuration, "networks:", "api_key: key-of-workers, networks:", 1)
	worker := func(id, model, url, engine string) string {
		return fmt.Sprintf(`{"id":%q,"model":%q,"protocol":"openai-chat","url":%q,"engine":%q}`, id, model, url, engine)
	}
	refused := strings.Replace(other.BaseURL(), "127.0.0.1", "[::1]", 1) // in none of the networks
	workers := []string{worker("a", "m", full.BaseURL(), "vllm"), worker("b", "m", idle.BaseURL(), "vllm"),
		worker("c", "u", other.BaseURL(), "ollama"), worker("d", "u", other.BaseURL(), ""), worker("e", "m", refused, "vllm"), worker("f", "single", other.BaseURL(), "vllm")}
	if err := os.WriteFile(list, []byte("["+strings.Join(workers, ",")+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := start(t, configuration, quick())
	only := func(target string) bool {
		for range 30 {
			if _, _, h := g.try(t, "m", ""); h.Get("Isogloss-Target") != target {
				return false
			}
		}
		return true
	}
	eventually(t, "the worker with a queue gets no requests", func() bool { return only("file:b/m") })
	queue.Store(0)
	eventually(t, "it gets requests again", func() bool { return !only("file:b/m") })
	for _, r := range other.Requests() {
		if r.Path == "/metrics" {
			t.Error("metrics are read that nothing uses")
		}
	}
	cfg := config.Default()
	for base, want := range map[string]string{
		"http://10.0.0.1:8000/v1":   "http://10.0.0.1:8000/metrics",
		"http://10.0.0.1/gpu-1/v1/": "http://10.0.0.1/gpu-1/metrics",
		"https://10.0.0.1":          "https://10.0.0.1/metrics",
	} {
		for _, cfg.Discover.EngineMetrics = range []bool{true, false} {
			found := discover.Snapshot{Workers: []discover.Worker{{ID: "a", Model: "m", Protocol: "openai-chat", URL: base, Engine: "vllm"}}}
			got := newPools(found, cfg).byName["m"][0].Provider.Metrics
			if cfg.Discover.EngineMetrics && got != want || !cfg.Discover.EngineMetrics && got != "" {
				t.Errorf("%s, engine_metrics %t: the metrics are at %q", base, cfg.Discover.EngineMetrics, got)
			}
		}
	}
}

// TestGatewaysShareAWorker checks that three gateways together send a worker no more
// requests than its capacity, and use all of it.
func TestGatewaysShareAWorker(t *testing.T) {
	etcd, up := storetest.Etcd(t), upstreamtest.New(t)
	release := make(chan struct{})
	up.Answer(func(c *upstreamtest.Conn) {
		<-release
		echo(c)
	})
	leave := sync.OnceFunc(func() { close(release) })
	t.Cleanup(leave)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const capacity = 4
	if _, err := client.Put(t.Context(), "/isogloss/workers/w", fmt.Sprintf(`{"id":"w","model":"m","protocol":"openai-chat","url":%q,"capacity":%d}`, up.BaseURL(), capacity)); err != nil {
		t.Fatal(err)
	}
	var gateways [3]*gateway
	for i := range gateways {
		gateways[i] = start(t, fmt.Sprintf("listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\ndata: %q\ndiscover: { etcd: { endpoints: [%q] }, networks: [127.0.0.0/8] }\n", t.TempDir(), etcd.URL), quick())
	}
	for _, g := range gateways {
		g.log.waitFor(t, `"gateways":3`, 1)
	}
	var served, refused atomic.Int64
	var asking sync.WaitGroup
	for i := range 6 * len(gateways) {
		asking.Go(func() {
			switch got, body, _ := gateways[i%len(gateways)].try(t, "m", ""); got {
			case http.StatusOK:
				served.Add(1)
			case http.StatusServiceUnavailable:
				refused.Add(1)
			default:
				t.Errorf("%d %s", got, body)
			}
		})
	}
	want := int64(6*len(gateways) - capacity)
	eventually(t, "the requests beyond the capacity are refused", func() bool { return refused.Load() >= want })
	leave()
	asking.Wait()
	if served.Load() != capacity || refused.Load() != want || len(up.Requests()) != capacity {
		t.Errorf("%d requests are served and %d refused, the worker got %d; its capacity is %d", served.Load(), refused.Load(), len(up.Requests()), capacity)
	}
}
