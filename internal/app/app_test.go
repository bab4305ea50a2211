package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/upstreamtest"
)

// TestMain fails the package if a run leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything here takes; only a failing test waits so long.
const patience = 20 * time.Second

// quick is a pace at which a test need not wait. Two looks are further apart than
// the clock of any file system is coarse.
func quick() pace {
	return pace{look: 10 * time.Millisecond, notice: time.Millisecond, drain: patience, lastWords: patience, lameDuck: time.Millisecond, finish: patience}
}

// gateway is a Run in this process.
type gateway struct {
	url, metricsURL string
	file            string
	log             *logBuffer
	client          *http.Client
	stop            context.CancelFunc
	ended           chan error
}

// start runs a gateway on a configuration to which it adds free ports. It is
// stopped when the test ends.
func start(t *testing.T, configuration string, p pace) *gateway {
	t.Helper()
	return startIn(t, nil, configuration, p)
}

// startIn does the same in a process that may be replaced.
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

// wait stops the gateway, unless that was done, and returns when it has ended.
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

// write puts a configuration in place as most programs do: truncate, then write.
func (g *gateway) write(t *testing.T, configuration string) {
	t.Helper()
	if err := os.WriteFile(g.file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts a configuration in place by a new file that takes the old one's
// name, as careful programs do.
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

// get reads a page.
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

// ask posts a chat request for a model and leaves the answer to be read.
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

// echo answers a chat request with the name of the model that was asked for, as a
// stream or whole.
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

// logBuffer is written by a gateway while a test waits for what it says.
type logBuffer struct {
	mu      sync.Mutex
	b       bytes.Buffer
	written chan struct{} // closed at each write, and made anew
}

func newLogBuffer() *logBuffer { return &logBuffer{written: make(chan struct{})} }

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.written)
	l.written = make(chan struct{})
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// waitFor returns the nth line that holds a text, when there is one.
func (l *logBuffer) waitFor(t *testing.T, text string, n int) string {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		all, written := l.b.String(), l.written
		l.mu.Unlock()
		found := 0
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) {
				if found++; found == n {
					return line
				}
			}
		}
		select {
		case <-written:
		case <-late:
			t.Fatalf("the log does not say %q %d times:\n%s", text, n, all)
		}
	}
}
