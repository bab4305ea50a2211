package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitTimeout is far more than anything here takes; only a failing test waits so long.
const waitTimeout = 10 * time.Second

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

// server serves a Hub on a socket.
type server struct {
	http.Server
	hub  *Hub
	name string
}

// Close stops as a gateway does.
func (s *server) Close() {
	s.hub.Close()
	_ = s.Shutdown(context.Background())
}

func serve(t *testing.T, log io.Writer) (*Hub, *server) {
	t.Helper()
	hub := &Hub{Version: "test"}
	l, err := local.Listen("127.0.0.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+Path, NewHandler(Options{Hub: hub, Logger: slog.New(slog.NewTextHandler(log, nil))}))
	s := &server{http.Server{Handler: local.Guard(mux), ConnContext: local.ConnContext}, hub, l.Name()}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Close)
	return hub, s
}

// exchange records one exchange as the gateway does.
func exchange(h *Hub, s Subject, ask, answer string) {
	if !h.Active() {
		return
	}
	recorder := h.Record(s)
	if recorder == nil {
		return
	}
	recorder.Request(Request{ID: "1", Model: s.Model, Body: []byte(ask), Secrets: []string{"sk-client-secret"},
		Header: http.Header{"Authorization": {"Bearer sk-client-secret"}, "Cookie": {"c=1"}, "User-Agent": {"x sk-client-secret"}}})
	attempt := recorder.Attempt(UpstreamRequest{Target: "p/m", Body: []byte(ask), Secrets: []string{"sk-upstream-secret"}, Header: http.Header{"X-Api-Key": {"sk-upstream-secret"}}})
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Set-Cookie": {"a=b"}, "Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer))}
	attempt.Response(resp)
	got, _ := io.ReadAll(resp.Body)
	_, _ = recorder.Write(got)
	recorder.End(Result{Answered: attempt, Status: 200, Header: http.Header{"Set-Cookie": {"a=b"}}})
}

// attached is a running Attach and what its handler was called with.
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
		a.done <- Attach(ctx, socket, f, Handler{
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
	case <-time.After(waitTimeout):
		t.Fatal("timeout")
	}
	return v
}

func TestAttach(t *testing.T) {
	testrig.SocketFolder(t)
	log := &safeLog{}
	hub, s := serve(t, log)
	if hub.Active() {
		t.Error("active before a command is attached")
	}
	a := attach(t, s.name, Filter{Model: "m", Count: 1, Bytes: 1000})
	exchange(hub, Subject{Model: "other"}, `{}`, `{}`)
	exchange(hub, Subject{Model: "m"}, `{"ask":"sk-client-secret"}`, `{"error":"sk-upstream-secret is wrong"}`)
	x := wait(t, a.got)
	if err := wait(t, a.done); err != nil {
		t.Fatal(err)
	}
	if string(x.RequestBody) != `{"ask":"***"}` || string(x.ResponseBody) != `{"error":"*** is wrong"}` || string(x.Attempts[0].ResponseBody) != string(x.ResponseBody) || x.Answered != 0 || x.Version != "test" {
		t.Errorf("got %+v, %s, %s", x, x.RequestBody, x.ResponseBody)
	}
	if all := fmt.Sprintf("%+v %+v %+v %+v", x.RequestHeader, x.ResponseHeader, x.Attempts[0].RequestHeader, x.Attempts[0].ResponseHeader); strings.Contains(all, "secret") || strings.Contains(all, "Cookie") || x.RequestHeader.Get("User-Agent") != "x ***" {
		t.Errorf("a credential is left: %s", all)
	}
	s.Close() // waits for the last log line
	for _, want := range []string{"level=WARN", "capture attached", "model=m", fmt.Sprintf("uid=%d", os.Geteuid()), "capture detached", "sent=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	if hub.Active() {
		t.Error("active after the command has detached")
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
		if got := c.f.matches(&s); got != c.want {
			t.Errorf("%+v: %t", c.f, got)
		}
	}
	if (&Filter{Key: "k1"}).matches(&Subject{}) || (&Filter{Key: "sha256:01234567"}).matches(&Subject{}) {
		t.Error("an exchange without a key matches a key")
	}
}

// TestOversizedExchange checks that an exchange above the limit is discarded at once and
// counted.
func TestOversizedExchange(t *testing.T) {
	testrig.SocketFolder(t)
	hub, s := serve(t, io.Discard)
	a := attach(t, s.name, Filter{All: true, Count: 1, Bytes: 20})
	exchange(hub, Subject{}, strings.Repeat("a", 21), "{}")
	if got := wait(t, a.missed); got != "1 0" {
		t.Errorf("missed %s", got)
	}
	exchange(hub, Subject{}, "{}", strings.Repeat("a", 21))
	if got := wait(t, a.missed); got != "2 0" {
		t.Errorf("missed %s", got)
	}
	recorder := hub.Record(Subject{})
	for range 1000 {
		_, _ = recorder.Write([]byte("0123456789"))
	}
	if len(recorder.x.ResponseBody) != 0 || !recorder.oversized {
		t.Errorf("%d bytes are held", len(recorder.x.ResponseBody))
	}
	recorder.End(Result{})
	wait(t, a.missed)
	exchange(hub, Subject{}, "{}", "{}")
	wait(t, a.got)
}

// TestSlowCommandBlocksNoRequest checks that a command that reads nothing blocks no
// request: further exchanges are dropped and counted.
func TestSlowCommandBlocksNoRequest(t *testing.T) {
	hub := &Hub{}
	v, ok := hub.attach("1000", Filter{All: true, Count: 1000, Bytes: 100})
	if !ok {
		t.Fatal("not attached")
	}
	for range 100 {
		exchange(hub, Subject{}, "{}", "{}")
	}
	if n := v.dropped.Load(); n != 100-maxOpen || len(v.out) != maxOpen || hub.Record(Subject{}) != nil {
		t.Errorf("%d were dropped, %d are held", n, len(v.out))
	}
	other, ok := hub.attach("1000", Filter{All: true, Count: 1000, Bytes: 100})
	if !ok {
		t.Fatal("not attached")
	}
	open := 0
	for hub.Record(Subject{}) != nil {
		open++
	}
	if open != maxOpen {
		t.Errorf("%d are open at once", open)
	}
	if list := hub.Attached(); len(list) != 2 || list[0].UID != "1000" || !list[0].Filter.All || time.Since(list[0].Since) > time.Minute {
		t.Errorf("attached: %+v", list)
	}
	hub.detach(other)
	hub.detach(v)
	if hub.Active() || hub.Attached() != nil || hub.Record(Subject{}) != nil {
		t.Error("active after all commands have detached")
	}
}

func TestTooManyCommands(t *testing.T) {
	testrig.SocketFolder(t)
	_, s := serve(t, io.Discard)
	for range maxAttached {
		attach(t, s.name, Filter{All: true, Count: 1, Bytes: 1})
	}
	err := Attach(t.Context(), s.name, Filter{All: true, Count: 1, Bytes: 1}, Handler{Attached: func() {}})
	if err == nil || !strings.Contains(err.Error(), "end one of them") {
		t.Errorf("got %v", err)
	}
}

// TestTakeover checks that a command attaches to the process that takes over the socket.
func TestTakeover(t *testing.T) {
	testrig.SocketFolder(t)
	old, first := serve(t, io.Discard)
	a := attach(t, first.name, Filter{All: true, Count: 2, Bytes: 1000})
	exchange(old, Subject{}, `{"n":1}`, "{}")
	wait(t, a.got)
	fresh, second := serve(t, io.Discard)
	first.Close()
	wait(t, a.ready)
	if _, err := os.Stat(second.name); err != nil {
		t.Error("the old process has removed the new one's socket: ", err)
	}
	exchange(old, Subject{}, `{"n":2}`, "{}")
	exchange(fresh, Subject{}, `{"n":3}`, "{}")
	if x := wait(t, a.got); string(x.RequestBody) != `{"n":3}` {
		t.Errorf("got %s", x.RequestBody)
	}
	if err := wait(t, a.done); err != nil {
		t.Error(err)
	}
	second.Close()
	if _, err := os.Stat(second.name); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is left: ", err)
	}
}

// TestInvalidFilter checks that a request without a filter is refused.
func TestInvalidFilter(t *testing.T) {
	testrig.SocketFolder(t)
	hub, s := serve(t, io.Discard)
	for _, body := range []string{"", "{", "[]", `{"model":"` + strings.Repeat("x", maxFilter) + `"}`} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+Path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := local.Transport(s.name).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || hub.Active() {
			t.Errorf("%.20q: %d", body, resp.StatusCode)
		}
	}
}

// TestAttachNowhere checks the error where no gateway runs.
func TestAttachNowhere(t *testing.T) {
	name := filepath.Join(testrig.SocketFolder(t), "isogloss", "127.0.0.1:8080.sock")
	if err := Attach(t.Context(), name, Filter{All: true, Count: 1}, Handler{}); !errors.Is(err, local.ErrNotRunning) {
		t.Error(err)
	}
}

// TestIdleCost checks that without a command a request pays for one atomic load.
func TestIdleCost(t *testing.T) {
	hub := &Hub{}
	if n := testing.AllocsPerRun(1000, func() {
		if hub.Active() {
			t.Error("active")
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
			b.Fatal("active")
		}
	}
}
