package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/internal/test/upstreamtest"
)

// row is a gateway and the processes that replace it. It runs from a copy of the binary
// that a test may replace, started by a relative path.
type row struct {
	t        *testing.T
	dir      string
	url      string
	metrics  string
	upstream *upstreamtest.Server
}

func startRow(t *testing.T) *row {
	t.Helper()
	r := &row{t: t, dir: t.TempDir(), upstream: upstreamtest.New(t)}
	if err := os.Link(binary, r.path("isogloss")); err != nil {
		t.Fatal(err)
	}
	r.write("isogloss.yaml", fmt.Sprintf(withMetrics, r.upstream.BaseURL()), 0o600)
	log, err := os.Create(r.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := &exec.Cmd{Path: "./isogloss", Args: []string{"./isogloss", "serve", "-c", "isogloss.yaml", "--pid-file", "pid"}, Dir: r.dir, Env: environment(nil), Stderr: log}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // its log shows how it ended
	t.Cleanup(func() {
		for _, pid := range []int{cmd.Process.Pid, r.pid()} {
			if pid > 0 && testrig.ProcessAlive(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		if t.Failed() {
			t.Logf("the log:\n%s", r.log())
		}
	})
	r.until("the gateway does not start", func() bool { return r.pid() == cmd.Process.Pid })
	var said struct{ URL, Metrics string }
	line, _, _ := strings.Cut(r.log(), "\n")
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		t.Fatal(err)
	}
	r.url, r.metrics = said.URL, said.Metrics
	return r
}

func (r *row) path(name string) string { return filepath.Join(r.dir, name) }

// write replaces a file atomically by renaming a new one.
func (r *row) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	next := r.path(name + ".next")
	if err := os.WriteFile(next, []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(next, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *row) log() string {
	text, _ := os.ReadFile(r.path("log"))
	return string(text)
}

func (r *row) pid() (pid int) {
	text, _ := os.ReadFile(r.path("pid"))
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

func (r *row) until(message string, met func() bool) {
	r.t.Helper()
	if err := testrig.Until(r.t.Context(), patience, message, met); err != nil {
		r.t.Fatal(err)
	}
}

func (r *row) says(text string) {
	r.t.Helper()
	r.until("the log does not say "+text, func() bool { return strings.Contains(r.log(), text) })
}

func (r *row) signal(pid int, s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		r.t.Fatal(err)
	}
}

// replace sends SIGHUP and returns the pids of the old process and of the new one.
func (r *row) replace() (before, after int) {
	r.t.Helper()
	before = r.pid()
	r.signal(before, syscall.SIGHUP)
	r.until("there is no new process", func() bool { after = r.pid(); return after > 0 && after != before })
	return before, after
}

func TestReplacedFileIsTheNewProcess(t *testing.T) {
	r := startRow(t)
	r.write("isogloss.yaml", fmt.Sprintf(withMetrics+drainForever, r.upstream.BaseURL()), 0o600)
	r.write("isogloss", "#!/bin/sh\necho another version >&2\nexec "+binary+" \"$@\"\n", 0o700)
	before, after := r.replace()
	r.says("another version\n")
	r.says(fmt.Sprintf(`"msg":"this process has taken over","pid":%d,"from":%d`, after, before))
	r.until("the old process does not end", func() bool { return !testrig.ProcessAlive(before) })
	if status, body := get(t, r.url+"/health"); status != http.StatusOK {
		t.Errorf("/health says %d %s", status, body)
	}
	if _, text := get(t, r.metrics); !strings.Contains(text, "isogloss_") {
		t.Error("the new process has no metrics")
	}
	if r.pid() != after {
		t.Error("the old process has taken the pid file along")
	}
	sent := time.Now()
	r.signal(after, syscall.SIGTERM)
	r.until("the new process does not end", func() bool { return !testrig.ProcessAlive(after) })
	t.Logf("with nothing open, SIGTERM ends it in %s", time.Since(sent).Round(time.Millisecond))
	if r.pid() != 0 {
		t.Error("the pid file is still there")
	}
}

func TestFailedRestartChangesNothing(t *testing.T) {
	for _, c := range []struct {
		name, file, text, want string
	}{
		{"mistake", "isogloss.yaml", "modles: {}\n", "isogloss.yaml:1: modles: is not a known key"},
		{"crash", "isogloss", "#!/bin/sh\necho out of luck >&2\nexit 3\n", "out of luck"},
		{"no program", "isogloss", "no program", "can't start child"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startRow(t)
			before := r.pid()
			r.write(c.file, c.text, 0o700)
			r.signal(before, syscall.SIGHUP)
			r.says(`"level":"ERROR","msg":"the restart failed; this process continues to serve"`)
			r.says(c.want)
			if status, body := get(t, r.url+"/health"); status != http.StatusOK || r.pid() != before {
				t.Errorf("/health says %d %s", status, body)
			}
		})
	}
}

// TestSignalToReplacedProcess checks that a replaced process with an open stream exits
// within 25 seconds of a SIGTERM.
func TestSignalToReplacedProcess(t *testing.T) {
	r := startRow(t)
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release() // the upstream waits for it when the test fails, too
	r.upstream.Answer(func(c *upstreamtest.Conn) {
		c.BeginStream()
		c.Chunk(event)
		<-held
		c.Chunk(last)
		c.EndStream()
	})
	resp, err := http.Post(r.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"fast","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream := bufio.NewReader(resp.Body)
	if _, err := stream.Peek(len(event)); err != nil {
		t.Fatal(err)
	}
	before, after := r.replace()
	r.says(`"msg":"another process has taken over; open requests are finished","at_most":"10m2s"`)
	r.signal(after, syscall.SIGHUP)
	r.says(fmt.Sprintf("process %d, which served before, still finishes its streams; wait for its end, or send it SIGTERM", before))
	r.signal(before, syscall.SIGTERM)
	r.says(`"msg":"draining","at_most":"28s"`)
	release()
	if rest, err := io.ReadAll(stream); err != nil || string(rest) != event+last {
		t.Errorf("the stream is %q, %v", rest, err)
	}
	r.until("the old process does not end", func() bool { return !testrig.ProcessAlive(before) })
	if status, body := get(t, r.url+"/health"); status != http.StatusOK {
		t.Errorf("/health of the new process says %d %s", status, body)
	}
}

func TestPIDFileThatCannotBeWritten(t *testing.T) {
	file := writeFile(t, "isogloss.yaml", fmt.Sprintf(withMetrics, "http://127.0.0.1:1/v1"))
	r := command(t, t.TempDir(), nil, "serve", "-c", file, "--pid-file", "no/such/folder/pid")
	if r.code != 1 || !strings.Contains(r.stderr, "a pid file needs a folder that this user may write to") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
}
