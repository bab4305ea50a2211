package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gguf"
)

// EngineOptions says which engine to start. The zero value is one with real weights.
type EngineOptions struct {
	Weights string   // a file; default SmolLM2's, see also ScriptedWeights
	Tools   bool     // with a chat template that knows of tools
	Model   string   // the name that it serves them under; default "smol"
	Slots   int      // how many it answers at a time; default 2
	Context int      // tokens for each of these; default 2048
	Key     string   // that it asks for; default none
	Address string   // host:port; default a free one of loopback
	More    []string // further arguments
}

// Engine is a running llama-server. It speaks Chat, Responses and Messages.
type Engine struct {
	URL     string // its origin
	Model   string
	Process *os.Process
	Log     *Log
	key     string
	exited  chan struct{} // closed when the process is gone
}

// StartEngine starts an engine and waits until it answers. It ends with t; its log is
// shown if t fails. What is missing is a failure: setup.sh engines installs it.
func StartEngine(t *testing.T, o EngineOptions) *Engine {
	t.Helper()
	o = o.orDefault(t)
	bin := filepath.Join(Cache(t), "engine", "llama-server")
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("the engine is missing: %v; run e2e/setup.sh engines", err)
	}
	e := &Engine{URL: "http://" + o.Address, Model: o.Model, Log: &Log{}, key: o.Key, exited: make(chan struct{})}
	cmd := exec.Command(bin, o.arguments(t)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), e.Log, e.Log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir} // nothing of the user's leaks in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.Process = cmd.Process
	go func() {
		_ = cmd.Wait() // a killed one ends with an error, and who waits knows why
		close(e.exited)
	}()
	t.Cleanup(func() {
		e.Kill()
		if t.Failed() {
			t.Logf("the end of the engine's log:\n%s", e.Log.Tail())
		}
	})
	waitOK(t, "the engine", e.URL+"/health", e.exited)
	return e
}

func (o EngineOptions) orDefault(t *testing.T) EngineOptions {
	t.Helper()
	if o.Weights == "" {
		o.Weights = filepath.Join(Cache(t), "weights", "smollm2.gguf")
	}
	if _, err := os.Stat(o.Weights); err != nil {
		t.Fatalf("the weights are missing: %v; run e2e/setup.sh engines", err)
	}
	if o.Model == "" {
		o.Model = "smol"
	}
	if o.Slots == 0 {
		o.Slots = 2
	}
	if o.Context == 0 {
		o.Context = 2048
	}
	if o.Address == "" {
		o.Address, _ = FreeAddresses(t)
	}
	return o
}

// threads that the engine computes with. Two are twice as fast on two idle cores, but
// they wait for each other without sleeping: when something else wants a core too, as
// in a test, two were measured to write 2 tokens a second and one alone 70.
const threads = 1

func (o EngineOptions) arguments(t *testing.T) []string {
	host, port, err := net.SplitHostPort(o.Address)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--model", o.Weights, "--alias", o.Model, "--host", host, "--port", port,
		"--parallel", strconv.Itoa(o.Slots), "--ctx-size", strconv.Itoa(o.Slots * o.Context), "--threads", strconv.Itoa(threads), "--threads-batch", strconv.Itoa(threads),
		"--jinja", "--metrics", "--slots", "--offline", "--no-warmup",
	}
	if o.Tools {
		args = append(args, "--chat-template-file", filepath.Join(Cache(t), "engine", "qwen2.5.jinja"))
	}
	if o.Key != "" {
		args = append(args, "--api-key", o.Key)
	}
	return append(args, o.More...)
}

// ScriptedWeights writes weights that answer everything with these pieces of text, no
// two of which may be the same. To say it over Chat an engine needs no more; for
// calls of tools start it with Tools, and with the pieces in Qwen's form.
func ScriptedWeights(t *testing.T, pieces ...string) string {
	t.Helper()
	weights, err := gguf.Chain(pieces)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "chain.gguf")
	if err := os.WriteFile(path, weights, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Kill ends the engine as the kernel does when memory runs out, and waits until it is
// gone.
func (e *Engine) Kill() {
	_ = e.Process.Kill() // fails only if it is gone already
	<-e.exited
}

// Slot is a place for one request in the engine.
type Slot struct {
	ID   int  `json:"id"`
	Busy bool `json:"is_processing"`
}

// Slots are all, as the engine tells it.
func (e *Engine) Slots(t *testing.T) []Slot {
	t.Helper()
	var slots []Slot
	e.decode(t, e.Get(t, "/slots"), &slots)
	return slots
}

// Busy is how many slots are at work.
func (e *Engine) Busy(t *testing.T) int {
	t.Helper()
	n := 0
	for _, s := range e.Slots(t) {
		if s.Busy {
			n++
		}
	}
	return n
}

// Metrics are the engine's own counts, without the prefix llamacpp: of their names.
func (e *Engine) Metrics(t *testing.T) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	for line := range strings.Lines(string(e.Get(t, "/metrics"))) {
		name, text, found := strings.Cut(strings.TrimSpace(line), " ")
		value, err := strconv.ParseFloat(text, 64)
		if name, ours := strings.CutPrefix(name, "llamacpp:"); ours && found && err == nil {
			out[name] = value
		}
	}
	return out
}

// Tokens is how many a text has.
func (e *Engine) Tokens(t *testing.T, text string) int {
	t.Helper()
	var out struct {
		Tokens []int `json:"tokens"`
	}
	e.decode(t, e.Post(t, "/tokenize", Compact(map[string]any{"content": text})), &out)
	return len(out.Tokens)
}

// Get asks the engine itself and holds that it answers with 200.
func (e *Engine) Get(t *testing.T, path string) []byte {
	t.Helper()
	return e.do(t, http.MethodGet, path, "")
}

// Post is Get with a body.
func (e *Engine) Post(t *testing.T, path, body string) []byte {
	t.Helper()
	return e.do(t, http.MethodPost, path, body)
}

func (e *Engine) do(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("the engine does not answer: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s of the engine: %s %v\n%s", method, path, res.Status, err, answer)
	}
	return answer
}

func (e *Engine) decode(t *testing.T, body []byte, into any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(into); err != nil {
		t.Fatal(fmt.Errorf("what the engine says is not what we know: %w\n%s", err, body))
	}
}
