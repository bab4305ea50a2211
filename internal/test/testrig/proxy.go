package testrig

import (
	"io"
	"net"
	"sync"
)

// Proxy forwards TCP connections to a server. It can block them, lose their bytes, and
// watch the bytes that pass.
type Proxy struct {
	Addr string // host:port

	watch func(requests, responses io.Reader) (io.Reader, io.Reader)
	l     net.Listener
	wg    sync.WaitGroup

	mu      sync.Mutex
	target  string
	blocked bool
	conns   map[net.Conn]bool // whether bytes to it are lost
}

// NewProxy listens on a loopback port until Close. For each connection, watch wraps the
// bytes in both directions; nil forwards them as they are.
func NewProxy(target string, watch func(requests, responses io.Reader) (io.Reader, io.Reader)) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return ServeProxy(l, target, watch), nil
}

// ServeProxy forwards the connections of a listener until Close.
func ServeProxy(l net.Listener, target string, watch func(requests, responses io.Reader) (io.Reader, io.Reader)) *Proxy {
	p := &Proxy{Addr: l.Addr().String(), target: target, watch: watch, l: l, conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.forward(conn) })
		}
	})
	return p
}

// Close stops the proxy and closes all connections.
func (p *Proxy) Close() {
	_ = p.l.Close() // nothing more is accepted
	p.Block()
	p.wg.Wait()
}

// Block closes all connections and forwards no more.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = true
	for c := range p.conns {
		_ = c.Close() // the peer may have closed it first
	}
}

// Unblock forwards connections again.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = false
}

// Lead closes all connections and forwards the next ones to another server.
func (p *Proxy) Lead(target string) {
	p.Block()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.blocked = target, false
}

// Lose turns the connections of now into black holes: they stay open, and the bytes that
// are sent on them are lost. Later connections are forwarded.
func (p *Proxy) Lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// forwarder writes to a connection of a Proxy, unless its bytes are lost.
type forwarder struct {
	to net.Conn
	of *Proxy
}

func (f forwarder) Write(b []byte) (int, error) {
	f.of.mu.Lock()
	lost := f.of.conns[f.to]
	f.of.mu.Unlock()
	if lost {
		return len(b), nil
	}
	return f.to.Write(b)
}

// keep registers a connection, unless the proxy is blocked.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked {
		_ = c.Close() // nothing was sent on it
		return false
	}
	p.conns[c] = false
	return true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may be closed already
}

// forward joins two connections until either side ends its own.
func (p *Proxy) forward(client net.Conn) {
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil || !p.keep(server) {
		return
	}
	var requests, responses io.Reader = client, server
	if p.watch != nil {
		requests, responses = p.watch(client, server)
	}
	p.wg.Go(func() {
		defer p.drop(server)
		_, _ = io.Copy(forwarder{server, p}, requests) // either side may end it
	})
	_, _ = io.Copy(forwarder{client, p}, responses) // likewise
	p.drop(server)
}
