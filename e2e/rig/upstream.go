package rig

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// A Step answers one request. It reports whether the connection can be used again.
type Step func(*Received) (reuse bool)

// Received is one request as the upstream saw it.
type Received struct {
	*testrig.Call
	// Ended is closed when the step has returned. Aborted reports whether the client had
	// disconnected by then, and may be read after Ended.
	Ended   chan struct{}
	Aborted bool

	up   *Upstream
	told map[string]testrig.Object // items of earlier answers, by their ids
}

// Path returns the URI without its query.
func (r *Received) Path() string {
	path, _, _ := strings.Cut(r.URI, "?")
	return path
}

// Upstream plays a vendor's server: it answers the n-th request with the n-th step of the
// script and records the requests.
type Upstream struct {
	server *testrig.Upstream

	mu     sync.Mutex
	script []Step
	always Step // answers what the script has no step for
	got    []*Received
	told   map[string]testrig.Object
}

// NewUpstream starts an upstream that ends with t.
func NewUpstream(t *testing.T) *Upstream {
	t.Helper()
	server, err := testrig.NewUpstream()
	if err != nil {
		t.Fatal(err)
	}
	server.Lenient = true // Asked reports what the vendor refuses
	u := &Upstream{server: server, told: map[string]testrig.Object{}}
	server.Handle("", u.serve)
	t.Cleanup(server.Close)
	return u
}

// URL returns the origin, without a path.
func (u *Upstream) URL() string { return "http://" + u.server.Addr }

// Play sets the script for the requests that follow and forgets the earlier ones.
func (u *Upstream) Play(script []Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.script, u.always, u.got = script, nil, nil
}

// Always sets one step for all requests that follow and forgets the earlier ones.
func (u *Upstream) Always(answer Step) {
	u.Play(nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.always = answer
}

// Requests returns the requests of the current script, in order.
func (u *Upstream) Requests() []*Received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.got)
}

func (u *Upstream) serve(c *testrig.Call) (reuse bool) {
	rec := &Received{Call: c, Ended: make(chan struct{}), up: u}
	reuse = u.next(rec)(rec)
	select {
	case <-c.Gone():
		rec.Aborted = true
	default:
	}
	close(rec.Ended)
	return reuse
}

// next records the request and returns the step that answers it.
func (u *Upstream) next(rec *Received) Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.got)
	rec.told = maps.Clone(u.told)
	u.got = append(u.got, rec)
	switch {
	case n < len(u.script):
		return u.script[n]
	case u.always != nil:
		return u.always
	}
	return Whole(http.StatusInternalServerError, `{"error":{"message":"the script has no answer for this request","type":"server_error","param":null,"code":"unscripted"}}`)
}

// keep stores the items of a response, as OpenAI does.
func (u *Upstream) keep(body string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, item := range testrig.Parse([]byte(body)).List("output") {
		u.told[item.Str("id")] = item
	}
}

// requestID names every response of an upstream.
var requestID = []string{"X-Request-Id", "req_upstream"}

// Whole answers with a JSON body; extra are header names and values in turn.
func Whole(status int, body string, extra ...string) Step {
	return Typed(testrig.JSONMedia, status, body, extra...)
}

// Typed is Whole with another content type.
func Typed(contentType string, status int, body string, extra ...string) Step {
	return func(r *Received) bool {
		return r.Respond(status, contentType, body, slices.Concat(requestID, extra)...)
	}
}

// Stream sends each piece in its own chunk.
func Stream(pieces ...string) Step {
	return func(r *Received) bool { return begin(r, pieces) && r.End() }
}

// CutStream sends the pieces and then closes the connection.
func CutStream(pieces ...string) Step {
	return func(r *Received) bool {
		begin(r, pieces)
		return false
	}
}

// CutWhole announces the whole body and closes the connection half way.
func CutWhole(body string) Step {
	return func(r *Received) bool {
		r.Head(http.StatusOK, testrig.JSONMedia, len(body))
		r.Write(body[:len(body)/2])
		return false
	}
}

// Hang sends the pieces, if any, and then waits for the client to disconnect.
func Hang(pieces ...string) Step {
	return func(r *Received) bool {
		if len(pieces) > 0 {
			begin(r, pieces)
		}
		return r.Hold()
	}
}

// begin sends the head of a stream and the pieces.
func begin(r *Received, pieces []string) bool {
	return r.StartStream(requestID...) && r.Chunks(pieces...)
}
