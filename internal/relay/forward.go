package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// forward serves a path that a provider's configuration lists: exactly that
// method and path, and nothing below it. The bodies are not looked at.
func (r *Relay) forward(s *State, p *provider.Provider, w http.ResponseWriter, req *http.Request) {
	x := r.begin(s, endpoint{name: "path", dialect: dialectOf(req), path: req.URL.EscapedPath()}, w, req)
	defer r.record(x)
	x.target = route.Target{Provider: p, Timeouts: p.Timeouts}
	x.seen.Target = p.Name
	for _, step := range []func(*exchange) *llm.Error{r.identify, r.admit, r.reserveForward, r.attemptForward, r.answerForward} {
		if err := step(x); err != nil {
			r.fail(x, err)
			return
		}
	}
}

func (r *Relay) attemptForward(x *exchange) *llm.Error {
	x.seen.Route("", x.target.Provider.Name)
	path := x.endpoint.path
	if query := withoutKey(x.client.URL.RawQuery); query != "" {
		path += "?" + query
	}
	req := x.request(path)
	x.asked = time.Now()
	size, limit := x.client.ContentLength, x.state.Limits.Body
	if size > limit {
		return tooLarge(limit)
	}
	if size == 0 {
		x.seen.Attempts++
		defer x.hear()
		return r.send(x, req)
	}
	body := &upload{ReadCloser: http.MaxBytesReader(x.out.w, x.client.Body, limit), x: x}
	req.ContentLength, req.Body = size, body
	// The transport does not return while it waits for the client.
	stop := context.AfterFunc(x.call, func() { x.out.readDeadline(time.Now()) })
	defer stop()
	x.seen.Attempts++
	err := r.send(x, req)
	x.hear()
	x.seen.BytesIn = body.read.Load()
	if err == nil {
		return nil
	}
	var broken *uploadError
	switch cause := context.Cause(x.call); {
	case errors.As(cause, &broken):
		return bodyError(x, broken.err, limit)
	case errors.Is(cause, errSilent) && body.stalled.Load():
		return bodyError(x, os.ErrDeadlineExceeded, limit)
	}
	return err
}

// withoutKey takes Google's place for a client's key out of a query and leaves
// the rest as it is. What cannot be read may be a key to somebody else.
func withoutKey(query string) string {
	pairs := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(pairs, func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		return err != nil || name == "key" || strings.Contains(pair, ";")
	}), "&")
}

// upload is a client's body on its way to the upstream. It tells how it broke
// off, which the transport's error does not, and the upstream's time to answer
// runs anew with each piece of it.
type upload struct {
	io.ReadCloser
	x       *exchange
	read    atomic.Int64
	stalled atomic.Bool // it was waited for when the time was over
}

type uploadError struct{ err error }

func (e *uploadError) Error() string { return "the request's body broke off: " + e.err.Error() }

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.read.Add(int64(n))
	if n > 0 && u.x.reading.Load() == nil && u.x.idle.Stop() { // the upstream has not answered yet
		u.x.idle.Reset(u.x.target.Timeouts.FirstByte)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		u.stalled.Store(true)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		u.x.hangUp(&uploadError{err})
	}
	return n, err
}

// answerForward copies the answer as it comes.
func (r *Relay) answerForward(x *exchange) *llm.Error {
	status := x.upstream.StatusCode
	if status < 200 || status >= 300 {
		return r.answerStatus(x)
	}
	h := x.out.header()
	h["Content-Type"] = nil // without one of the upstream's the server would guess
	x.answerHeaders(h)
	if n := x.upstream.ContentLength; n >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(n, 10)}
	}
	x.seen.Status = status
	x.out.commit(status)
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	for {
		n, err := x.upstream.Body.Read(buf[:])
		if errors.Is(err, io.EOF) {
			x.charge()
		}
		if werr := x.out.write(buf[:n], time.Now()); werr != nil {
			return clientGone(werr)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return x.upstreamError(err)
		}
		if err := x.out.flush(); err != nil {
			return clientGone(err)
		}
	}
}
