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
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// EngineOptions configures an engine. The zero value has real weights.
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
// shown if t fails. A missing engine is a failure: setup.sh engines installs it.
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
	if err := testrig.Until(t.Context(), Patience, "the engine does not serve", func() bool { return e.ended() || e.healthy(t) }); err != nil || e.ended() {
		t.Fatalf("the engine ended or is not ready: %v", err)
	}
	return e
}

// healthy reports whether the engine has loaded its weights.
func (e *Engine) healthy(t *testing.T) bool {
	return strings.Contains(testrig.Page(t.Context(), e.URL+"/health"), `"ok"`)
}

func (e *Engine) ended() bool {
	select {
	case <-e.exited:
		return true
	default:
		return false
	}
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
		var err error
		if o.Address, err = testrig.Address(); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// threads is the number of compute threads. Two are twice as fast on two idle cores, but
// they spin while they wait for each other: on a busy machine two write 2 tokens a second
// and one writes 70.
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

// ScriptedWeights writes weights that always answer with these pieces of text, which have
// to be different. For tool calls, start the engine with Tools and write the pieces in
// Qwen's form.
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

// Slots returns the slots that the engine reports.
func (e *Engine) Slots(t *testing.T) []Slot {
	t.Helper()
	var slots []Slot
	e.decode(t, e.Get(t, "/slots"), &slots)
	return slots
}

// Busy returns the number of busy slots.
func (e *Engine) Busy(t *testing.T) int {
	t.Helper()
	return testrig.Count(e.Slots(t), func(s Slot) bool { return s.Busy })
}

// Metric returns one of the engine's metrics, by its name without the prefix llamacpp:.
func (e *Engine) Metric(t *testing.T, name string) float64 {
	t.Helper()
	return testrig.Number(string(e.Get(t, "/metrics")), "llamacpp:"+name+" ")
}

// Tokens returns the number of tokens of a text.
func (e *Engine) Tokens(t *testing.T, text string) int {
	t.Helper()
	var out struct {
		Tokens []int `json:"tokens"`
	}
	e.decode(t, e.Post(t, "/tokenize", testrig.Compact(map[string]any{"content": text})), &out)
	return len(out.Tokens)
}

// Get sends a request to the engine and fails unless it answers 200.
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
