// Package storetest runs real stores for tests: Redis, PostgreSQL and etcd as packaged by Debian,
// and the proxies PgBouncer and HAProxy, each on a free loopback port with its own folder. They can be frozen, killed, restarted and
// emptied. A store that is not installed fails the test; it is never skipped.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// patience is far longer than a store needs to start on a busy machine.
const patience = testrig.Patience

// Server is a store in its own process.
type Server struct {
	Addr string // host:port
	URL  string // for the gateway's configuration

	kind kind
	dir  string
	cmd  *exec.Cmd
	out  *os.File
	done chan struct{} // closed when the process has ended
}

// kind describes a store.
type kind struct {
	name    string
	command func(s *Server) *exec.Cmd
	prepare func(s *Server) error // makes an empty folder ready
	url     func(addr string) string
	ready   func(ctx context.Context, addr string) error
	slow    bool // a start takes minutes on a busy machine
}

// start runs a store for a test and stops it at the end.
func start(t testing.TB, k kind) *Server {
	t.Helper()
	s, err := run(k, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// run starts a store in a folder. If another process takes the port first, it tries another one.
func run(k kind, dir string) (*Server, error) {
	for tries := 1; ; tries++ {
		addr, err := testrig.Address()
		if err != nil {
			return nil, err
		}
		s := &Server{Addr: addr, URL: k.url(addr), kind: k, dir: dir}
		if err := s.fill(); err != nil {
			return nil, err
		}
		if err = s.Start(); err == nil || tries == 3 || !strings.Contains(strings.ToLower(s.log()), "already in use") {
			return s, err
		}
		s.Kill()
		if err := os.RemoveAll(s.data()); err != nil {
			return nil, err
		}
	}
}

func (s *Server) fill() error {
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return err
	}
	if s.kind.prepare == nil {
		return nil
	}
	return s.kind.prepare(s)
}

func (s *Server) data() string { return filepath.Join(s.dir, s.kind.name) }

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Start restarts the store after Kill, on the same port and with its data.
func (s *Server) Start() error {
	out, err := os.OpenFile(filepath.Join(s.dir, s.kind.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := s.kind.command(s)
	cmd.Stdout, cmd.Stderr = out, out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // PostgreSQL is many processes
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w; install it with apt-get", s.kind.name, err), out.Close())
	}
	s.cmd, s.out, s.done = cmd, out, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait() // killed; the log has the rest
	}(s.done)
	return s.await()
}

// await waits until the store responds.
func (s *Server) await() error {
	wait := patience
	if s.kind.slow {
		wait *= 3
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for {
		err := s.kind.ready(ctx, s.Addr)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.done:
			return fmt.Errorf("%s ended before it answered: %s", s.kind.name, s.log())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", s.kind.name, err, s.log())
		}
	}
}

func (s *Server) log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, s.kind.name+".log"))
	return string(text[max(0, len(text)-2000):])
}

// Freeze stops the store's processes without closing its connections: it accepts requests and does
// not respond. It returns when every thread has stopped.
func (s *Server) Freeze() {
	_ = s.signal(syscall.SIGSTOP)
	waitUntil(func() bool { return s.cmd == nil || s.still() })
}

// waitUntil polls a condition of another process, for at most patience.
func waitUntil(ok func() bool) bool {
	return testrig.Until(context.Background(), patience, "", ok) == nil
}

// still reports whether every thread of the store has stopped.
func (s *Server) still() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	for _, name := range threads {
		text, err := os.ReadFile(name) //nolint:gosec // of our own process
		if _, state, ok := strings.Cut(string(text), ") "); err == nil && ok && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// Thaw continues a frozen store.
func (s *Server) Thaw() { _ = s.signal(syscall.SIGCONT) }

// Kill kills the store. Data that it has not written is lost.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	left := s.signal(syscall.SIGKILL)
	<-s.done
	waitUntil(func() bool { return !slices.ContainsFunc(left, running) }) // they hold its shared memory
	_ = s.out.Close()                                                     // nothing writes to it any more
	s.cmd = nil
}

// signal sends a signal to the store and its children, and returns the children: those of
// PostgreSQL leave its process group.
func (s *Server) signal(sig syscall.Signal) []int {
	if s.cmd == nil {
		return nil
	}
	pid := s.cmd.Process.Pid
	if sig != syscall.SIGCONT {
		_ = syscall.Kill(-pid, syscall.SIGSTOP) // it must not start children while they are listed
	}
	found := children(pid)
	for _, child := range found {
		_ = syscall.Kill(child, sig) // may have ended
	}
	_ = syscall.Kill(-pid, sig) // likewise
	return found
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for field := range strings.FieldsSeq(string(text)) {
		pids = append(pids, atoi(field))
	}
	return pids
}

// Wipe deletes the data of a killed store.
func (s *Server) Wipe() error {
	if s.cmd != nil {
		return errors.New("kill it before its folder is emptied")
	}
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return s.fill()
}

// Dir returns the data folder. Copy it only while the store is killed.
func (s *Server) Dir() string { return s.data() }

// PID returns the store's process id.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Close stops the store.
func (s *Server) Close() { s.Kill() }

// dial connects to a store, for readiness checks.
func dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	return conn, nil
}

// nobody returns the account of a program that refuses to run as root.
func nobody(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	uid, gid, err := lookUp(name)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
