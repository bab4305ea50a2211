package framing

import (
	"net/http"
	"sync"
)

// corkSize is the largest part of a response that a corked connection keeps: one piece of a stream with its
// chunk header and the response headers.
const corkSize = 18 << 10

var corkBuffers = sync.Pool{New: func() any { return new([corkSize]byte) }}

// Cork is a connection that can keep what is written until it is complete. net/http has a buffer of 4 KiB, so
// that a larger chunk of a response takes three system calls.
type Cork struct{ c *conn }

// CorkOf returns the connection of a request of HTTP/1. The zero Cork does nothing: it is that of HTTP/2, where
// requests share a connection, and of tests.
func CorkOf(r *http.Request) Cork {
	if r.ProtoMajor != 1 {
		return Cork{}
	}
	c, _ := r.Context().Value(connKey{}).(*conn)
	return Cork{c}
}

// Push keeps what is written from now on, until Pull.
func (k Cork) Push() {
	if k.c != nil {
		k.c.corked = corkBuffers.Get().(*[corkSize]byte)
	}
}

// Pull writes what is kept.
func (k Cork) Pull() error {
	if k.c == nil || k.c.corked == nil {
		return nil
	}
	err := k.c.sendKept()
	corkBuffers.Put(k.c.corked)
	k.c.corked = nil
	return err
}

// Write writes p, or keeps it while the connection is corked.
func (c *conn) Write(p []byte) (int, error) {
	if c.corked == nil {
		return c.Conn.Write(p)
	}
	if c.kept+len(p) > corkSize {
		if err := c.sendKept(); err != nil {
			return 0, err
		}
		if len(p) > corkSize {
			return c.Conn.Write(p)
		}
	}
	c.kept += copy(c.corked[c.kept:], p)
	return len(p), nil
}

// sendKept writes what is kept.
func (c *conn) sendKept() error {
	if c.kept == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.corked[:c.kept])
	c.kept = 0
	return err
}
