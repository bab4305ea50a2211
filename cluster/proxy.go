package main

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// queryProxy forwards connections to PostgreSQL, delays every response and counts the
// queries: one is in flight from the client's Sync or Query to the server's ReadyForQuery.
type queryProxy struct {
	*testrig.Proxy
	delay time.Duration

	queries, open, peak atomic.Int64
}

func newQueryProxy(target string, delay time.Duration) (*queryProxy, error) {
	p := &queryProxy{delay: delay}
	var err error
	p.Proxy, err = testrig.NewProxy(target, func(requests, responses io.Reader) (io.Reader, io.Reader) {
		c := &queryConn{p: p}
		return &queries{r: requests, c: c}, &results{r: responses, c: c}
	})
	return p, err
}

// queryConn is one connection of a client.
type queryConn struct {
	p      *queryProxy
	flight atomic.Bool
}

func (c *queryConn) begin() {
	if c.flight.Swap(true) {
		return
	}
	c.p.queries.Add(1)
	for now, peak := c.p.open.Add(1), c.p.peak.Load(); now > peak && !c.p.peak.CompareAndSwap(peak, now); peak = c.p.peak.Load() {
	}
}

func (c *queryConn) end() {
	if c.flight.Swap(false) {
		c.p.open.Add(-1)
	}
}

// queries reads the messages of the client.
type queries struct {
	r      io.Reader
	c      *queryConn
	frames frames
}

func (q *queries) Read(b []byte) (int, error) {
	n, err := q.r.Read(b)
	q.frames.feed(b[:n], true, func(kind byte) {
		if kind == 'S' || kind == 'Q' {
			q.c.begin()
		}
	})
	return n, err
}

// results reads the messages of the server.
type results struct {
	r      io.Reader
	c      *queryConn
	frames frames
}

func (a *results) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if n > 0 && a.c.flight.Load() {
		time.Sleep(a.c.p.delay)
	}
	a.frames.feed(b[:n], false, func(kind byte) {
		if kind == 'Z' {
			a.c.end()
		}
	})
	if err != nil {
		a.c.end()
	}
	return n, err
}

// frames splits PostgreSQL's protocol into messages: a type byte and a length that
// includes itself. A client's first message has no type.
type frames struct {
	head    []byte
	skip    int
	started bool
}

func (f *frames) feed(b []byte, client bool, message func(kind byte)) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip -= n
			b = b[n:]
			continue
		}
		size := 5
		if client && !f.started {
			size = 4
		}
		n := min(size-len(f.head), len(b))
		f.head = append(f.head, b[:n]...)
		b = b[n:]
		if len(f.head) < size {
			return
		}
		f.skip = int(binary.BigEndian.Uint32(f.head[size-4:])) - 4
		if size == 5 {
			message(f.head[0])
		}
		f.started, f.head = true, f.head[:0]
	}
}
