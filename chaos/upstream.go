package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// upstream plays every target of a run on one listener.
type upstream struct {
	listeners []net.Listener
	plain     string // host:port
	secure    string // host:port, with a certificate that nobody signed
	refusing  string // host:port, bound and not listened on

	mu      sync.RWMutex
	targets map[string]*target
	conns   map[net.Conn]struct{}
	closers []func() error
}

// script answers one request. It returns whether the connection can be used again.
type script func(*call) (again bool)

// target is one provider behind the gateway, by the first part of its path.
type target struct {
	name   string
	play   script
	calls  atomic.Int64
	open   atomic.Int64 // requests that are being answered
	left   atomic.Int64 // requests whose peer went away before the script was over
	sent   atomic.Int64 // bytes that were written
	leftAt atomic.Int64 // when the last one was noticed, in Unix nanoseconds
}

// newUpstream listens until Close.
func newUpstream(ctx context.Context) (*upstream, error) {
	u := &upstream{targets: map[string]*target{}, conns: map[net.Conn]struct{}{}}
	var lc net.ListenConfig
	plain, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u.serve(plain)
	u.plain = plain.Addr().String()
	cert, err := selfSigned()
	if err != nil {
		return nil, err
	}
	secure, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u.serve(tls.NewListener(secure, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	u.secure = secure.Addr().String()
	address, closer, err := deadPort()
	if err != nil {
		return nil, err
	}
	u.refusing, u.closers = address, append(u.closers, closer)
	return u, nil
}

func (u *upstream) serve(l net.Listener) {
	u.listeners = append(u.listeners, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			u.mu.Lock()
			u.conns[c] = struct{}{}
			u.mu.Unlock()
			go u.talk(c)
		}
	}()
}

// add puts a target in place and returns it.
func (u *upstream) add(name string, play script) *target {
	t := &target{name: name, play: play}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.targets[name] = t
	return t
}

// url is a target's base_url for a dialect.
func (u *upstream) url(name string, d dialect) string {
	return "http://" + u.plain + "/" + name + d.base()
}

// hangUp closes all connections, so that a gateway's idle ones do not count as leaks.
func (u *upstream) hangUp() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close() // a peer that was faster
	}
}

func (u *upstream) close() {
	for _, l := range u.listeners {
		_ = l.Close() // the run is over
	}
	for _, c := range u.closers {
		_ = c() // the run is over
	}
	u.hangUp()
}

// talk answers the requests of one connection.
func (u *upstream) talk(conn net.Conn) {
	defer func() {
		_ = conn.Close() // most scripts have done so
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
		name, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		u.mu.RLock()
		t := u.targets[name]
		u.mu.RUnlock()
		if t == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") // a mistake of the board's own
			return
		}
		if !t.answer(conn, r, req.URL.Path, body) {
			return
		}
	}
}

// answer runs the target's script, and watches the connection meanwhile.
func (t *target) answer(conn net.Conn, r *bufio.Reader, path string, body []byte) (again bool) {
	d := spoken(path)
	c := &call{conn: conn, target: t, n: t.calls.Add(1), d: d, stream: wantsStream(path, body), model: modelIn(path, body), gone: make(chan struct{})}
	t.open.Add(1)
	defer t.open.Add(-1)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := r.Peek(1); err != nil { // returns with the next request, too
			c.goneAt.Store(time.Now().UnixNano())
			close(c.gone)
		}
	}()
	again = t.play(c)
	if at := c.goneAt.Load(); at != 0 {
		t.left.Add(1)
		t.leftAt.Store(at)
		return false
	}
	if !again {
		_ = conn.Close() // ends the watch
	}
	<-watched
	return again
}

// call is one request to a target.
type call struct {
	conn   net.Conn
	target *target
	n      int64 // which call of the target it is, from 1
	d      dialect
	stream bool
	model  string        // that was asked for
	gone   chan struct{} // closed when the peer has gone
	goneAt atomic.Int64
}

func (c *call) good(who string) answer { return answer{c.d, wordsOf(who)} }

// write sends bytes as they are. A peer that has gone is found by the watch.
func (c *call) write(s string) bool {
	n, err := io.WriteString(c.conn, s)
	c.target.sent.Add(int64(n))
	return err == nil
}

// head sends a status and headers; length -1 means chunks.
func (c *call) head(status int, media string, length int, more ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nX-Request-Id: req-chaos\r\n", status, http.StatusText(status), media)
	for _, h := range more {
		b.WriteString(h + "\r\n")
	}
	if length < 0 {
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
	} else {
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", length)
	}
	c.write(b.String())
}

// whole sends one body.
func (c *call) whole(status int, media, body string, more ...string) bool {
	c.head(status, media, len(body), more...)
	return c.write(body)
}

// chunks sends each piece as a chunk of its own.
func (c *call) chunks(pieces ...string) {
	for _, p := range pieces {
		c.write(chunked(p))
	}
}

// end is the last chunk.
func (c *call) end() bool { return c.write("0\r\n\r\n") }

// wait returns whether the peer is still there after the time.
func (c *call) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.gone:
		return false
	case <-t.C:
		return true
	}
}

// hold is silence until the peer gives up.
func (c *call) hold() bool { c.wait(30 * time.Second); return false }

// reset closes the connection with RST in place of FIN.
func (c *call) reset() bool {
	raw := c.conn
	if s, ok := raw.(*tls.Conn); ok {
		raw = s.NetConn()
	}
	if tcp, ok := raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it is a FIN, which is a failure as well
	}
	_ = c.conn.Close() // that is the point
	return false
}

const (
	jsonMedia  = "application/json"
	eventMedia = "text/event-stream"
)

// answerAs answers as a healthy target does.
func answerAs(who string) script {
	return func(c *call) bool {
		a := c.good(who)
		if !c.stream {
			return c.whole(200, jsonMedia, a.whole())
		}
		c.head(200, eventMedia, -1)
		c.chunks(a.stream().all()...)
		return c.end()
	}
}
