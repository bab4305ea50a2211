package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The program that is restarted here is the test itself: as a child it listens, and
// what it does besides is in a file that a test writes.

// patience is far more than anything here takes; only a failing test waits so long.
const patience = time.Minute

func TestMain(m *testing.M) {
	if file := os.Getenv("HANDOVER_FILE"); file != "" {
		if err := child(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child answers each connection with its pid until SIGTERM.
func child(file string) error {
	orders, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch string(orders) {
	case "fail":
		return fmt.Errorf("this one does not want to")
	case "hang":
		<-ctx.Done() // it is killed meanwhile
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	limit := patience
	if os.Getenv("HANDOVER_HURRY") != "" {
		limit = time.Second
	}
	p, err := New(Options{PIDFile: file + ".pid", Patience: limit, Restarts: hangups})
	if err != nil {
		return err
	}
	defer p.Close()
	for _, name := range []string{"one", "two"} {
		l, err := p.Listen(ctx, name, "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		go answer(l, name)
		fmt.Fprintln(os.Stderr, name, l.Addr())
	}
	if err := p.Ready(ctx, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		return err
	}
	select {
	case <-p.Replaced():
		fmt.Fprintln(os.Stderr, "replaced", os.Getpid())
		if string(orders) == "linger" {
			<-ctx.Done()
		}
	case <-ctx.Done():
	}
	return nil
}

func answer(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintln(c, name, os.Getpid())
		_ = c.Close()
	}
}

// program is a child with those that come after it.
type program struct {
	t    *testing.T
	file string
	log  *os.File
}

func start(t *testing.T, orders string, env ...string) *program {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, file: dir + "/orders", log: log}
	p.order(orders)
	cmd := exec.Command(os.Args[0])
	// The race detector would else make each process last a second longer.
	env = append(env, "HANDOVER_FILE="+p.file, "GORACE=atexit_sleep_ms=0")
	cmd.Env, cmd.Stderr = env, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the processes after it join its group
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // all of them may have ended
		_ = cmd.Wait()                                      // killed, or ended before
		_ = log.Close()
		if t.Failed() {
			t.Logf("the log:\n%s", p.said())
		}
	})
	p.until("it does not start", func() bool { return p.pid() == cmd.Process.Pid })
	return p
}

func (p *program) order(what string) {
	p.t.Helper()
	if err := os.WriteFile(p.file, []byte(what), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) said() string {
	text, _ := os.ReadFile(p.log.Name())
	return string(text)
}

// pid is the process that serves, or 0.
func (p *program) pid() (pid int) {
	text, _ := os.ReadFile(p.file + ".pid")
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

func (p *program) until(message string, met func() bool) {
	p.t.Helper()
	testrig.Eventually(p.t, message, met)
}

func (p *program) signal(pid int, s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// answers is what a new connection to a listener is told.
func (p *program) answers(name string) string {
	p.t.Helper()
	var address string
	for line := range strings.Lines(p.said()) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			address = strings.TrimSpace(rest)
		}
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestNewProcessHasThePorts(t *testing.T) {
	p := start(t, "")
	refused := 0
	for range 3 {
		old := p.pid()
		p.signal(old, syscall.SIGHUP)
		p.until("there is no new process", func() bool {
			// A restart is refused while the process before has not exited.
			if n := strings.Count(p.said(), "still finishes its streams"); n > refused {
				refused = n
				p.signal(old, syscall.SIGHUP)
			}
			return p.pid() != old
		})
		p.until("the new process does not say so", func() bool {
			return strings.Contains(p.said(), fmt.Sprintf("this process has taken over\" pid=%d from=%d", p.pid(), old))
		})
		for _, name := range []string{"one", "two"} {
			p.until("the old process still answers", func() bool { return p.answers(name) == fmt.Sprint(name, " ", p.pid()) })
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(p.said()) {
		if strings.HasPrefix(line, "one ") || strings.HasPrefix(line, "two ") {
			seen[line] = true
		}
	}
	if len(seen) != 2 {
		t.Errorf("the addresses are %v, want the same two all the time", seen)
	}
	p.signal(p.pid(), syscall.SIGTERM)
	p.until("the pid file is still there", func() bool { return p.pid() == 0 })
}

func TestOldProcessGoesOn(t *testing.T) {
	for orders, reason := range map[string]string{"fail": "exited: exit status 1", "hang": "timed out"} {
		t.Run(orders, func(t *testing.T) {
			t.Parallel()
			var env []string
			if orders == "hang" {
				env = []string{"HANDOVER_HURRY=1"}
			}
			p := start(t, "", env...)
			old := p.pid()
			p.order(orders)
			p.signal(old, syscall.SIGHUP)
			p.until("it does not say that it goes on", func() bool {
				return strings.Contains(p.said(), "the restart failed; this process continues to serve") && strings.Contains(p.said(), reason)
			})
			if got, want := p.answers("one"), fmt.Sprint("one ", old); got != want || p.pid() != old {
				t.Errorf("the answer is %q, want %q", got, want)
			}
			p.order("")
			p.until("there is no new process", func() bool {
				_ = syscall.Kill(old, syscall.SIGHUP) // refused while a new process starts, which takes longer than the limit on a busy machine
				return p.pid() != old
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	p := start(t, "linger")
	old := p.pid()
	p.signal(old, syscall.SIGHUP)
	p.until("there is no new process", func() bool { return p.pid() != old })
	next := p.pid()
	p.signal(next, syscall.SIGHUP)
	p.until("the new process does not refuse", func() bool {
		return strings.Contains(p.said(), fmt.Sprintf("process %d, which served before, still finishes its streams", old))
	})
	p.signal(old, syscall.SIGHUP)
	p.until("the old process does not refuse", func() bool {
		return strings.Contains(p.said(), "another process has taken over; send the signal to that one")
	})
	p.signal(old, syscall.SIGTERM)
	// Wishes that come before the old one's end are refused, and one after is not.
	p.until("there is no third process", func() bool {
		_ = syscall.Kill(next, syscall.SIGHUP) // it may have ended by now
		return p.pid() != next
	})
}

func TestSecondWishIsRefused(t *testing.T) {
	p := start(t, "")
	old := p.pid()
	p.order("hang")
	p.until("no wish is refused", func() bool {
		p.signal(old, syscall.SIGHUP)
		return strings.Contains(p.said(), "upgrade in progress")
	})
	if p.pid() != old {
		t.Error("another process has taken over")
	}
}

// Tableflip may handle a request before the news that makes the request possible.
func TestRequestBeforeTheNews(t *testing.T) {
	for _, c := range []struct{ first, then string }{
		{"process is not ready yet", ""},
		{"parent hasn't exited", ""},
		{"parent hasn't exited", "upgrade in progress"},
	} {
		asked := 0
		err := upgrade(func() error {
			if asked++; asked == 1 {
				return errors.New(c.first)
			}
			if c.then != "" {
				return errors.New(c.then)
			}
			return nil
		})
		if got := fmt.Sprint(err); asked != 2 || err == nil && c.then != "" || err != nil && got != c.then {
			t.Errorf("%q, then %q: asked %d times and the error is %v", c.first, c.then, asked, err)
		}
	}
}

func TestFirstProcessOfAContainer(t *testing.T) {
	err := new(Process).refusal(1)
	if err == nil || !strings.Contains(err.Error(), "start a new container") {
		t.Errorf("the error is %v", err)
	}
}
