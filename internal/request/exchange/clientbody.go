package exchange

import (
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Limits of reading a request body. The time limit grows with the part that has arrived.
const (
	bodyPatience = 30 * time.Second
	bodyRate     = 64 << 10 // bytes that extend the time limit by a second
)

const (
	// firstPart is the largest buffer that is allocated for the announced Content-Length before any of the
	// body has arrived.
	firstPart = 1 << 20
	// bodyGrowth is how many times what has arrived is allocated in addition for the announced Content-Length.
	bodyGrowth = 3
)

// FirstPart returns the size of the first buffer of a body. One byte more than announced finds the end.
func FirstPart(announced int64) int { return int(min(max(announced, 512), firstPart)) + 1 }

// NextPart returns how much larger the buffer of a body is to become: by the rest of the announced size, but
// at most by bodyGrowth times what has arrived. The buffer of a body without an announced size doubles up to
// firstPart, and then grows by that or a quarter.
func NextPart(arrived int, announced int64) int {
	if rest := int(announced) + 1 - arrived; rest > 0 {
		return min(rest, bodyGrowth*arrived)
	}
	return max(arrived/4, min(arrived, firstPart))
}

// LimitBody returns a reader of the request body. It fails after limit bytes, or if the client
// takes too long: bodyPatience, and a second more for each bodyRate bytes that have arrived.
// Only the time that Read waits counts: an upstream that does not accept an upload delays the
// next Read, and has its own timeouts.
func (c *ClientWriter) LimitBody(body io.ReadCloser, limit int64) io.ReadCloser {
	c.open = true
	return &clientBody{ReadCloser: http.MaxBytesReader(c.w, body, limit), writer: c}
}

type clientBody struct {
	io.ReadCloser
	writer  *ClientWriter
	arrived int64
	waited  time.Duration
}

func (b *clientBody) Read(p []byte) (int, error) {
	b.writer.inRead.Lock()
	defer b.writer.inRead.Unlock()
	began := time.Now()
	if !b.writer.await(began.Add(bodyPatience + time.Duration(b.arrived/bodyRate)*time.Second - b.waited)) {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := b.ReadCloser.Read(p)
	b.arrived += int64(n)
	b.waited += time.Since(began)
	if errors.Is(err, io.EOF) {
		b.writer.ended() // the server reads on, to detect a client that disconnects
	}
	return n, err
}

// Close does nothing: it would read the rest. The server closes the body after the request.
func (b *clientBody) Close() error { return nil }

// await sets the deadline of a read of the body. It reports false if the body is not to be
// read any more.
func (c *ClientWriter) await(deadline time.Time) bool {
	c.reading.Lock()
	defer c.reading.Unlock()
	if !c.unread {
		c.SetReadDeadline(deadline)
	}
	return !c.unread
}

// ended notes the end of the body, and removes the deadline.
func (c *ClientWriter) ended() {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.open = false
	if !c.unread {
		c.SetReadDeadline(time.Time{})
	}
}

// SetReadDeadline sets the deadline for reading the request body.
func (c *ClientWriter) SetReadDeadline(t time.Time) {
	_ = c.rc.SetReadDeadline(t) // a test's recorder has no deadlines
}

// StopBody ends a Read of the body that waits, and lets later ones fail. It returns after
// that Read: otherwise the server would end it after the request, and reset the deadline.
func (c *ClientWriter) StopBody() {
	c.reading.Lock()
	if c.open && !c.unread {
		c.unread = true
		c.SetReadDeadline(time.Now())
	}
	c.reading.Unlock()
	c.inRead.Lock()
	defer c.inRead.Unlock()
}

// DiscardBody limits how long the server reads the rest of a request body, which it does
// before it sends an error response.
func (c *ClientWriter) DiscardBody() {
	c.StopBody()
	c.reading.Lock()
	defer c.reading.Unlock()
	c.unread = true
	c.SetReadDeadline(time.Now().Add(discardTimeout))
}

// BodyError returns the client's error if its body could not be read, and nil at its end.
func (c *Call) BodyError(err error, limit int64) *llm.Error {
	var over *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &over):
		return TooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &llm.Error{Kind: llm.Timeout, Status: http.StatusRequestTimeout, Code: "request_timeout", Message: "the request's body took too long to arrive"}
	case c.Client.Context().Err() != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return upstream.ClientGone(err)
	}
	return &llm.Error{Kind: llm.InvalidRequest, Message: "the request's body could not be read", Cause: err}
}

// TooLarge returns the error of a body that is larger than limit.
func TooLarge(limit int64) *llm.Error {
	return &llm.Error{Kind: llm.TooLarge, Message: "the request's body is larger than this gateway's limit of " + upstream.SizeText(limit) + "; send less, or raise limits.body"}
}
