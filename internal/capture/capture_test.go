package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far more than anything here takes; only a failing test waits so long.
const patience = 10 * time.Second

type safeLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// own gives the test a folder for sockets.
func own(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ic") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

func serve(t *testing.T, log io.Writer) (*Hub, *Server) {
	t.Helper()
	hub := &Hub{Version: "test"}
	s, err := Serve(Options{Hub: hub, Address: "127.0.0.1:8080", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return hub, s
}

// exchange goes through a hub as one goes through a gateway.
func exchange(h *Hub, s Subject, ask, answer string) {
	if !h.Active() {
		return
	}
	tape := h.Follow(s)
	if tape == nil {
		return
	}
	tape.Asked(Asked{ID: "1", Model: s.Model, Body: []byte(ask), Secrets: []string{"sk-client-secret"},
		Header: http.Header{"Authorization": {"Bearer sk-client-secret"}, "Cookie": {"c=1"}, "User-Agent": {"x sk-client-secret"}}})
	try := tape.Try(Sent{Target: "p/m", Body: []byte(ask), Secret: "sk-upstream-secret", Header: http.Header{"X-Api-Key": {"sk-upstream-secret"}}})
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Set-Cookie": {"a=b"}, "Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer))}
	try.Answered(resp)
	got, _ := io.ReadAll(resp.Body)
	_, _ = tape.Write(got)
	tape.End(Outcome{Taken: try, Status: 200, Header: http.Header{"Set-Cookie": {"a=b"}}})
}

// attached runs Attach and hands over what it is told.
type attached struct {
	got    chan *Exchange
	missed chan string
	ready  chan struct{}
	done   chan error
	cancel context.CancelFunc
}

func attach(t *testing.T, socket string, f Filter) *attached {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &attached{make(chan *Exchange, 64), make(chan string, 64), make(chan struct{}, 8), make(chan error, 1), cancel}
	go func() {
		a.done <- Attach(ctx, socket, f, Watch{
			Attached: func() { a.ready <- struct{}{} },
			Exchange: func(x *Exchange) error { a.got <- x; return nil },
			Missed:   func(large, busy int64) { a.missed <- fmt.Sprint(large, " ", busy) },
		})
	}()
	t.Cleanup(cancel)
	wait(t, a.ready)
	return a
}

func wait[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}

func TestAttached(t *testing.T) {
	own(t)
	log := &safeLog{}
	hub, s := serve(t, log)
	if hub.Active() {
		t.Error("somebody looks on before anybody is attached")
	}
	a := attach(t, s.Name(), Filter{Model: "m", Count: 1, Bytes: 1000})
	exchange(hub, Subject{Model: "other"}, `{}`, `{}`)
	exchange(hub, Subject{Model: "m"}, `{"ask":"sk-client-secret"}`, `{"error":"sk-upstream-secret is wrong"}`)
	x := wait(t, a.got)
	if err := wait(t, a.done); err != nil {
		t.Fatal(err)
	}
	if string(x.Ask) != `{"ask":"***"}` || string(x.Seen) != `{"error":"*** is wrong"}` || string(x.Tries[0].Answer) != string(x.Seen) || x.Taken != 0 || x.Version != "test" {
		t.Errorf("got %+v, %s, %s", x, x.Ask, x.Seen)
	}
	if all := fmt.Sprintf("%+v %+v %+v %+v", x.Header, x.SeenHeader, x.Tries[0].Header, x.Tries[0].AnswerHeader); strings.Contains(all, "secret") || strings.Contains(all, "Cookie") || x.Header.Get("User-Agent") != "x ***" {
		t.Errorf("a credential is left: %s", all)
	}
	s.Close() // waits for the last log line
	for _, want := range []string{"level=WARN", "capture attached", "model=m", fmt.Sprintf("uid=%d", os.Geteuid()), "capture detached", "given=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	if hub.Active() {
		t.Error("somebody still looks on")
	}
}

func TestFilter(t *testing.T) {
	s := Subject{Model: "m", Key: "k1", Digest: "0123456789abcdef", Requests: []string{"r1", "r2"}}
	for _, c := range []struct {
		f    Filter
		want bool
	}{
		{Filter{}, false},
		{Filter{All: true}, true},
		{Filter{Model: "m"}, true},
		{Filter{Model: "n"}, false},
		{Filter{All: true, Model: "n"}, false},
		{Filter{Key: "k1"}, true},
		{Filter{Key: "k2"}, false},
		{Filter{Key: "sha256:01234567"}, true},
		{Filter{Key: "sha256:0123456"}, false},
		{Filter{Key: "sha256:01234568"}, false},
		{Filter{Request: "r2"}, true},
		{Filter{Request: "r3"}, false},
		{Filter{Model: "m", Key: "k1", Request: "r1"}, true},
		{Filter{Model: "m", Key: "k2"}, false},
	} {
		if got := c.f.wants(&s); got != c.want {
			t.Errorf("%+v: %t", c.f, got)
		}
	}
	if (&Filter{Key: "k1"}).wants(&Subject{}) || (&Filter{Key: "sha256:01234567"}).wants(&Subject{}) {
		t.Error("who has no key is taken for somebody")
	}
}

// What is larger than the limit is let go at once, and that is said.
func TestTooLarge(t *testing.T) {
	own(t)
	hub, s := serve(t, io.Discard)
	a := attach(t, s.Name(), Filter{All: true, Count: 1, Bytes: 20})
	exchange(hub, Subject{}, strings.Repeat("a", 21), "{}")
	if got := wait(t, a.missed); got != "1 0" {
		t.Errorf("missed %s", got)
	}
	exchange(hub, Subject{}, "{}", strings.Repeat("a", 21))
	if got := wait(t, a.missed); got != "2 0" {
		t.Errorf("missed %s", got)
	}
	tape := hub.Follow(Subject{})
	for range 1000 {
		_, _ = tape.Write([]byte("0123456789"))
	}
	if len(tape.x.Seen) != 0 || !tape.over {
		t.Errorf("%d bytes are held", len(tape.x.Seen))
	}
	tape.End(Outcome{})
	wait(t, a.missed)
	exchange(hub, Subject{}, "{}", "{}")
	wait(t, a.got)
}

// A command that takes nothing holds nobody up: what it has no room for is counted.
func TestNobodyWaits(t *testing.T) {
	hub := &Hub{}
	v, ok := hub.join(Filter{All: true, Count: 1000, Bytes: 100})
	if !ok {
		t.Fatal("not joined")
	}
	for range 100 {
		exchange(hub, Subject{}, "{}", "{}")
	}
	if n := v.missed.Load(); n != 100-maxOpen || len(v.out) != maxOpen || hub.Follow(Subject{}) != nil {
		t.Errorf("%d were missed, %d are kept", n, len(v.out))
	}
	other, ok := hub.join(Filter{All: true, Count: 1000, Bytes: 100})
	if !ok {
		t.Fatal("not joined")
	}
	open := 0
	for hub.Follow(Subject{}) != nil {
		open++
	}
	if open != maxOpen {
		t.Errorf("%d are open at once", open)
	}
	hub.leave(other)
	hub.leave(v)
	if hub.Active() || hub.Follow(Subject{}) != nil {
		t.Error("who has left still looks on")
	}
}

func TestNotTooMany(t *testing.T) {
	own(t)
	_, s := serve(t, io.Discard)
	for range maxAttached {
		attach(t, s.Name(), Filter{All: true, Count: 1, Bytes: 1})
	}
	err := Attach(t.Context(), s.Name(), Filter{All: true, Count: 1, Bytes: 1}, Watch{Attached: func() {}})
	if err == nil || !strings.Contains(err.Error(), "end one of them") {
		t.Errorf("got %v", err)
	}
}

// Another process takes the name over; who was attached goes on with it.
func TestTakenOver(t *testing.T) {
	own(t)
	old, first := serve(t, io.Discard)
	a := attach(t, first.Name(), Filter{All: true, Count: 2, Bytes: 1000})
	exchange(old, Subject{}, `{"n":1}`, "{}")
	wait(t, a.got)
	fresh, second := serve(t, io.Discard)
	first.Close()
	wait(t, a.ready)
	if _, err := os.Stat(second.Name()); err != nil {
		t.Error("the old process has removed the new one's socket: ", err)
	}
	exchange(old, Subject{}, `{"n":2}`, "{}")
	exchange(fresh, Subject{}, `{"n":3}`, "{}")
	if x := wait(t, a.got); string(x.Ask) != `{"n":3}` {
		t.Errorf("got %s", x.Ask)
	}
	if err := wait(t, a.done); err != nil {
		t.Error(err)
	}
	second.Close()
	if _, err := os.Stat(second.Name()); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is left: ", err)
	}
}

func TestPermissions(t *testing.T) {
	dir := own(t)
	_, s := serve(t, io.Discard)
	for path, want := range map[string]os.FileMode{s.Name(): 0o600, filepath.Dir(s.Name()): 0o700} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	s.Close()
	for name, prepare := range map[string]func(dir string) error{
		"others may write":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
		"others may look":   func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o750)) },
		"a link":            func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file":            func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a link to nothing": func(dir string) error { return os.Symlink("/nowhere/at/all", dir) },
	} {
		folder := filepath.Join(dir, "isogloss")
		_ = os.RemoveAll(folder)
		if err := prepare(folder); err != nil {
			t.Fatal(err)
		}
		if s, err := Serve(Options{Hub: &Hub{}, Address: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)}); err == nil {
			s.Close()
			t.Errorf("%s: a socket was made", name)
		}
		_ = os.RemoveAll(folder)
	}
}

// A socket of a process that was killed does not keep the next one from its name.
func TestStaleSocket(t *testing.T) {
	dir := own(t)
	if err := os.Mkdir(filepath.Join(dir, "isogloss"), 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "isogloss", "127.0.0.1:8080.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if err := Attach(t.Context(), name, Filter{All: true, Count: 1}, Watch{}); !errors.Is(err, ErrNobody) {
		t.Errorf("a stale socket: %v", err)
	}
	_, s := serve(t, io.Discard)
	if s.Name() != name || !Alive(t.Context(), name) {
		t.Errorf("%s is not taken over", s.Name())
	}
	if got := Sockets(); len(got) == 0 || got[0] != name {
		t.Errorf("found %v", got)
	}
}

// What is not a filter is let go of.
func TestNonsense(t *testing.T) {
	own(t)
	hub, s := serve(t, io.Discard)
	conn, err := net.Dial("unix", s.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(conn); len(b) > 0 || hub.Active() {
		t.Errorf("it was told %q, %v", b, err)
	}
}

// While nobody looks on a request pays one load.
func TestIdleCost(t *testing.T) {
	hub := &Hub{}
	if n := testing.AllocsPerRun(1000, func() {
		if hub.Active() {
			t.Error("somebody looks on")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIdle(b *testing.B) {
	hub := &Hub{}
	b.ReportAllocs()
	for b.Loop() {
		if hub.Active() {
			b.Fatal("somebody looks on")
		}
	}
}
