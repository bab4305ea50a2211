package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
)

// Why a context was ended by us.
var (
	errSilent   = errors.New("the upstream was silent for too long")
	errNoToken  = errors.New("the upstream took too long to say anything")
	errTotal    = errors.New("the exchange took longer than it may")
	errReturned = errors.New("the exchange is over")
)

// Codes of errors that decide who is asked next.
const (
	codeTotal       = "timeout_total"
	codeConnect     = "timeout_connect"
	codeUnreachable = "upstream_unreachable"
)

// userAgent says who calls; the client's own is not passed on.
var userAgent = []string{"isogloss"}

// ErrShutdown is the cause with which the server's base context ends when the
// time to drain is over.
var ErrShutdown = errors.New("the gateway is shutting down")

// attempt asks the target and waits for the first sign of an answer. It writes
// nothing but its own attempt, so that two can be made at once.
func (r *Relay) attempt(x *exchange, req *http.Request) *llm.Error {
	x.setBody(req)
	if x.tape != nil {
		x.tapeTry(req)
	}
	if err := r.send(x, req); err != nil {
		return err
	}
	if x.upstream.StatusCode >= http.StatusBadRequest {
		return x.declined()
	}
	return x.await()
}

// request builds the upstream request without its body. The credential is the
// provider's.
func (x *exchange) request(path string) *http.Request {
	p := x.target.Provider
	h := make(http.Header, 8)
	copyHeaders(h, x.client.Header, upstreamHeaders)
	if x.translation != nil {
		maps.Copy(h, x.translation.out.Header)
	} else {
		copyHeaders(h, x.client.Header, dialectHeaders[x.endpoint.dialect])
		if x.endpoint.dialect == protocol.Anthropic && h.Get("Anthropic-Version") == "" {
			h["Anthropic-Version"] = []string{anthropic.Versions()[0].Name} // the vendor refuses a request without it
		}
	}
	for name, values := range p.Headers {
		h[name] = values
	}
	h["User-Agent"] = userAgent
	// Nothing is sent for an empty list, but net/http then sends the request
	// again where a connection that was kept open turns out to be dead before
	// it brought a single byte: upstreams close idle ones whenever they like.
	h["X-Idempotency-Key"] = []string{}
	p.Authorize(h)
	x.seen.Inject(h)
	req := &http.Request{Method: x.client.Method, URL: p.URL(path), Header: h, ProtoMajor: 1, ProtoMinor: 1}
	x.call, x.hangUp = context.WithCancelCause(x.ctx)
	return req.WithContext(x.call)
}

// send makes the call. From here on the exchange has its deadlines.
func (r *Relay) send(x *exchange, req *http.Request) *llm.Error {
	limits, hangUp := x.target.Timeouts, x.hangUp
	x.idle = time.AfterFunc(limits.FirstByte, x.silent)
	x.total = time.AfterFunc(limits.Total-x.lasted(), func() { hangUp(errTotal) })
	resp, err := r.transports.get(limits.Connect).RoundTrip(req) //nolint:bodyclose // release closes it
	if err != nil {
		return x.upstreamError(err)
	}
	x.idle.Stop()
	x.heard = time.Now()
	body := &timely{ReadCloser: resp.Body, idle: x.idle, limit: limits.Idle, start: x.heard}
	x.reading.Store(body)
	resp.Body, x.upstream = body, resp
	if err := x.decompress(); err != nil {
		return err
	}
	if x.taped != nil {
		x.taped.Answered(resp)
	}
	return nil
}

// hear notes that the upstream has begun to answer, if it has.
func (x *exchange) hear() {
	if x.upstream == nil {
		return
	}
	x.seen.FirstByte(x.heard)
	x.seen.UpstreamStatus = x.upstream.StatusCode
	x.seen.UpstreamID = upstreamID(x.upstream.Header, x.target.Provider.Key.Reveal())
}

// upstreamID is the upstream's own id for the request, by either name. It goes
// into the log, so it must not be a way for our credential to get there.
func upstreamID(h http.Header, key string) string {
	id := h.Get("X-Request-Id")
	if id == "" {
		id = h.Get("Request-Id")
	}
	if quotes(key, id) {
		return ""
	}
	return id
}

// silent is called when the upstream may have been silent for too long.
func (a *attempt) silent() {
	if a.call.Err() != nil {
		return // it is over: the timer fired while it was being stopped
	}
	if body := a.reading.Load(); body == nil || body.waitedOut() {
		a.hangUp(errSilent)
	}
}

// timely is an answer's body that may be silent only for so long. The time runs
// while a read waits, so that a slow client is not taken for a silent upstream.
// Reads only note when they began; the timer is set anew when it fires, which is
// once for thousands of reads.
type timely struct {
	io.ReadCloser
	idle  *time.Timer
	limit time.Duration
	start time.Time
	armed bool
	since atomic.Int64 // when the read that waits began, from start on; 0 while none does
}

func (t *timely) Read(p []byte) (int, error) {
	t.since.Store(int64(time.Since(t.start)) + 1)
	if !t.armed {
		t.armed = true
		t.idle.Reset(t.limit)
	}
	n, err := t.ReadCloser.Read(p)
	t.since.Store(0)
	return n, err
}

// waitedOut reports whether a read has waited for too long, and else looks again
// when one could have.
func (t *timely) waitedOut() bool {
	left := t.limit
	if since := t.since.Load(); since != 0 {
		left -= time.Since(t.start) + 1 - time.Duration(since)
	}
	if left > 0 {
		t.idle.Reset(left)
	}
	return left <= 0
}

// declined is the error that the upstream's status tells of. The answer's body is
// kept: if nobody else is asked, the client may get it as it is.
func (x *exchange) declined() *llm.Error {
	status := x.upstream.StatusCode
	body, err := io.ReadAll(io.LimitReader(x.upstream.Body, maxErrorBody))
	if err != nil {
		return x.upstreamError(err)
	}
	x.upstream.Body = readCloser{bytes.NewReader(body), x.upstream.Body}
	fault := x.speaks.DecodeError(status, x.upstream.Header, body)
	if fault.Kind == llm.UpstreamAuth || x.translation != nil && status == x.translation.badKey {
		return x.badCredential() // which is not for the client to read
	}
	x.refused = true
	return x.told(fault)
}

// settle ends the keep-alive of a stream that will not come. Where it has begun
// the answer, there is no status left to tell, and what is no stream can only be
// told as the stream's error.
func (x *exchange) settle() *llm.Error {
	if x.out.keep == nil || mediaType(x.upstream.Header) == "text/event-stream" {
		return nil
	}
	x.out.close()
	if !x.out.committed || x.endpoint.generates || x.translation != nil {
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream did not stream its answer"}
}

// decompress undoes an encoding that nobody asked for, so that the answer can be
// read. The client gets it plain.
func (x *exchange) decompress() *llm.Error {
	switch enc := x.upstream.Header.Get("Content-Encoding"); {
	case enc == "", strings.EqualFold(enc, "identity"), x.upstream.ContentLength == 0, x.client.Method == http.MethodHead:
		return nil
	case strings.EqualFold(enc, "gzip"):
		plain, err := gzip.NewReader(x.upstream.Body)
		if err != nil {
			return x.upstreamError(err)
		}
		x.upstream.Body = readCloser{plain, x.upstream.Body}
		x.upstream.ContentLength = -1
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream sent an encoding that it was not asked for"}
}

// upstreamError says what went wrong between us and the upstream. The cause of
// the context's end comes first: a call that was given up fails in many ways. In
// mid-stream there is no status, and coding agents tell by words whether to ask
// again: "connection lost", "ended without", "timeout", "service unavailable".
func (x *exchange) upstreamError(err error) *llm.Error {
	if gone := x.client.Context(); gone.Err() != nil {
		if errors.Is(context.Cause(gone), ErrShutdown) {
			return &llm.Error{Kind: llm.Overloaded, Code: "shutting_down", Message: "service unavailable: the gateway is shutting down; send the request again", RetryAfter: time.Second, Cause: err}
		}
		return clientGone(err)
	}
	limits := x.target.Timeouts
	var dial *net.OpError
	switch cause := context.Cause(x.call); {
	case errors.Is(cause, errTotal):
		return timeout(codeTotal, "the exchange took longer than "+durationText(limits.Total), err)
	case errors.Is(cause, errNoToken):
		return timeout("timeout_first_token", "the upstream said nothing within "+durationText(limits.FirstToken), err)
	case errors.Is(cause, errSilent) && x.upstream == nil:
		return timeout("timeout_first_byte", "the upstream did not begin to answer within "+durationText(limits.FirstByte), err)
	case errors.Is(cause, errSilent):
		return timeout("timeout_idle", "the upstream was silent for "+durationText(limits.Idle), err)
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout():
		return timeout(codeConnect, "the upstream could not be reached within "+durationText(limits.Connect), err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return &llm.Error{Kind: llm.Upstream, Code: codeUnreachable, Message: "the upstream could not be reached", Cause: err}
	case x.upstream != nil:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "connection lost: the upstream broke off its answer", Cause: err}
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_no_answer", Message: "the upstream closed the connection without an answer, or sent what is not HTTP", Cause: err}
}

func timeout(code, message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Timeout, Code: code, Message: "timeout: " + message, Cause: cause}
}

func clientGone(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Cancelled, Message: "the client went away", Cause: cause}
}
