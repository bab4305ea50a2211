package capture

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Recorder copies one exchange as it passes. An exchange with a body above the limit is
// discarded: half of it is no use as a case.
type Recorder struct {
	viewers []*viewer // nil after End
	max     int       // bytes of one body
	secrets []string

	mu        sync.Mutex // two attempts may run at once
	x         Exchange
	oversized bool
}

// Request is a client's request.
type Request struct {
	ID, Model, Route, Protocol, Path string
	Stream                           bool
	Header                           http.Header
	Body                             []byte   // must not change afterwards
	Secrets                          []string // the client's credentials
}

// Request records the client's request.
func (r *Recorder) Request(q Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, q.Secrets...)
	r.x.ID, r.x.Time, r.x.Model, r.x.Route, r.x.Client, r.x.Path, r.x.Stream = q.ID, time.Now(), q.Model, q.Route, q.Protocol, q.Path, q.Stream
	r.x.RequestHeader, r.x.RequestBody = recordedHeader(q.Header), r.limited(q.Body)
}

// UpstreamRequest is a request as it is sent to a target.
type UpstreamRequest struct {
	Target, Protocol, Model, Path string
	Header                        http.Header
	Body                          []byte   // must not change afterwards
	Secrets                       []string // the provider's credentials
}

// Attempt records an attempt.
func (r *Recorder) Attempt(q UpstreamRequest) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, q.Secrets...)
	a := &Attempt{Target: q.Target, Protocol: q.Protocol, Model: q.Model, Path: q.Path, RequestHeader: recordedHeader(q.Header), RequestBody: r.limited(q.Body), recorder: r}
	r.x.Attempts = append(r.x.Attempts, a)
	return a
}

// Response records the upstream's status, and its body while it is read.
func (a *Attempt) Response(resp *http.Response) {
	a.recorder.mu.Lock()
	defer a.recorder.mu.Unlock()
	a.Status, a.ResponseHeader = resp.StatusCode, recordedHeader(resp.Header)
	resp.Body = &recordedBody{resp.Body, a}
}

// recordedBody is a response body that is recorded while it is read.
type recordedBody struct {
	io.ReadCloser
	attempt *Attempt
}

func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	r := b.attempt.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.viewers == nil { // the exchange has ended, and its upstream is drained
		return n, err
	}
	b.attempt.ResponseBody = r.grow(b.attempt.ResponseBody, p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		b.attempt.Truncated = true
	}
	return n, err
}

// Write records what the client is sent. It never fails.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.x.ResponseBody = r.grow(r.x.ResponseBody, p)
	return len(p), nil
}

// Result is how an exchange ended.
type Result struct {
	Answered  *Attempt // the attempt whose response the client received; nil without one
	Upstream  string   // protocol of the target
	Status    int
	Header    http.Header // of the client's response
	Fidelity  string
	Error     string   // kind of the error; empty without one
	Settings  []string // settings of the provider that changed the upstream request
	Continued bool     // several attempts contributed to the response
}

// End hands the exchange to the commands that selected it.
func (r *Recorder) End(e Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.viewers == nil {
		return // it has ended before
	}
	x := &r.x
	x.Upstream, x.Status, x.ResponseHeader, x.Fidelity, x.Error, x.Settings, x.Continued = e.Upstream, e.Status, recordedHeader(e.Header), e.Fidelity, e.Error, e.Settings, e.Continued
	for i, a := range x.Attempts {
		if a == e.Answered {
			x.Answered = i
		}
	}
	x.secrets = r.secrets
	if r.oversized {
		x = nil
	}
	for _, v := range r.viewers {
		v.deliver(x)
	}
	r.viewers = nil
}

// limited returns a body that is within the limit, else nil.
func (r *Recorder) limited(body []byte) []byte {
	if len(body) > r.max {
		r.discard()
	}
	if r.oversized {
		return nil
	}
	return body
}

// grow appends to a recorded body.
func (r *Recorder) grow(body, p []byte) []byte {
	if len(body)+len(p) > r.max {
		r.discard()
	}
	if r.oversized || r.viewers == nil {
		return nil
	}
	return append(body, p...)
}

// discard drops all bodies of an exchange that exceeds the limit.
func (r *Recorder) discard() {
	r.oversized = true
	r.x.RequestBody, r.x.ResponseBody = nil, nil
	for _, a := range r.x.Attempts {
		a.RequestBody, a.ResponseBody = nil, nil
	}
}
