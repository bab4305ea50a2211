package rig

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The keys that clients send and that the gateway sends.
const (
	ClientKey   = "isogloss-e2e-client-key-0001"
	UpstreamKey = "sk-upstream"
)

// Build returns the binary under test: the one that ISOGLOSS_BIN names, or
// one built from the repository that this folder is in.
func Build(t *testing.T) string {
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
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the gateway does not build: %v\n%s", err, out)
	}
	return bin
}

// Gateway is a running gateway.
type Gateway struct {
	Listen, Admin string // its two addresses
	URL           string // the origin that clients are given
	Process       *os.Process
	Log           *Log
	exited        chan struct{} // closed when the process is gone
	ended         error         // how, after that
}

// StartGateway starts a gateway with a configuration that has places for its two
// addresses, and waits until it serves. It is asked to end when t does; its log is
// shown if t fails.
func StartGateway(t *testing.T, bin, configuration string) *Gateway {
	t.Helper()
	dir := t.TempDir()
	listen, admin := FreeAddresses(t)
	config := filepath.Join(dir, "isogloss.yaml")
	text := fmt.Sprintf(configuration, listen, admin)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &Log{}
	cmd := exec.Command(bin, "serve", "-c", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g := &Gateway{
		Listen: listen, Admin: admin, URL: "http://" + listen, Process: cmd.Process, Log: log, exited: make(chan struct{}),
	}
	go func() {
		g.ended = cmd.Wait()
		close(g.exited)
	}()
	t.Cleanup(func() {
		if err := g.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", log.Tail())
		}
	})
	waitOK(t, "the gateway", g.URL+"/live", g.exited)
	return g
}

// waitOK asks until a server says that it is up; a process offers nothing else to wait
// for. exited is closed when the process is gone.
func waitOK(t *testing.T, who, url string, exited <-chan struct{}) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for {
		if res, err := http.Get(url); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK { // an engine says 503 while it loads
				return
			}
		}
		select {
		case <-exited:
			t.Fatalf("%s ended at start", who)
		case <-deadline:
			t.Fatalf("%s did not answer %s with 200 within %s", who, url, Patience)
		case <-tick.C:
		}
	}
}

// WaitEnd holds that a gateway which was asked to end does so in order. It gives
// notice first, so a run does not wait for each gateway when it is done with it.
func (g *Gateway) WaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-g.exited:
		if g.ended != nil {
			t.Errorf("the gateway did not end in order: %v\n%s", g.ended, g.Log)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("the gateway did not end within 10 s of SIGTERM with no request open\n%s", g.Log)
		_ = g.Process.Kill()
		<-g.exited
	}
}

// FreeAddresses finds two addresses that nobody listens on. Both are held until both
// are known, for a port that was just closed may be given out again; and they are below
// those that systems give to connections, of which none may take them meanwhile.
func FreeAddresses(t *testing.T) (first, second string) {
	t.Helper()
	var found []string
	for len(found) < 2 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		found = append(found, l.Addr().String())
	}
	return found[0], found[1]
}
