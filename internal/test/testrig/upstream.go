package testrig

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Script responds to one request. It reports whether the connection can be reused.
type Script func(*Call) (reuse bool)

// Target is one provider behind the gateway. The first element of a request's path
// names it.
type Target struct {
	Name string

	script         Script
	Calls          atomic.Int64 // requests so far
	Open           atomic.Int64 // requests in progress
	Peak           atomic.Int64 // the most that were open at a time
	Disconnects    atomic.Int64 // requests whose client closed the connection before the script ended
	Sent           atomic.Int64 // bytes written
	disconnectedAt atomic.Int64 // time of the last disconnect, in Unix nanoseconds
}

// DisconnectedAt returns when the last client closed its connection early.
func (t *Target) DisconnectedAt() time.Time { return time.Unix(0, t.disconnectedAt.Load()) }

// Upstream serves any number of targets on one listener, with raw sockets.
type Upstream struct {
	Addr        string // host:port
	TLSAddr     string // the same over TLS, with a self-signed certificate; see ListenBroken
	RefusedAddr string // refuses connections; see ListenBroken
	Lenient     bool   // pass requests to scripts that a vendor would refuse

	mu        sync.RWMutex
	targets   map[string]*Target
	listeners []net.Listener
	conns     map[net.Conn]struct{}
	opened    int
	closed    bool         // no further connection is served
	release   func() error // frees RefusedAddr
	wg        sync.WaitGroup
}

// NewUpstream listens on a loopback port until Close.
func NewUpstream() (*Upstream, error) { return ListenUpstream("127.0.0.1:0") }

// ListenUpstream listens on an address until Close.
func ListenUpstream(address string) (*Upstream, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return ServeUpstream(l), nil
}

// ServeUpstream serves the connections of a listener until Close.
func ServeUpstream(l net.Listener) *Upstream {
	u := &Upstream{Addr: l.Addr().String(), targets: map[string]*Target{}, conns: map[net.Conn]struct{}{}}
	u.serve(l)
	return u
}

// ListenBroken adds a listener whose certificate no authority has signed, and an
// address that refuses connections.
func (u *Upstream) ListenBroken() (err error) {
	if u.RefusedAddr, u.release, err = UnusedPort(); err != nil {
		return err
	}
	certificate, _, err := SelfSigned()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	u.TLSAddr = l.Addr().String()
	u.serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	return nil
}

// Handle sets the script of a target. The target "" gets requests that name no other
// target.
func (u *Upstream) Handle(name string, script Script) *Target {
	t := &Target{Name: name, script: script}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.targets[name] = t
	return t
}

// URL returns the base_url of a target.
func (u *Upstream) URL(target string, d Dialect) string {
	return "http://" + u.Addr + "/" + target + d.Base()
}

// OpenRequests returns the number of requests in progress.
func (u *Upstream) OpenRequests() (n int64) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, t := range u.targets {
		n += t.Open.Load()
	}
	return n
}

// Connections returns how many connections are open, and how many there have been.
func (u *Upstream) Connections() (open, all int) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.conns), u.opened
}

// CloseConnections closes all connections, so that idle ones do not count as leaks.
func (u *Upstream) CloseConnections() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close() // the peer may have closed it first
	}
}

// Close stops the listeners, closes all connections and waits for the scripts.
func (u *Upstream) Close() {
	for _, l := range u.listeners {
		_ = l.Close() // stops accepting
	}
	if u.release != nil {
		_ = u.release() // no test uses the address any more
	}
	u.mu.Lock()
	u.closed = true
	u.mu.Unlock()
	u.CloseConnections()
	u.wg.Wait()
}

func (u *Upstream) serve(l net.Listener) {
	u.listeners = append(u.listeners, l)
	u.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			u.mu.Lock()
			u.conns[c] = struct{}{}
			u.opened++
			if u.closed { // meanwhile
				_ = c.Close() // nothing was sent on it
			}
			u.mu.Unlock()
			u.wg.Go(func() { u.serveConn(c) })
		}
	})
}

// serveConn serves the requests of one connection.
func (u *Upstream) serveConn(conn net.Conn) {
	defer func() {
		_ = conn.Close() // most scripts have closed it
		u.mu.Lock()
		delete(u.conns, conn)
		u.mu.Unlock()
	}()
	r := bufio.NewReaderSize(conn, 4<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		c := &Call{Method: req.Method, URI: req.URL.RequestURI(), Header: req.Header, Body: body, Conn: conn, gone: make(chan struct{})}
		c.Target, _, _ = strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		u.mu.RLock()
		t := u.targets[c.Target]
		if t == nil {
			t = u.targets[""]
		}
		u.mu.RUnlock()
		switch {
		case t == nil:
			c.Respond(http.StatusNotFound, JSONMedia, `{"error":{"message":"no such target","type":"not_found"}}`)
			return
		case !u.answer(t, c, r, req.URL.Path):
			return
		}
	}
}

// answer runs the target's script while it watches for the end of the connection.
func (u *Upstream) answer(t *Target, c *Call, r *bufio.Reader, path string) (reuse bool) {
	refusal := c.parse(path)
	c.target, c.N = t, t.Calls.Add(1)
	for open, peak := t.Open.Add(1), t.Peak.Load(); open > peak && !t.Peak.CompareAndSwap(peak, open); peak = t.Peak.Load() {
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := r.Peek(1); err != nil { // also returns when the next request arrives
			c.goneAt.Store(time.Now().UnixNano())
			close(c.gone)
		}
	}()
	if refusal != "" && !u.Lenient {
		reuse = c.Error(http.StatusBadRequest, refusal)
	} else {
		reuse = t.script(c)
	}
	t.Open.Add(-1)
	if at := c.goneAt.Load(); at != 0 {
		t.Disconnects.Add(1)
		t.disconnectedAt.Store(at)
		return false
	}
	if !reuse {
		_ = c.Conn.Close() // ends the watch
	}
	<-watched
	return reuse
}

// Call is one request to a target, with methods to respond to it.
type Call struct {
	Method, URI string // the URI with its query
	Header      http.Header
	Body        []byte
	Conn        net.Conn

	Target  string // the first element of the path
	N       int64  // which call of the target it is, from 1
	Dialect Dialect
	Model   string
	Stream  bool // the client requests a stream
	Usage   bool // the client requests usage on a Chat stream

	target *Target
	gone   chan struct{} // closed when the client has closed the connection
	goneAt atomic.Int64
}

// parse reads the request and returns why the vendor would reject it, or "".
func (c *Call) parse(path string) (refusal string) {
	var r request
	err := json.Unmarshal(c.Body, &r)
	c.Dialect, c.Model, c.Stream = DialectAt(path), r.Model, r.Stream
	c.Usage = r.Options != nil && r.Options.IncludeUsage
	if _, rest, ok := strings.Cut(path, "/models/"); ok {
		c.Model, _, _ = strings.Cut(rest, ":")
		c.Stream = strings.HasSuffix(path, ":streamGenerateContent")
	}
	if _, rest, ok := strings.Cut(path, "/model/"); ok && c.Dialect == Converse {
		c.Model, _, _ = strings.Cut(rest, "/")
		c.Stream = strings.HasSuffix(path, "/converse-stream")
	}
	return r.refusal(c.Dialect, c.Header, err)
}

// Reply returns the reply of a target with this role, in the form that was requested.
func (c *Call) Reply(role string) Reply {
	return Reply{Dialect: c.Dialect, Words: Words(role), Usage: c.Usage}
}

// Write sends bytes and reports whether that succeeded.
func (c *Call) Write(s string) bool {
	n, err := io.WriteString(c.Conn, s)
	c.target.Sent.Add(int64(n))
	return err == nil
}

func head(status int, media string, length int, headers []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", status, http.StatusText(status), media)
	for i := 0; i+1 < len(headers); i += 2 {
		b.WriteString(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	if length < 0 {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	} else {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", length)
	}
	return b.String()
}

// Head sends a status and headers; a length of -1 means a chunked body. Further headers
// are names and values in turn.
func (c *Call) Head(status int, media string, length int, headers ...string) bool {
	return c.Write(head(status, media, length, headers))
}

// Respond sends a response with its length.
func (c *Call) Respond(status int, media, body string, headers ...string) bool {
	return c.Write(head(status, media, len(body), headers) + body)
}

// Error sends an error of the dialect.
func (c *Call) Error(status int, message string, headers ...string) bool {
	return c.Respond(status, JSONMedia, c.Dialect.ErrorBody(status, message), headers...)
}

// StartStream sends the head of an event stream.
func (c *Call) StartStream(headers ...string) bool {
	return c.Head(http.StatusOK, c.Dialect.StreamMedia(), -1, headers...)
}

// Chunks sends each piece as a chunk of its own.
func (c *Call) Chunks(pieces ...string) bool {
	for _, p := range pieces {
		if !c.Write(Chunk(p)) {
			return false
		}
	}
	return true
}

// Chunk frames bytes for a chunked body.
func Chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// End sends the last chunk.
func (c *Call) End() bool { return c.Write("0\r\n\r\n") }

// Gone is closed when the client has closed the connection.
func (c *Call) Gone() <-chan struct{} { return c.gone }

// Wait waits for a time and reports whether the client is still connected.
func (c *Call) Wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.gone:
		return false
	case <-t.C:
		return true
	}
}

// Hold sends nothing until the client closes the connection.
func (c *Call) Hold() bool {
	<-c.gone
	return false
}

// Reset closes the connection with a TCP reset.
func (c *Call) Reset() bool {
	raw := c.Conn
	if s, ok := raw.(*tls.Conn); ok {
		raw = s.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it Close sends FIN, which is a failure too
	}
	_ = c.Conn.Close() // that is the point
	return false
}

// Answer responds like a healthy target of this role.
func Answer(role string) Script { return AnswerAfter(role, 0) }

// AnswerAfter sends the words of the reply after a delay; a stream starts at once.
func AnswerAfter(role string, delay time.Duration) Script {
	type form struct {
		dialect Dialect
		usage   bool
	}
	var streams sync.Map // by form: under load, writing each anew takes the machine's time
	return func(c *Call) bool {
		r := c.Reply(role)
		if !c.Stream {
			return c.Wait(delay) && c.Respond(http.StatusOK, JSONMedia, r.Body())
		}
		written, ok := streams.Load(form{r.Dialect, r.Usage})
		if !ok {
			written, _ = streams.LoadOrStore(form{r.Dialect, r.Usage}, r.Stream())
		}
		s, _ := written.(Stream)
		c.StartStream()
		c.Chunks(s.Head...)
		return c.Wait(delay) && c.Chunks(slices.Concat(s.Words, s.Tail)...) && c.End()
	}
}

// Status responds with an error status. headers alternates names and values.
func Status(status int, headers ...string) Script {
	return func(c *Call) bool { return c.Error(status, "not now", headers...) }
}
