package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	clientKey   = "isogloss-e2e-client-key-0001"
	upstreamKey = "sk-upstream"
)

// upstreamName is what the configuration below makes of a model's name.
func upstreamName(model string) string {
	switch model {
	case "alias":
		return "gpt-real"
	case "embed":
		return "text-embedding-3-small"
	}
	return model
}

// chatConfiguration has one provider, which speaks Chat.
func chatConfiguration(upstreamURL string) string {
	return `
listen: %s
admin: { listen: %s }
keys: [ ` + clientKey + ` ]
providers:
  up: { protocol: openai-chat, base_url: "` + upstreamURL + `", api_key: ` + upstreamKey + ` }
models:
  gpt-real: { targets: [up/gpt-real] }
  alias: { targets: [up/gpt-real] }
  "vendor/slashed": { targets: [up/vendor/slashed] }
  embed: { targets: [up/text-embedding-3-small] }
limits: { body: 8MiB }
retries: { attempts: 1 } # so that an upstream's answer can be compared with and without the gateway
`
}

// buildGateway returns the binary under test: the one that ISOGLOSS_BIN names, or
// one built from the repository that this folder is in.
func buildGateway(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("ISOGLOSS_BIN"); bin != "" {
		path, err := filepath.Abs(bin) // it is started in another folder
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	bin := filepath.Join(t.TempDir(), "isogloss")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/isogloss")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the gateway does not build: %v\n%s", err, out)
	}
	return bin
}

// gateway is a running gateway.
type gateway struct {
	listen  string
	baseURL string // what an SDK is given
	live    string
	process *os.Process
	exited  chan error
	log     *logBuffer
}

// startGateway starts a gateway with a configuration that has places for its two
// addresses. It is asked to end when t
// does; its log is shown if t fails.
func startGateway(t *testing.T, bin, configuration string) *gateway {
	t.Helper()
	dir := t.TempDir()
	listen, admin := freeAddresses(t)
	config := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf(configuration, listen, admin)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	cmd := exec.Command(bin, "serve", "-c", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &gateway{
		listen: listen, baseURL: "http://" + listen + "/v1", live: "http://" + listen + "/live",
		process: cmd.Process, exited: make(chan error, 1), log: log,
	}
	go func() { g.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := g.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", log.tail())
		}
	})
	return g
}

// waitLive asks until the gateway says that it is up; a process offers nothing else
// to wait for.
func (g *gateway) waitLive(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		if res, err := http.Get(g.live); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case err := <-g.exited:
			g.exited <- err // for waitEnd
			t.Fatalf("the gateway ended at start: %v", err)
		case <-deadline:
			t.Fatalf("the gateway did not answer %s with 200 within 10 s", g.live)
		case <-tick.C:
		}
	}
}

// waitEnd holds that a gateway which was asked to end does so in order. It gives
// notice first, so a run does not wait for each gateway when it is done with it.
func (g *gateway) waitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-g.exited:
		if err != nil {
			t.Errorf("the gateway did not end in order: %v\n%s", err, g.log)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("the gateway did not end within 10 s of SIGTERM with no request open\n%s", g.log)
		_ = g.process.Kill()
		<-g.exited
	}
}

// freeAddresses finds two addresses that nobody listens on. Both are held until both
// are known, for a port that was just closed may be given out again.
func freeAddresses(t *testing.T) (first, second string) {
	t.Helper()
	var found [2]string
	for i := range found {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		found[i] = l.Addr().String()
	}
	return found[0], found[1]
}

// logBuffer is written by a process while a test may read it.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}

// tail is the last of what was written: a gateway that served a whole matrix has much
// to tell.
func (l *logBuffer) tail() string {
	const most = 16 << 10
	s := l.String()
	return s[max(0, len(s)-most):]
}

func (l *logBuffer) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}
