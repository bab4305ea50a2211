package relay

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// sentBody is a request's body on its way upstream. A transport keeps the request
// for as long as it is answered, and the bytes are not to stay with it: a stream
// may last for half an hour, and its prompt may be of megabytes.
type sentBody struct {
	mu sync.Mutex // a transport may close what it still reads
	r  bytes.Reader
}

// errReplayed ends net/http's own repetitions.
var errReplayed = errors.New("several connections that were kept open turned out to be dead")

// maxReplays is enough for an HTTP/2 upstream that leaves, which takes two.
const maxReplays = 2

// setBody gives a request its body. Where a connection that was kept open turns out
// to be dead before it brought a single byte, net/http sends the request again, on
// each such connection that it has; here it may not do so without end.
func (a *attempt) setBody(req *http.Request) {
	replays := 0
	req.ContentLength = int64(len(a.body))
	req.Body = newBody(a.body)
	req.GetBody = func() (io.ReadCloser, error) {
		if replays++; replays > maxReplays {
			return nil, errReplayed
		}
		return newBody(a.body), nil
	}
}

func newBody(body []byte) *sentBody {
	b := new(sentBody)
	b.r.Reset(body)
	return b
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.r.Read(p)
}

// Close lets go of the bytes.
func (b *sentBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.r.Reset(nil)
	return nil
}

// readCloser reads from one thing and closes another: an answer's body that is read
// in some other way than it came.
type readCloser struct {
	io.Reader
	io.Closer
}

// readSized reads to the end. A size that the sender has told is believed up to
// firstBodyCap, and as a whole once so much has come: a buffer that only grows
// would hold a large body several times over.
func readSized(r io.Reader, size int64) ([]byte, error) {
	if size <= 0 {
		return io.ReadAll(r)
	}
	b := make([]byte, 0, min(size, firstBodyCap)+bytes.MinRead)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return b, err
		case len(b) == cap(b):
			room := max(int(size), 2*len(b)) + bytes.MinRead
			b = append(make([]byte, 0, room), b...)
		}
	}
}

// letGo forgets the request's body and what was made of it, once the client has
// some of the answer: from then on nobody else will be asked.
func (x *exchange) letGo() {
	if x.body == nil {
		return
	}
	x.body = nil
	if x.ask != nil {
		x.ask.object = object{}
	}
	x.named = nil
	if x.translation != nil {
		x.translation.out.Body = nil
	}
}
