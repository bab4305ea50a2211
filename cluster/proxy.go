package main

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy stands before a store. It can be closed, as a network is, and it can count
// PostgreSQL's queries.
type proxy struct {
	addr   string
	target string
	l      net.Listener
	delay  time.Duration // before an answer is let through

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool

	queries, open, peak atomic.Int64
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{addr: l.Addr().String(), target: target, l: l, conns: map[net.Conn]bool{}}
	go p.serve()
	return p, nil
}

func (p *proxy) serve() {
	for {
		conn, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.pass(conn)
	}
}

func (p *proxy) close() {
	p.cut()
	_ = p.l.Close() // nothing is lost with it
}

// cut ends all connections and lets no more through.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close() // that is what is wanted
	}
}

// mend lets connections through again.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
}

// keep notes a connection, unless the way is closed.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close() // nobody gets through
		return false
	}
	p.conns[c] = true
	return true
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may be closed already
}

func (p *proxy) pass(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	store, err := net.Dial("tcp", p.target)
	if err != nil || !p.keep(store) {
		return
	}
	defer p.drop(store)
	q := &queries{p: p}
	go func() {
		defer p.drop(store)
		_, _ = io.Copy(io.MultiWriter(q, store), client) // either side may end it
	}()
	_, _ = io.Copy(client, &answers{r: store, q: q})
	q.end()
}

// queries reads what a client of PostgreSQL sends: a query is in flight from its
// Sync or its Query to the server's ReadyForQuery.
type queries struct {
	p      *proxy
	frames frames
	flight atomic.Bool
}

func (q *queries) Write(b []byte) (int, error) {
	q.frames.feed(b, true, func(kind byte) {
		if kind != 'S' && kind != 'Q' || q.flight.Swap(true) {
			return
		}
		q.p.queries.Add(1)
		now := q.p.open.Add(1)
		for {
			peak := q.p.peak.Load()
			if now <= peak || q.p.peak.CompareAndSwap(peak, now) {
				return
			}
		}
	})
	return len(b), nil
}

func (q *queries) end() {
	if q.flight.Swap(false) {
		q.p.open.Add(-1)
	}
}

// answers reads what the server sends.
type answers struct {
	r      io.Reader
	q      *queries
	frames frames
}

func (a *answers) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if n > 0 && a.q.flight.Load() {
		time.Sleep(a.q.p.delay)
	}
	a.frames.feed(b[:n], false, func(kind byte) {
		if kind == 'Z' {
			a.q.end()
		}
	})
	return n, err
}

// frames cuts PostgreSQL's protocol into messages: a letter and a length that counts
// itself. A client's first message has no letter.
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
