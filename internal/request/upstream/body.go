package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// requestBody is a request body that can be released while its request lives. A
// transport keeps the request until the response ends, and a stream may last half
// an hour after a prompt of megabytes. HTTP/2 closes the body only then, so a body
// is also released when it was read to its end and the response headers are there.
type requestBody struct {
	mu    sync.Mutex // a transport may close a body that it still reads
	r     bytes.Reader
	whole []byte
	again *resends
}

// resends has the bytes of a body that may be sent again.
type resends struct {
	body     []byte
	count    int         // of net/http's own resends
	answered atomic.Bool // the response headers are there, so nothing is sent again

	mu   sync.Mutex
	last *requestBody
}

// heldBody returns the bytes of a request's body, and whether the body can be sent again.
func heldBody(req *http.Request) ([]byte, bool) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, true
	}
	if b, ok := req.Body.(*requestBody); ok {
		return b.whole, true
	}
	return nil, false
}

// isHeld reports whether a request has a body in memory that is not empty.
func isHeld(req *http.Request) bool {
	b, ok := req.Body.(*requestBody)
	return ok && len(b.whole) > 0
}

// errReplayed ends net/http's own resends.
var errReplayed = errors.New("several idle connections turned out to be closed")

// maxReplays limits net/http's resends of a request. An HTTP/2 upstream that
// sends GOAWAY needs two.
const maxReplays = 2

// SetBody sets the body of a request. net/http resends a request when an idle
// connection turns out to be closed before the first response byte; SetBody
// limits how often.
func SetBody(req *http.Request, body []byte) {
	again := &resends{body: body}
	req.ContentLength = int64(len(body))
	req.Body = again.newBody()
	req.GetBody = func() (io.ReadCloser, error) {
		if again.count++; again.count > maxReplays {
			return nil, errReplayed
		}
		return again.newBody(), nil
	}
}

// rewind prepares a request for being sent again. It reports whether that is possible.
func rewind(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return true
	}
	b, ok := req.Body.(*requestBody)
	if ok {
		req.Body = b.again.newBody()
	}
	return ok
}

func (a *resends) newBody() *requestBody {
	b := &requestBody{whole: a.body, again: a}
	b.r.Reset(a.body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = b
	return b
}

// dropResends releases the bytes for resends, of which there are none after the response headers.
func dropResends(req *http.Request) {
	b, ok := req.Body.(*requestBody)
	if !ok {
		return
	}
	a := b.again
	a.answered.Store(true)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body = nil
	a.last.mu.Lock()
	defer a.last.mu.Unlock()
	a.last.releaseRead()
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.r.Read(p)
	if b.again.answered.Load() {
		b.releaseRead()
	}
	return n, err
}

// releaseRead releases the bytes if all are read.
func (b *requestBody) releaseRead() {
	if b.r.Len() == 0 {
		b.release()
	}
}

func (b *requestBody) release() {
	b.r.Reset(nil)
	b.whole = nil
}

// Close releases the bytes.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.release()
	return nil
}

// readCloser reads from one value and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// maxTrustedSize is the largest buffer that is allocated for a declared Content-Length
// before the bytes arrive.
const maxTrustedSize = 1 << 20

// readSized reads to the end. It allocates for the declared size up to maxTrustedSize,
// and for the full size after that many bytes have arrived.
func readSized(r io.Reader, size int64) ([]byte, error) {
	if size <= 0 {
		return io.ReadAll(r)
	}
	b := bodyBuffer(int(min(size, maxTrustedSize)) + bytes.MinRead)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		case len(b) == cap(b):
			grown := max(int(size), 2*len(b)) + bytes.MinRead
			b = append(make([]byte, 0, grown), b...)
		}
	}
}

// Sizes of the buffers that FreeBody keeps. Smaller ones are cheap to allocate, and larger ones
// would keep memory for rare responses.
const (
	minPooledBody = 16 << 10
	maxPooledBody = 256 << 10
)

var bodyBuffers sync.Pool // of *[]byte

// bodyBuffer returns an empty buffer of at least the given size.
func bodyBuffer(size int) []byte {
	if size >= minPooledBody && size <= maxPooledBody {
		if b, ok := bodyBuffers.Get().(*[]byte); ok && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// FreeBody lets another response use the buffer of a body that ReadBody returned. Nothing may
// refer to the body any more.
func FreeBody(body []byte) {
	if cap(body) >= minPooledBody && cap(body) <= maxPooledBody {
		bodyBuffers.Put(&body)
	}
}
