// Package upstreamtest plays an upstream in tests. It reads and writes raw
// sockets, so that a test sees the bytes that were sent and can answer with bytes
// that no well-behaved server would send.
package upstreamtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Request is what the upstream was sent.
type Request struct {
	Method, Path string // the path with its query
	Header       http.Header
	Body         []byte
}

// Script answers one request. The connection is closed when it returns, unless
// the script has asked to keep it.
type Script func(c *Conn)

// Server is a scripted upstream.
type Server struct {
	Addr string // host:port

	mu       sync.Mutex
	script   Script
	requests []Request
	conns    map[net.Conn]bool
	opened   int
	wg       sync.WaitGroup
}

// New starts an upstream. It is stopped, with every connection, when the test
// ends.
func New(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Addr: l.Addr().String(), conns: map[net.Conn]bool{}}
	s.wg.Go(func() { s.accept(l) })
	t.Cleanup(func() {
		_ = l.Close() // ends accept
		s.closeAll()
		s.wg.Wait()
	})
	return s
}

// BaseURL is what an OpenAI SDK would be given.
func (s *Server) BaseURL() string { return "http://" + s.Addr + "/v1" }

// Answer sets the script for the requests that follow.
func (s *Server) Answer(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Requests are all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Last is the newest request.
func (s *Server) Last(t testing.TB) Request {
	t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		t.Fatal("the upstream was sent nothing")
	}
	return all[len(all)-1]
}

// Open is how many connections are open now.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Opened is how many connections there have been.
func (s *Server) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.opened++
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(c)
			_ = c.Close() // the script has said all it wanted
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
		})
	}
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // ends its script
	}
}

func (s *Server) serve(nc net.Conn) {
	r := bufio.NewReader(nc)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		got := Request{req.Method, req.URL.RequestURI(), req.Header, body}
		s.mu.Lock()
		s.requests = append(s.requests, got)
		script := s.script
		s.mu.Unlock()
		c := &Conn{Conn: nc, r: r, Request: got}
		if script == nil {
			c.Whole(http.StatusTeapot, "text/plain", "the test gave no script")
			return
		}
		script(c)
		if !c.keep {
			return
		}
	}
}

// Conn is one request's connection, with shorthands for what upstreams do.
type Conn struct {
	net.Conn
	Request Request
	r       *bufio.Reader
	keep    bool
}

// KeepAlive leaves the connection open for a further request.
func (c *Conn) KeepAlive() { c.keep = true }

// Send writes text as it is. It reports whether the peer is still there.
func (c *Conn) Send(text string) bool {
	_, err := io.WriteString(c.Conn, text)
	return err == nil
}

// Chunk writes one chunk of a chunked body.
func (c *Conn) Chunk(text string) bool {
	return c.Send(fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
}

// Whole writes an answer with its length. Further headers are name, value pairs.
func (c *Conn) Whole(status int, media, body string, headers ...string) {
	c.Send(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), media, len(body)))
	for i := 0; i+1 < len(headers); i += 2 {
		c.Send(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	c.Send("\r\n" + body)
}

// BeginStream writes the head of a chunked event stream.
func (c *Conn) BeginStream(headers ...string) {
	c.Send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n")
	for i := 0; i+1 < len(headers); i += 2 {
		c.Send(headers[i] + ": " + headers[i+1] + "\r\n")
	}
	c.Send("\r\n")
}

// EndStream ends a chunked body properly.
func (c *Conn) EndStream() { c.Send("0\r\n\r\n") }

// Reset breaks the connection off so that the peer's next read fails.
func (c *Conn) Reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close then sends a reset
	}
	_ = c.Close()
}

// Gone waits until the peer has closed the connection, and reports whether it did
// so in time.
func (c *Conn) Gone(within time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(within))
	_, err := c.r.ReadByte()
	var late net.Error
	return err != nil && (!errors.As(err, &late) || !late.Timeout())
}

// JSON answers every request with one JSON body.
func JSON(status int, body string, headers ...string) Script {
	return func(c *Conn) {
		c.Whole(status, "application/json", body, headers...)
		c.KeepAlive()
	}
}

// Stream answers with an event stream in one piece.
func Stream(body string) Script { return StreamCut(body, len(body)) }

// StreamCut answers with an event stream in pieces of n bytes.
func StreamCut(body string, n int) Script {
	return func(c *Conn) {
		c.BeginStream()
		for b := body; len(b) > 0; {
			k := min(n, len(b))
			if !c.Chunk(b[:k]) {
				return
			}
			b = b[k:]
		}
		c.EndStream()
		c.KeepAlive()
	}
}

// StreamRandom answers with an event stream cut at random places, and with pauses
// too short to slow a test down but long enough to part reads.
func StreamRandom(body string, seed uint64) Script {
	return func(c *Conn) {
		r := rand.New(rand.NewPCG(seed, 1))
		c.BeginStream()
		for b := body; len(b) > 0; {
			k := min(1+r.IntN(80), len(b))
			if !c.Chunk(b[:k]) {
				return
			}
			b = b[k:]
			if r.IntN(8) == 0 {
				time.Sleep(200 * time.Microsecond)
			}
		}
		c.EndStream()
		c.KeepAlive()
	}
}

// Break answers with the beginning of an event stream and then breaks the
// connection.
func Break(body string) Script {
	return func(c *Conn) {
		c.BeginStream()
		c.Chunk(body)
	}
}
