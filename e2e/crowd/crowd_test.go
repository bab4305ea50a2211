// Package crowd has 32 clients of all vendors' SDKs, in three languages, talk to one
// real engine through one gateway at the same time, and leave as they like.
package crowd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Each of the four APIs has so many clients in each language: 32 in all.
const (
	goEach     = 2
	pythonEach = 3
	nodeEach   = 3
)

// models are the same engine, each asked in another of its dialects.
var models = []string{forms, "on-openai-responses", "on-anthropic"}

// forms is the one that holds to a schema: in its other dialects the engine takes one
// and does as it likes.
const forms = "on-openai-chat"

// duration is how long they talk; CROWD says otherwise, such as CROWD=10m.
func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("CROWD")
	if text == "" {
		return 20 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CROWD is a duration such as 10m: %v", err)
	}
	return d
}

// TestCrowd holds that each of them gets its own answer, whole and with the engine's
// counts; that each request is in the log once, with the same counts; and that
// nothing is left behind when they are gone.
func TestCrowd(t *testing.T) {
	engine := rig.StartEngine(t, rig.EngineOptions{Slots: 4, Context: 512})
	watching := newObserver(t, engine.URL)
	gateway := rig.StartGateway(t, rig.Build(t), configuration(watching.url))
	settle(t, gateway, engine, vitals{})
	before := vitalsOf(t, gateway)

	heard := runCrowd(t, gateway.URL, duration(t))
	http.DefaultClient.CloseIdleConnections() // of those who have talked in this process

	settle(t, gateway, engine, before)
	after := vitalsOf(t, gateway)
	passed := check(t, heard, watching.exchanges(), logged(t, gateway))
	t.Logf("%s; goroutines %.0f and then %.0f, descriptors %.0f and %.0f, resident %.0f and %.0f MiB",
		passed, before.goroutines, after.goroutines, before.descriptors, after.descriptors, before.resident/(1<<20), after.resident/(1<<20))
}

func configuration(engine string) string {
	return fmt.Sprintf(`keys: [ %s ]
providers:
  chat: { protocol: openai-chat, base_url: %[2]q }
  responses: { protocol: openai-responses, base_url: %[2]q }
  anthropic: { protocol: anthropic, base_url: %[3]q }
models:
  on-openai-chat: { targets: [ chat/smol ] }
  on-openai-responses: { targets: [ responses/smol ] }
  on-anthropic: { targets: [ anthropic/smol ] }
`, rig.ClientKey, engine+"/v1", engine)
}

// runCrowd has all clients talk and returns what they heard.
func runCrowd(t *testing.T, origin string, d time.Duration) []said {
	t.Helper()
	var (
		mu  sync.Mutex
		all []said
		wg  sync.WaitGroup
	)
	tell := func(s said) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
	}
	cache := rig.Cache(t)
	each := func(n int) []string {
		return []string{origin, rig.ClientKey, fmt.Sprint(n), fmt.Sprint(d.Seconds())}
	}
	python := filepath.Join(cache, "python-newest", "bin", "python")
	wg.Go(func() {
		listen(t, tell, rig.Command(t, "python", python, append([]string{"crowd.py"}, each(pythonEach)...)...))
	})
	dir, node := rig.StageNode(t, "*.mjs")
	wg.Go(func() {
		listen(t, tell, rig.Command(t, dir, node, append([]string{"crowd.mjs"}, each(nodeEach)...)...))
	})
	clients, err := sdks(origin)
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(d)
	for name, sdk := range clients {
		for n := range goEach {
			wg.Go(func() { runClient(until, name, n, sdk, tell) })
		}
	}
	wg.Wait()
	return all
}

// listen reads what the clients of one process report until it ends.
func listen(t *testing.T, tell func(said), cmd *exec.Cmd) {
	stderr := &rig.Log{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Errorf("a client does not start: %v", err)
		return
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s said
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Errorf("a client reports %s: %v", lines.Bytes(), err)
			continue
		}
		tell(s)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v\n%s", cmd.Path, err, stderr.Tail())
	}
}

// vitals are of the gateway's process, as its metrics have them.
type vitals struct{ goroutines, descriptors, resident float64 }

func vitalsOf(t *testing.T, g *rig.Gateway) vitals {
	t.Helper()
	page := g.Metrics(t.Context())
	v := vitals{testrig.Number(page, "go_goroutines "), testrig.Number(page, "process_open_fds "), testrig.Number(page, "process_resident_memory_bytes ")}
	if v.goroutines == 0 || v.descriptors == 0 || v.resident == 0 {
		t.Fatal("the metrics lack go_goroutines, process_open_fds or process_resident_memory_bytes")
	}
	return v
}

// What may be there that was not at first: an idle connection to the engine for each
// client, which the gateway keeps for a while and which has a descriptor and two
// goroutines, and memory that the collector has not given back.
const (
	everybody   = 4 * (goEach + pythonEach + nodeEach)
	spareMemory = 64 << 20
)

// settle waits until the engine is idle and the gateway has no more than it had
// before, or two minutes: the gateway closes a connection that was idle for 90 seconds,
// so what is left then is a leak.
func settle(t *testing.T, g *rig.Gateway, e *rig.Engine, before vitals) {
	t.Helper()
	var now vitals
	busy := 0
	err := testrig.Until(t.Context(), 2*time.Minute, "the gateway or the engine does not settle", func() bool {
		testrig.Pause(t.Context(), 100*time.Millisecond)
		now, busy = vitalsOf(t, g), e.Busy(t)
		leak := before.goroutines > 0 && (now.goroutines > before.goroutines+2*everybody || now.descriptors > before.descriptors+everybody || now.resident > before.resident+spareMemory)
		return busy == 0 && !leak
	})
	if err != nil {
		t.Errorf("%v: %d slots of the engine are busy; %.0f goroutines, %.0f descriptors and %.0f bytes, before %.0f, %.0f and %.0f",
			err, busy, now.goroutines, now.descriptors, now.resident, before.goroutines, before.descriptors, before.resident)
	}
}
