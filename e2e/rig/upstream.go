package rig

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A Step answers one request. It is given the body, which has been read already.
type Step func(w http.ResponseWriter, r *http.Request, body []byte)

// Received is one request as the upstream saw it.
type Received struct {
	Target string // path and query as they came
	Header http.Header
	Body   []byte
	// Ended is closed when the step has returned; Aborted says whether the peer
	// had gone away by then, and may be read after Ended.
	Ended   chan struct{}
	Aborted bool

	told map[string]Object // items of earlier answers, by their ids
}

// Path is the target without its query.
func (r *Received) Path() string {
	path, _, _ := strings.Cut(r.Target, "?")
	return path
}

// Upstream plays a vendor's server: it answers the n-th request with the n-th step
// of the script and remembers what it was sent.
type Upstream struct {
	server *httptest.Server

	mu     sync.Mutex
	script []Step
	always Step // answers what the script has no step for
	got    []*Received
	told   map[string]Object
	came   chan struct{} // one value for each request of the current script
}

// NewUpstream starts an upstream that ends with t.
func NewUpstream(t *testing.T) *Upstream {
	t.Helper()
	u := &Upstream{told: map[string]Object{}, came: make(chan struct{}, 16)}
	u.server = httptest.NewServer(u)
	t.Cleanup(func() {
		u.server.CloseClientConnections() // ends steps whose peer never went away
		u.server.Close()
	})
	return u
}

// URL is the origin, without a path.
func (u *Upstream) URL() string { return u.server.URL }

// Play sets the script for what follows and forgets what came before.
func (u *Upstream) Play(script []Step) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.script, u.always, u.got = script, nil, nil
	u.came = make(chan struct{}, 16)
}

// Always has one step answer all that follows, and forgets what came before.
func (u *Upstream) Always(answer Step) {
	u.Play(nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.always = answer
}

// Requests are those of the current script, in order.
func (u *Upstream) Requests() []*Received {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*Received(nil), u.got...)
}

// Arrived tells of each request of the current script.
func (u *Upstream) Arrived() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.came
}

// ServeHTTP answers with the next step.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the peer gave up while sending: nothing was asked
	}
	rec := &Received{Target: r.URL.RequestURI(), Header: r.Header.Clone(), Body: body, Ended: make(chan struct{})}
	answer := u.next(rec)
	defer func() {
		rec.Aborted = r.Context().Err() != nil
		close(rec.Ended)
	}()
	answer(keeper{w, u}, r, body)
}

// keeper remembers what is said before it is heard.
type keeper struct {
	http.ResponseWriter
	upstream *Upstream
}

func (k keeper) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(`"output":[`)) {
		k.upstream.keep(b)
	}
	return k.ResponseWriter.Write(b)
}

// Unwrap is for flushing.
func (k keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// keep remembers the items of a response, as OpenAI does. It comes as one piece, whole
// or as the last event of a stream.
func (u *Upstream) keep(said []byte) {
	if _, last, streamed := bytes.Cut(said, []byte("event: response.completed\ndata: ")); streamed {
		said = last
	}
	answer := Parse(bytes.TrimSpace(said))
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, item := range slices.Concat(answer.List("output"), answer.Obj("response").List("output")) {
		u.told[item.Str("id")] = item
	}
}

// next records the request and takes the step that answers it.
func (u *Upstream) next(rec *Received) Step {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.got)
	rec.told = maps.Clone(u.told)
	u.got = append(u.got, rec)
	select {
	case u.came <- struct{}{}:
	default: // a gateway that retries without end must not hang the upstream
	}
	if n >= len(u.script) && u.always != nil {
		return u.always
	}
	if n >= len(u.script) {
		return Whole(http.StatusInternalServerError, `{"error":{"message":"the script has no answer for this request","type":"server_error","param":null,"code":"unscripted"}}`)
	}
	return u.script[n]
}

// Whole answers with a complete JSON body; extra are header names and values in turn.
func Whole(status int, body string, extra ...string) Step {
	return Typed("application/json", status, body, extra...)
}

// Typed is Whole with another content type.
func Typed(contentType string, status int, body string, extra ...string) Step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Request-Id", "req_upstream")
		for i := 0; i+1 < len(extra); i += 2 {
			w.Header().Set(extra[i], extra[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Stream sends each piece in its own write.
func Stream(pieces ...string) Step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		Send(w, pieces)
	}
}

// CutStream sends the pieces and then breaks the connection.
func CutStream(pieces ...string) Step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		Send(w, pieces)
		panic(http.ErrAbortHandler)
	}
}

// CutWhole promises the whole body and breaks the connection half way.
func CutWhole(body string) Step {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Hang sends the pieces, if any, and then waits for the peer to go away.
func Hang(pieces ...string) Step {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		if len(pieces) > 0 {
			Send(w, pieces)
		}
		<-r.Context().Done()
	}
}

// Send streams the pieces, each in its own write.
func Send(w http.ResponseWriter, pieces []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Request-Id", "req_upstream")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		_ = flush()
	}
}

// Quote is s as JSON.
func Quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
