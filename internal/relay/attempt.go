package relay

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/anthropic"
)

// Why a context was ended by us.
var (
	errSilent   = errors.New("the upstream was silent for too long")
	errTotal    = errors.New("the exchange took longer than it may")
	errReturned = errors.New("the exchange is over")
)

// userAgent says who calls; the client's own is not passed on.
var userAgent = []string{"isogloss"}

// ErrShutdown is the cause with which the server's base context ends when the
// time to drain is over.
var ErrShutdown = errors.New("the gateway is shutting down")

// attempt sends the request upstream and waits for the answer's headers.
func (r *Relay) attempt(x *exchange) *llm.Error {
	req := x.request(x.path)
	req.ContentLength = int64(len(x.body))
	req.GetBody = x.newBody
	req.Body, _ = x.newBody()
	if err := r.send(x, req); err != nil {
		return err
	}
	return x.settle()
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
	return req.WithContext(x.ctx)
}

// send makes the call. From here on the exchange has its deadlines.
func (r *Relay) send(x *exchange, req *http.Request) *llm.Error {
	limits := x.target.Timeouts
	x.idle = time.AfterFunc(limits.FirstByte, func() { x.cancel(errSilent) })
	x.total = time.AfterFunc(limits.Total, func() { x.cancel(errTotal) })
	x.seen.Attempts++
	if x.ask != nil && x.ask.stream && x.state.KeepAlive > 0 && x.endpoint.comments() {
		x.out.keepAlive(x.state.KeepAlive, x.commitStream)
	}
	resp, err := r.transports.get(limits.Connect).RoundTrip(req) //nolint:bodyclose // release closes it
	if err != nil {
		return x.upstreamError(err)
	}
	x.idle.Stop()
	x.hear(resp)
	return x.decompress()
}

// hear notes that the upstream has begun to answer.
func (x *exchange) hear(resp *http.Response) {
	x.out.lock() // the keep-alive tells the client some of it
	defer x.out.unlock()
	resp.Body = &timely{resp.Body, x.idle, x.target.Timeouts.Idle}
	x.upstream = resp
	x.seen.FirstByte(time.Now())
	x.seen.UpstreamStatus = resp.StatusCode
	x.seen.UpstreamID = upstreamID(resp.Header, x.target.Provider.Key.Reveal())
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

// timely is an answer's body that may be silent only for so long. The time runs
// while a read waits, so that a slow client is not taken for a silent upstream.
type timely struct {
	io.ReadCloser
	idle  *time.Timer
	limit time.Duration
}

func (t *timely) Read(p []byte) (int, error) {
	t.idle.Reset(t.limit)
	n, err := t.ReadCloser.Read(p)
	t.idle.Stop()
	return n, err
}

// settle ends the keep-alive of a stream that will not come. Where it has begun
// the answer, there is no status left to tell, and what is no stream can only be
// told as the stream's error.
func (x *exchange) settle() *llm.Error {
	status := x.upstream.StatusCode
	good := status >= 200 && status < 300
	if x.out.keep == nil || good && mediaType(x.upstream.Header) == "text/event-stream" {
		return nil
	}
	x.out.close()
	switch {
	case !x.out.committed, good && x.endpoint.generates, x.translation != nil, status == http.StatusUnauthorized, !good && status < 400:
		return nil
	case good:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream did not stream its answer"}
	}
	body, err := io.ReadAll(io.LimitReader(x.upstream.Body, maxErrorBody))
	if err != nil {
		return x.upstreamError(err)
	}
	fault := &llm.Error{Kind: kindOf(status), Code: "upstream_status", Message: "the upstream answered with status " + strconv.Itoa(status)}
	if told := x.tap.Body(redact(body, x.target.Provider)); told != nil && told.Relayed {
		told.Kind, fault = fault.Kind, told
	}
	return fault
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
		x.upstream.Body = struct {
			io.Reader
			io.Closer
		}{plain, x.upstream.Body}
		x.upstream.ContentLength = -1
		return nil
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream sent an encoding that it was not asked for"}
}

// upstreamError says what went wrong between us and the upstream. The cause of
// the context's end comes first: a call that was given up fails in many ways.
func (x *exchange) upstreamError(err error) *llm.Error {
	if gone := x.client.Context(); gone.Err() != nil {
		if errors.Is(context.Cause(gone), ErrShutdown) {
			return &llm.Error{Kind: llm.Overloaded, Code: "shutting_down", Message: "the gateway is shutting down; send the request again", RetryAfter: time.Second, Cause: err}
		}
		return clientGone(err)
	}
	limits := x.target.Timeouts
	var dial *net.OpError
	switch cause := context.Cause(x.ctx); {
	case errors.Is(cause, errTotal):
		return timeout("timeout_total", "the exchange took longer than "+durationText(limits.Total), err)
	case errors.Is(cause, errSilent) && x.upstream == nil:
		return timeout("timeout_first_byte", "the upstream did not begin to answer within "+durationText(limits.FirstByte), err)
	case errors.Is(cause, errSilent):
		return timeout("timeout_idle", "the upstream was silent for "+durationText(limits.Idle), err)
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Timeout():
		return timeout("timeout_connect", "the upstream could not be reached within "+durationText(limits.Connect), err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_unreachable", Message: "the upstream could not be reached", Cause: err}
	case x.upstream != nil:
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream broke off its answer", Cause: err}
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_no_answer", Message: "the upstream closed the connection without an answer, or sent what is not HTTP", Cause: err}
}

func timeout(code, message string, cause error) *llm.Error {
	return &llm.Error{Kind: llm.Timeout, Code: code, Message: message, Cause: cause}
}

func clientGone(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Cancelled, Message: "the client went away", Cause: cause}
}
