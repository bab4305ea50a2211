package conns

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is a server behind Conns. A request for /hold is answered when the test says so.
type rig struct {
	t     *testing.T
	conns *Conns
	addr  string
	held  chan struct{}
	log   *locked
}

func newRig(t *testing.T, o Options) *rig {
	r := &rig{t: t, held: make(chan struct{}), log: &locked{}}
	o.Logger = slog.New(slog.NewTextHandler(r.log, nil))
	r.conns = New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	server := &http.Server{ConnState: r.conns.Note, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/hold" {
			_ = http.NewResponseController(w).Flush()
			<-r.held
		}
		_, _ = io.WriteString(w, "ok")
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(r.conns.Listen(l))
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return r
}

// client is a connection of a client.
type client struct {
	net.Conn
	r *bufio.Reader
}

// dial connects from an address.
func (r *rig) dial(from string) *client {
	r.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &client{c, bufio.NewReader(c)}
}

// get sends a request and reports whether the head of a response arrives.
func (c *client) get(path string) bool {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return false
	}
	if path != "/hold" {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	return resp.StatusCode == http.StatusOK
}

// isClosed waits until the server has closed the connection.
func (c *client) isClosed() bool {
	_, err := c.r.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (r *rig) open() int {
	r.conns.mu.Lock()
	defer r.conns.mu.Unlock()
	return r.conns.open
}

// idle returns the number of connections without a request.
func (r *rig) idle() int {
	r.conns.mu.Lock()
	defer r.conns.mu.Unlock()
	return r.conns.idle.Len()
}

func (r *rig) wait(what string, ok func() bool) {
	r.t.Helper()
	testrig.Eventually(r.t, what, ok)
}

// TestIdleConnectionsMakeRoom fills the limit with idle connections. A new client is served, and the
// connection that was idle for longest is closed.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	r := newRig(t, Options{Limit: 10})
	var idle []*client
	for range 10 {
		c := r.dial("127.0.0.1")
		if !c.get("/") {
			t.Fatal("a client within the limit is not served")
		}
		idle = append(idle, c)
		// The server notes the end of a request after its client has read the response.
		r.wait("a connection does not become idle", func() bool { return r.idle() == len(idle) })
	}
	if !r.dial("127.0.0.1").get("/") {
		t.Error("a client is shut out by idle connections")
	}
	if !idle[0].isClosed() {
		t.Error("the connection that was idle for longest is open")
	}
	if !idle[9].get("/") {
		t.Error("the connection that was used last is closed")
	}
	if n := r.open(); n != 10 {
		t.Errorf("%d connections are counted, want 10", n)
	}
}

// TestBusyConnectionsStay fills the limit with requests. A new connection is refused, and none of those
// with a request is closed.
func TestBusyConnectionsStay(t *testing.T) {
	r := newRig(t, Options{Limit: 5})
	for range 5 {
		if c := r.dial("127.0.0.1"); !c.get("/hold") {
			t.Fatal("a request within the limit is not served")
		}
	}
	for range 3 {
		if r.dial("127.0.0.1").get("/") {
			t.Error("a connection beyond the limit is served")
		}
	}
	if got := strings.Count(r.log.String(), "too many connections"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, r.log.String())
	}
	close(r.held)
	r.wait("the connections do not become idle", func() bool { return r.conns.Quiet() > 0 })
	if !r.dial("127.0.0.1").get("/") {
		t.Error("a client is refused after the requests have ended")
	}
}

// TestOneAddress checks that a client with many connections closes its own first, and shuts nobody else
// out. Proxies have no limit of their own.
func TestOneAddress(t *testing.T) {
	r := newRig(t, Options{Limit: 20, PerAddress: 5, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}})
	other := r.dial("127.0.0.2")
	if !other.get("/") {
		t.Fatal("the first client is not served")
	}
	for range 30 {
		r.dial("127.0.0.3") // sends nothing
	}
	r.wait("the limit of an address does not hold", func() bool { return r.open() == 6 })
	if !other.get("/") {
		t.Error("another client's connection is closed")
	}
	for range 5 {
		if !r.dial("127.0.0.4").get("/hold") {
			t.Fatal("a request within the limit is not served")
		}
	}
	if r.dial("127.0.0.4").get("/") {
		t.Error("a sixth connection of an address with five requests is served")
	}
	for range 9 {
		if !r.dial("127.0.0.9").get("/") {
			t.Error("a proxy is limited")
		}
	}
	close(r.held)
}

// TestCountsReturnToZero checks that nothing is kept of closed connections.
func TestCountsReturnToZero(t *testing.T) {
	r := newRig(t, Options{Limit: 50, PerAddress: 20})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			c := r.dial("127.0.0." + string(rune('1'+i%7)))
			_ = c.get("/")
			_ = c.Close()
		})
	}
	wg.Wait()
	r.wait("connections are still counted", func() bool {
		r.conns.mu.Lock()
		defer r.conns.mu.Unlock()
		return r.conns.open == 0 && len(r.conns.from) == 0 && r.conns.idle.Len() == 0 && len(r.conns.busy) == 0
	})
}

// short fails to accept, as without descriptors.
type short struct {
	net.Listener
	times int
}

func (l *short) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return nil, net.ErrClosed
}

// TestShortage checks that a listener goes on without descriptors, and says so once.
func TestShortage(t *testing.T) {
	var log locked
	s := New(Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, err := s.Listen(&short{times: 3}).Accept()
	if err != net.ErrClosed { //nolint:errorlint // passed on as it is
		t.Error(err)
	}
	if got := strings.Count(log.String(), "cannot be accepted"); got != 1 {
		t.Errorf("%d warnings:\n%s", got, log.String())
	}
}

func TestQuiet(t *testing.T) {
	c := New(Options{})
	one, two := net.Pipe()
	defer one.Close()
	defer two.Close()
	if c.Quiet() < time.Hour {
		t.Error("there was no connection ever, and it is not quiet")
	}
	for i, step := range []struct {
		conn  net.Conn
		state http.ConnState
		quiet bool
	}{
		{one, http.StateNew, false}, {one, http.StateActive, false}, {two, http.StateNew, false},
		{one, http.StateIdle, false}, {two, http.StateClosed, true},
		{one, http.StateActive, false}, {one, http.StateIdle, true}, {one, http.StateClosed, true},
	} {
		c.Note(step.conn, step.state)
		if got := c.Quiet() > 0; got != step.quiet {
			t.Errorf("step %d: quiet %t, want %t", i, got, step.quiet)
		}
	}
}
