package relay

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// sentBody is a request's body on its way upstream. A transport keeps the request
// for as long as it is answered, and the bytes are not to stay with it: a stream
// may last for half an hour, and its prompt may be of megabytes.
type sentBody struct {
	mu sync.Mutex // a transport may close what it still reads
	r  bytes.Reader
}

func (x *exchange) newBody() (io.ReadCloser, error) {
	b := new(sentBody)
	b.r.Reset(x.body)
	return b, nil
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
	if x.translation != nil {
		x.translation.out.Body = nil
	}
}
