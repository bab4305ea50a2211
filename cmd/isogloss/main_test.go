package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
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

	"github.com/isogloss-gateway/isogloss/internal/freeport"
)

// The tests of this package run the program as it is shipped: built, as a process
// of its own, with an environment that holds only what a test puts there.

var (
	binary string // the built program
	update = flag.Bool("update", false, "rewrite the expected output of commands")
)

// patience is far more than anything here takes; only a failing test waits so long.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "isogloss")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "isogloss")
	build := exec.Command("go", "build", "-ldflags", "-X main.version=v1.2.3", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the program does not build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is what a command did.
type result struct {
	stdout, stderr string
	code           int
}

// command runs the program to its end.
func command(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || ctx.Err() != nil {
		t.Fatalf("isogloss %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// process is a program that serves.
type process struct {
	url, metricsURL string
	log             *logBuffer // standard error
	out             *logBuffer // standard output
	started, live   time.Time
	cmd             *exec.Cmd
	ended           chan struct{}
}

// serve starts a gateway and returns when it listens, at the addresses that it
// says.
func serve(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := launch(t, env, args...)
	line := p.log.waitFor(t, `"msg":"listening"`, p.ended)
	p.live = time.Now()
	var said struct{ URL, Metrics string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	p.url, p.metricsURL = said.URL, said.Metrics
	return p
}

// serveAt starts a gateway whose log does not say where it is, and returns when it
// answers.
func serveAt(t *testing.T, data, metrics string, args ...string) *process {
	t.Helper()
	p := launch(t, nil, args...)
	p.url, p.metricsURL = "http://"+data, "http://"+metrics+"/metrics"
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if c, err := net.Dial("tcp", data); err == nil {
			_ = c.Close()
			return p
		}
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("the gateway has ended:\n%s", p.log)
		case <-late:
			t.Fatal("the gateway does not answer")
		}
	}
}

// freePair finds what a gateway is to listen on: clients come to the first, operators
// to the second.
func freePair(t *testing.T) (data, admin string) {
	t.Helper()
	data, admin, err := freeport.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return data, admin
}

// launch starts a gateway.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env = t.TempDir(), env
	return watch(t, cmd)
}

// watch starts a process. It is killed at the end of the test if it is still
// there.
func watch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{log: newLogBuffer(), out: newLogBuffer(), ended: make(chan struct{}), cmd: cmd}
	cmd.Stdout, cmd.Stderr = p.out, p.log
	p.started = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its exit code is in the ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error means that it has ended
		<-p.ended
		if t.Failed() {
			t.Logf("the log of the gateway:\n%s", p.log)
		}
	})
	return p
}

// signal sends a signal.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code; it is -1 after a signal that
// the program did not handle.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("the gateway does not end:\n%s", p.log)
	}
	return p.cmd.ProcessState.ExitCode()
}

// get reads a page over a connection of its own.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(url)
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

// writeFile puts text into a new folder and returns the file's path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// logBuffer is written by a process while a test waits for what it says.
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

// waitFor returns the first line that holds a text, when there is one. It gives up
// when the process has ended.
func (l *logBuffer) waitFor(t *testing.T, text string, ended <-chan struct{}) string {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		all, written := l.b.String(), l.written
		l.mu.Unlock()
		for line := range strings.Lines(all) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				return line
			}
		}
		select {
		case <-written:
		case <-ended:
			t.Fatalf("the process has ended and has not said %q:\n%s", text, all)
		case <-late:
			t.Fatalf("the process does not say %q:\n%s", text, all)
		}
	}
}
