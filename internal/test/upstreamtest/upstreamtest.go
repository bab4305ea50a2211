// Package upstreamtest is the upstream of the gateway's own tests: one scripted target of
// testrig that records its requests. Scripts send raw bytes, so that a test can send
// responses that no correct server would send.
package upstreamtest

import (
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Request is a request as the upstream received it.
type Request struct {
	Method, Path string // the path with its query
	Header       http.Header
	Body         []byte
}

// Script responds to one request. The connection is closed when it returns, unless the
// script called KeepAlive.
type Script func(c *Conn)

// Server is a scripted upstream.
type Server struct {
	Addr string // host:port

	rig      *testrig.Upstream
	mu       sync.Mutex
	script   Script
	requests []Request
}

// New starts an upstream that stops, with every connection, at the end of the test.
func New(t testing.TB) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, l)
}

// Serve is like New, on a listener.
func Serve(t testing.TB, l net.Listener) *Server {
	rig := testrig.ServeUpstream(l)
	rig.Lenient = true // tests send requests of every kind
	s := &Server{Addr: rig.Addr, rig: rig}
	rig.Handle("", s.serve)
	t.Cleanup(rig.Close)
	return s
}

func (s *Server) serve(call *testrig.Call) (reuse bool) {
	c := &Conn{Conn: call.Conn, Request: Request{call.Method, call.URI, call.Header, call.Body}, call: call}
	s.mu.Lock()
	s.requests = append(s.requests, c.Request)
	script := s.script
	s.mu.Unlock()
	if script == nil {
		c.Whole(http.StatusTeapot, "text/plain", "the test gave no script")
		return false
	}
	script(c)
	return c.keep
}

// BaseURL returns the base_url of an OpenAI provider.
func (s *Server) BaseURL() string { return "http://" + s.Addr + "/v1" }

// Answer sets the script of later requests.
func (s *Server) Answer(script Script) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

// Requests returns all requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Last returns the newest request.
func (s *Server) Last(t testing.TB) Request {
	t.Helper()
	all := s.Requests()
	if len(all) == 0 {
		t.Fatal("the upstream received no request")
	}
	return all[len(all)-1]
}

// Open returns how many connections are open.
func (s *Server) Open() int {
	open, _ := s.rig.Connections()
	return open
}

// Opened returns how many connections there have been.
func (s *Server) Opened() int {
	_, all := s.rig.Connections()
	return all
}

// Conn is the connection of one request.
type Conn struct {
	net.Conn
	Request Request

	call    *testrig.Call
	keep    bool
	unasked bool // usage is sent even if it was not requested
}

// KeepAlive leaves the connection open for a further request.
func (c *Conn) KeepAlive() { c.keep = true }

// Send writes text and reports whether that succeeded.
func (c *Conn) Send(text string) bool { return c.call.Write(text) }

// Chunk writes one chunk of a chunked body.
func (c *Conn) Chunk(text string) bool { return c.call.Chunks(text) }

// Whole writes a response with its length. Further headers are names and values in turn.
func (c *Conn) Whole(status int, media, body string, headers ...string) {
	c.call.Respond(status, media, body, headers...)
}

// BeginStream writes the head of a chunked event stream.
func (c *Conn) BeginStream(headers ...string) { c.call.StartStream(headers...) }

// EndStream sends the last chunk of a chunked body.
func (c *Conn) EndStream() { c.call.End() }

// Reset closes the connection so that the peer's next read fails.
func (c *Conn) Reset() { c.call.Reset() }

// Gone waits until the peer has closed the connection and reports whether it did so in time.
func (c *Conn) Gone(within time.Duration) bool { return !c.call.Wait(within) }

// JSON responds to every request with one JSON body.
func JSON(status int, body string, headers ...string) Script {
	return func(c *Conn) {
		c.Whole(status, testrig.JSONMedia, body, headers...)
		c.KeepAlive()
	}
}

// isUsageEvent reports whether an event is the one with which a Chat server reports usage.
func isUsageEvent(event string) bool {
	_, rest, found := strings.Cut(event, `"choices":`)
	return found && strings.HasPrefix(event, "data:") && strings.HasSuffix(event, "\n\n") &&
		strings.HasPrefix(strings.TrimLeft(rest, " "), "[]") && strings.Contains(rest, `"usage":`) && !strings.Contains(rest, `"usage":null`)
}

// events returns the body as a vendor sends it: a Chat stream has no usage event unless
// the request has include_usage. The body is unchanged if the request asks for no stream
// at all.
func (c *Conn) events(body string) string {
	if c.call.Dialect != testrig.Chat || !c.call.Stream || c.call.Usage || c.unasked {
		return body
	}
	var b strings.Builder
	for event := range strings.SplitAfterSeq(body, "\n\n") {
		if !isUsageEvent(event) {
			b.WriteString(event)
		}
	}
	return b.String()
}

// Unasked makes a script send usage that was not requested, as some engines do.
func Unasked(script Script) Script {
	return func(c *Conn) {
		c.unasked = true
		script(c)
	}
}

// Stream responds with an event stream in one piece.
func Stream(body string) Script { return StreamCut(body, len(body)) }

// StreamCut responds with an event stream in pieces of n bytes.
func StreamCut(body string, n int) Script {
	return stream(body, func() func() int { return func() int { return n } })
}

// StreamRandom responds with an event stream in pieces of random sizes.
func StreamRandom(body string, seed uint64) Script {
	return stream(body, func() func() int {
		r := rand.New(rand.NewPCG(seed, 1))
		return func() int { return 1 + r.IntN(80) }
	})
}

// stream responds with the body in pieces. Every response has its own sequence of sizes.
func stream(body string, sizes func() func() int) Script {
	return func(c *Conn) {
		size := sizes()
		c.BeginStream()
		for rest := c.events(body); len(rest) > 0; {
			n := min(size(), len(rest))
			if !c.Chunk(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
		c.EndStream()
		c.KeepAlive()
	}
}

// Break responds with the beginning of an event stream and then closes the connection.
func Break(body string) Script {
	return func(c *Conn) {
		c.BeginStream()
		c.Chunk(body)
	}
}
