package upstream

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Causes with which a round trip's context is cancelled.
var (
	errIdle         = errors.New("the upstream sent nothing for too long")
	errNoFirstToken = errors.New("the upstream sent no token in time")
	errTotal        = errors.New("the request took longer than its total timeout")
	errClosed       = errors.New("the round trip is closed")
)

// Limits of draining a finished stream.
const (
	drainTime  = 100 * time.Millisecond
	drainBytes = 4 << 10
)

// maxErrorBody limits the body of an error response.
const maxErrorBody = 1 << 20

// RoundTrip is one request to an upstream and its response. Only Cancel may be called
// concurrently with other methods.
type RoundTrip struct {
	Response  *http.Response // nil until the response headers arrived
	SentAt    time.Time      // when Do was called
	HeadersAt time.Time      // when the response headers arrived

	// Provider is the name of the provider. HTTP/2 connections are not shared between providers.
	Provider string
	// HTTP is the version of HTTP; the default is AutoHTTP.
	HTTP provider.HTTPVersion
	// Credential signs the request when it is sent; nil: the request has its credential.
	Credential provider.Credential

	client   *Client
	dialing  dialing
	timeouts provider.Timeouts
	parent   context.Context // the client request's context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	detach   func() bool // decouples ctx from parent

	idle  *time.Timer // fires when the idle timeout may have expired
	total *time.Timer
	body  atomic.Pointer[timedBody] // nil until the response headers arrived
	drain bool                      // a goroutine drains the body and closes it
}

// RoundTrip returns a round trip that is cancelled with ctx. elapsed is the time that
// earlier attempts of the request have taken of the total timeout.
func (c *Client) RoundTrip(ctx context.Context, timeouts provider.Timeouts, elapsed time.Duration) *RoundTrip {
	t := &RoundTrip{client: c, timeouts: timeouts, parent: ctx}
	t.ctx, t.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	t.detach = context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })
	t.idle = time.AfterFunc(timeouts.FirstByte, t.checkIdle)
	t.total = time.AfterFunc(timeouts.Total-elapsed, func() { t.cancel(errTotal) })
	return t
}

// Context ends when the round trip is cancelled or closed.
func (t *RoundTrip) Context() context.Context { return t.ctx }

// serverKey finds the context of the server in that of a request.
type serverKey struct{}

// ServerContext returns the context of a server, for its requests: Outlive ends with it.
func ServerContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, serverKey{}, ctx)
}

// Outlive lets the round trip go on after the client has disconnected: for a time, and not longer
// than the server.
func (t *RoundTrip) Outlive(limit time.Duration) {
	if !t.detach() {
		return // the disconnect has ended it
	}
	server, ok := t.parent.Value(serverKey{}).(context.Context)
	if !ok {
		server = context.Background()
	}
	t.detach = context.AfterFunc(t.parent, func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-server.Done():
		case <-t.ctx.Done():
		}
		t.cancel(context.Cause(t.parent))
	})
}

// Rejoin ends Outlive: the round trip ends when the client disconnects, or has.
func (t *RoundTrip) Rejoin() {
	if !t.detach() {
		t.cancel(context.Cause(t.parent))
		return
	}
	t.detach = context.AfterFunc(t.parent, func() { t.cancel(context.Cause(t.parent)) })
}

// Shorten limits how long the round trip may still take.
func (t *RoundTrip) Shorten(limit time.Duration) {
	t.total.Reset(limit)
}

// Cancel ends the round trip. Errors of it then have the given cause.
func (t *RoundTrip) Cancel(cause error) { t.cancel(cause) }

// Do sends the request and waits for the response headers.
func (t *RoundTrip) Do(req *http.Request) *llm.Error {
	t.SentAt = time.Now()
	t.dialing.Context, t.dialing.join = t.ctx, t.HTTP != provider.H2C && isHeld(req)
	sent := req.WithContext(&t.dialing)
	resp, err := t.send(sent) //nolint:bodyclose // Close closes it
	if err != nil {
		return t.Error(err)
	}
	dropResends(sent)
	t.idle.Stop()
	t.HeadersAt = time.Now()
	body := &timedBody{ReadCloser: resp.Body, idle: t.idle, limit: t.timeouts.Idle, start: t.HeadersAt}
	t.body.Store(body)
	resp.Body, t.Response = body, resp
	return t.decompress(req.Method)
}

// dialing is the context of a request's connection. It is a part of the round trip, so that a request on
// an open connection allocates nothing for it.
type dialing struct {
	context.Context
	took atomic.Int64 // of a new connection
	join bool         // an HTTP/1.1 connection sends the head with the body
}

// dialingKey finds a dialing in a context derived from it.
type dialingKey struct{}

func (d *dialing) Value(key any) any {
	if key == (dialingKey{}) {
		return d
	}
	if d.join {
		if trace := joinHeads.Value(key); trace != nil {
			return trace
		}
	}
	return d.Context.Value(key)
}

// note notes the time that a connection took.
func (d *dialing) note(took time.Duration) {
	if d != nil {
		d.took.Store(int64(took))
	}
}

// Connected returns how long a new connection took for the request, to the end of TCP's handshake. It is
// 0 if another connection was used.
func (t *RoundTrip) Connected() time.Duration {
	took := time.Duration(t.dialing.took.Load())
	if !t.HeadersAt.IsZero() && took > t.HeadersAt.Sub(t.SentAt) {
		return 0 // it was not ready first
	}
	return took
}

// send signs and sends the request. If the upstream refuses a credential that can be renewed, it
// sends the request once more.
func (t *RoundTrip) send(req *http.Request) (*http.Response, error) {
	pool := t.client.pool(poolKey{t.timeouts.Connect, cmp.Or(t.HTTP, provider.AutoHTTP)})
	if t.Credential == nil {
		return pool.roundTrip(req, t.Provider)
	}
	body, held := heldBody(req)
	for again := false; ; again = true {
		if err := t.Credential.Sign(t.ctx, req, body); err != nil {
			return nil, &credentialError{err}
		}
		resp, err := pool.roundTrip(req, t.Provider)
		if err != nil || again || !held || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || !t.Credential.Renew(t.ctx, req, resp) {
			return resp, err
		}
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes) // lets the connection be reused
		_ = resp.Body.Close()
		if req.Body != nil {
			SetBody(req, body)
		}
	}
}

// Close releases the round trip: its timers, its response and its connection.
func (t *RoundTrip) Close() {
	if t.drain {
		return
	}
	t.detach()
	t.idle.Stop()
	t.total.Stop()
	if t.Response != nil {
		_ = t.Response.Body.Close() // no further reads
	}
	t.cancel(errClosed)
}

// Drain closes the round trip in the background after a complete response. A goroutine
// reads the rest of the body for a short time, so that the connection can be reused. Call
// it before Close.
func (t *RoundTrip) Drain() {
	if t.drain || !t.detach() { // the client's disconnect has closed the connection
		return
	}
	t.drain = true
	t.idle.Stop()
	t.total.Reset(drainTime)
	go func() {
		defer t.cancel(errClosed)
		crash.Do(t.client.Logger, func() {
			_, _ = io.CopyN(io.Discard, t.Response.Body, drainBytes) // the response was complete before
			t.total.Stop()
			_ = t.Response.Body.Close()
		})
	}()
}

// ReadRest reads the rest of a finished stream, for a short time.
func (t *RoundTrip) ReadRest() []byte {
	t.total.Reset(drainTime)
	rest, _ := io.ReadAll(io.LimitReader(t.Response.Body, drainBytes)) // the response was complete before
	return rest
}

// ReadBody reads a response of at most limit bytes.
func (t *RoundTrip) ReadBody(limit int64) ([]byte, *llm.Error) {
	body, err := readSized(io.LimitReader(t.Response.Body, limit+1), min(t.Response.ContentLength, limit))
	switch {
	case err != nil:
		return nil, t.Error(err)
	case int64(len(body)) > limit:
		return nil, &llm.Error{Kind: llm.Upstream, Code: "upstream_too_large", Message: "the upstream's response is larger than limits.answer, " + SizeText(limit)}
	}
	return body, nil
}

// ReadError reads the body of an error response. The body can be read again.
func (t *RoundTrip) ReadError() ([]byte, *llm.Error) {
	body, err := io.ReadAll(io.LimitReader(t.Response.Body, maxErrorBody))
	if err != nil {
		return nil, t.Error(err)
	}
	t.Response.Body = readCloser{bytes.NewReader(body), t.Response.Body}
	return body, nil
}

// ReplaceBody sets the body of a response whose body was read.
func (t *RoundTrip) ReplaceBody(body []byte) {
	t.Response.Body = readCloser{bytes.NewReader(body), t.Response.Body}
	t.Response.ContentLength = int64(len(body))
}

// Streams reports whether the response is a stream of server-sent events.
func (t *RoundTrip) Streams() bool { return MediaType(t.Response.Header) == "text/event-stream" }

// MediaType returns the media type of a Content-Type header, without parameters.
func MediaType(h http.Header) string {
	v := h.Get("Content-Type")
	if v == "application/json" || v == "text/event-stream" {
		return v
	}
	m, _, err := mime.ParseMediaType(v)
	if err != nil {
		return ""
	}
	return m
}

// decompress decodes a response that is compressed although the request did not
// allow it.
func (t *RoundTrip) decompress(method string) *llm.Error {
	resp := t.Response
	switch enc := resp.Header.Get("Content-Encoding"); {
	case enc == "", strings.EqualFold(enc, "identity"), resp.ContentLength == 0, method == http.MethodHead:
		return nil
	case strings.EqualFold(enc, "gzip"):
		plain, err := gzip.NewReader(resp.Body)
		if err != nil {
			return t.Error(err)
		}
		resp.Body = readCloser{plain, resp.Body}
		resp.ContentLength = -1
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream sent a Content-Encoding that was not requested"}
}

// checkIdle runs when the idle timer fires.
func (t *RoundTrip) checkIdle() {
	if t.ctx.Err() != nil {
		return // the timer fired while it was being stopped
	}
	if body := t.body.Load(); body == nil || body.expired() {
		t.cancel(errIdle)
	}
}

// extendFirstByte restarts the first-byte timeout, unless the response has started.
func (t *RoundTrip) extendFirstByte() {
	if t.body.Load() == nil && t.idle.Stop() {
		t.idle.Reset(t.timeouts.FirstByte)
	}
}

// timedBody is a response body with an idle timeout. The timeout runs only during a read,
// so that a slow client does not count as a silent upstream. Reads store their start
// time, and the timer is reset only when it fires, which is once for thousands of reads.
type timedBody struct {
	io.ReadCloser
	idle  *time.Timer
	limit time.Duration
	start time.Time
	armed bool
	since atomic.Int64 // start of the current read, in ns after start; 0: none
}

func (b *timedBody) Read(p []byte) (int, error) {
	b.since.Store(int64(time.Since(b.start)) + 1)
	if !b.armed {
		b.armed = true
		b.idle.Reset(b.limit)
	}
	n, err := b.ReadCloser.Read(p)
	b.since.Store(0)
	return n, err
}

// expired reports whether a read has waited longer than the limit. If not, it sets the
// timer to the earliest time at which one could have.
func (b *timedBody) expired() bool {
	left := b.limit
	if since := b.since.Load(); since != 0 {
		left -= time.Since(b.start) + 1 - time.Duration(since)
	}
	if left > 0 {
		b.idle.Reset(left)
	}
	return left <= 0
}
