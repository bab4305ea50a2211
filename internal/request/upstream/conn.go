package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"syscall"
)

// conn is a TCP connection that hides write errors of a closed peer. The
// following read reports them, and net/http then resends the request on another
// connection, which it does not do for a failed write in the middle of a request.
// A response that the peer sent before it closed is also read.
//
// It reads ahead while the peer sends more than a read takes, as a stream does in a burst. The
// buffer is a pooled one, which an idle connection does not have.
//
// It sends the head of a request with the beginning of its body, if the body is in memory: net/http
// writes the head by itself, which costs a system call and a packet.
type conn struct {
	*net.TCPConn
	full  bool               // the last read filled its buffer, so more bytes may be there
	ahead *[LargeBuffer]byte // nil if nothing was read ahead
	rest  []byte             // of ahead

	join bool               // the next write is a head, and a body follows
	head *[LargeBuffer]byte // begins with a head that is not sent; nil if there is none
	size int                // of that head
}

// joinHeads is a context whose trace lets the connection of a request join head and body.
var joinHeads = httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
	if c, ok := got.Conn.(*conn); ok {
		c.join = true
	}
}})

// maxSmallRead is the largest read for which conn reads ahead. A larger one has a large buffer
// of its own.
const maxSmallRead = 4 << 10

func (c *conn) Read(p []byte) (int, error) {
	if c.ahead != nil || c.full && len(p) <= maxSmallRead {
		return c.readAhead(p)
	}
	n, err := c.TCPConn.Read(p)
	c.full = n == len(p)
	return n, err
}

// readAhead reads from the pooled buffer, which it fills before if it is empty.
func (c *conn) readAhead(p []byte) (n int, err error) {
	if c.ahead == nil {
		c.ahead = Buffer()
		n, err = c.TCPConn.Read(c.ahead[:])
		c.rest = c.ahead[:n]
	}
	n = copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.full = false
		Free(c.ahead)
		c.ahead, c.rest = nil, nil
	}
	return n, err
}

// WriteTo copies through Read, where TCPConn's own would skip what was read ahead.
func (c *conn) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{c})
}

func (c *conn) Write(p []byte) (int, error) {
	if c.join && len(p) < LargeBuffer {
		c.join, c.head = false, Buffer()
		c.size = copy(c.head[:], p)
		return len(p), nil
	}
	if c.head != nil {
		if _, err := c.ReadFrom(bytes.NewReader(p)); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	n, err := c.TCPConn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return len(p), nil
	}
	return n, err
}

// ReadFrom copies through Write with a pooled buffer, which may begin with the head. net/http sends
// request bodies with it.
func (c *conn) ReadFrom(r io.Reader) (sent int64, err error) {
	buf, size := c.head, c.size
	c.join, c.head, c.size = false, nil, 0
	if buf == nil {
		buf = Buffer()
	}
	defer Free(buf)
	for {
		n, end := r.Read(buf[size:])
		if size += n; size > 0 {
			if _, err := c.Write(buf[:size]); err != nil {
				return sent, err
			}
		}
		size, sent = 0, sent+int64(n)
		switch {
		case errors.Is(end, io.EOF):
			return sent, nil
		case end != nil:
			return sent, end
		}
	}
}
