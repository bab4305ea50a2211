package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// TestMain gives the package a folder for sockets. It fails if a run leaves a goroutine behind.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "isogloss")
	if err == nil {
		err = os.Setenv("RUNTIME_DIRECTORY", dir)
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// patience is the timeout of the tests. Only a failing test waits that long.
const patience = time.Minute

// eventually waits until another goroutine has made a condition true.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	testrig.Eventually(t, what, done)
}

// quick returns short durations. The file is polled at an interval longer than the
// resolution of file times.
func quick() pace {
	return pace{look: 10 * time.Millisecond, notice: time.Millisecond, drain: patience, errorTime: patience, lameDuck: time.Millisecond, finish: patience}
}

// gateway is a call of Run in the test process.
type gateway struct {
	url, metricsURL string
	file            string
	log             *logBuffer
	client          *http.Client
	stop            context.CancelFunc
	ended           chan error
}

// start runs a gateway with a configuration to which it adds free ports. The gateway
// stops when the test ends.
func start(t *testing.T, configuration string, p pace) *gateway {
	t.Helper()
	return startIn(t, nil, configuration, p)
}

// startIn is start for a process that may be replaced.
func startIn(t *testing.T, process Process, configuration string, p pace) *gateway {
	t.Helper()
	g := &gateway{
		file:   filepath.Join(t.TempDir(), "isogloss.yaml"),
		log:    newLogBuffer(),
		client: &http.Client{Transport: &http.Transport{}},
		ended:  make(chan error, 1),
	}
	g.write(t, configuration)
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	options := Options{Config: g.file, Env: noEnvironment, Log: g.log, Version: "test", Process: process, pace: p}
	go func() { g.ended <- Run(ctx, options) }()
	t.Cleanup(func() {
		g.client.CloseIdleConnections()
		g.wait(t)
	})
	g.learnAddresses(t)
	return g
}

func noEnvironment(string) (string, bool) { return "", false }

// wait stops the gateway if it still runs and waits for its end.
func (g *gateway) wait(t *testing.T) {
	t.Helper()
	g.stop()
	select {
	case err, ok := <-g.ended:
		if ok && err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
		if ok {
			close(g.ended)
		}
	case <-time.After(patience):
		t.Fatalf("the gateway does not end; its log:\n%s", g.log)
	}
}

func (g *gateway) learnAddresses(t *testing.T) {
	t.Helper()
	line := g.log.waitFor(t, `"msg":"listening"`, 1)
	var said struct{ URL, Metrics string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	g.url, g.metricsURL = strings.Replace(said.URL, "[::]", "127.0.0.1", 1), said.Metrics
}

// write truncates the configuration file and writes it, as most programs do.
func (g *gateway) write(t *testing.T, configuration string) {
	t.Helper()
	if err := os.WriteFile(g.file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace writes a new configuration file and renames it over the old one, as careful
// programs do.
func (g *gateway) replace(t *testing.T, configuration string) {
	t.Helper()
	next := g.file + ".next"
	if err := os.WriteFile(next, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, g.file); err != nil {
		t.Fatal(err)
	}
}

// get reads a page and returns its status and body.
func (g *gateway) get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := g.client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// ask sends a chat request for a model and returns the response with an unread body.
func (g *gateway) ask(model string, stream bool, headers ...string) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hi"}]}`, model, stream)
	req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return g.client.Do(req)
}

// echo is an upstream that responds with the name of the requested model, streaming or
// non-streaming.
func echo(c *upstreamtest.Conn) {
	var ask struct {
		Model  string
		Stream bool
	}
	if err := json.Unmarshal(c.Request.Body, &ask); err != nil {
		c.Whole(http.StatusBadRequest, "text/plain", err.Error())
		return
	}
	c.KeepAlive()
	if !ask.Stream {
		c.Whole(http.StatusOK, "application/json", fmt.Sprintf(
			`{"id":"c1","object":"chat.completion","model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, ask.Model, ask.Model))
		return
	}
	c.BeginStream()
	c.Chunk(fmt.Sprintf("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", ask.Model, ask.Model))
	c.Chunk("data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	c.EndStream()
}

// logBuffer holds the log of a gateway.
type logBuffer struct{ testrig.Log }

func newLogBuffer() *logBuffer { return &logBuffer{} }

// waitFor waits for the nth line that contains text and returns it.
func (l *logBuffer) waitFor(t *testing.T, text string, n int) string {
	t.Helper()
	return l.WaitFor(t, text, n, nil)
}
