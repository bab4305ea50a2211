// Package conns limits the connections of clients, in all and from one address. When a limit is
// reached, it closes the connection that has been idle for longest; a new connection is refused only
// if all others have a request.
package conns

import (
	"container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// Options configure Conns.
type Options struct {
	Limit      int            // connections in all; 0: no limit
	PerAddress int            // connections from one address; 0: no limit
	Proxies    []netip.Prefix // addresses that only Limit applies to
	Logger     *slog.Logger
}

// Conns are the connections of clients. It is safe for concurrent use.
type Conns struct {
	o Options

	mu      sync.Mutex
	open    int
	busy    map[net.Conn]struct{} // with a request, or without one so far
	idle    list.List             // of *conn, that which is idle for longest first
	from    map[netip.Addr]*address
	changed time.Time // when a connection last became idle
	warned  time.Time
}

// address has the connections from one address.
type address struct {
	open int
	idle list.List
}

// New returns Conns without connections.
func New(o Options) *Conns {
	return &Conns{o: o, busy: map[net.Conn]struct{}{}, from: map[netip.Addr]*address{}}
}

// conn is a connection of a client.
type conn struct {
	net.Conn
	of   *Conns
	from netip.Addr

	// guarded by mu of Conns
	closed     bool
	idle, mine *list.Element // in the lists of Conns and address; nil: it has a request
}

// Close closes the connection.
func (c *conn) Close() error {
	c.of.remove(c)
	return c.Conn.Close()
}

// CloseWrite ends the responses on the connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Listen returns a listener that accepts connections within the limits.
func (s *Conns) Listen(l net.Listener) net.Listener { return &listener{l, s} }

type listener struct {
	net.Listener
	of *Conns
}

// acceptPause is the pause after the system has refused a connection.
const acceptPause = 50 * time.Millisecond

func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err != nil && !isShortage(err):
			return nil, err
		case err != nil:
			l.of.shortage(err)
			time.Sleep(acceptPause)
			continue
		}
		if c := l.of.admit(nc); c != nil {
			return c, nil
		}
		_ = nc.Close() // nothing was sent on it
	}
}

// isShortage reports whether the system lacks descriptors or memory for a connection, or the client
// has closed it already.
func isShortage(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// evictAtOnce is the number of idle connections that are closed when descriptors run short: those
// that wait are accepted then, and requests find some for upstreams.
const evictAtOnce = 16

// shortage closes idle connections after the system has refused one.
func (s *Conns) shortage(err error) {
	var victims []*conn
	s.mu.Lock()
	for range evictAtOnce {
		victims = s.evict(&s.idle, victims)
	}
	s.warn("connections cannot be accepted; idle ones are closed", "error", err, "closed", len(victims), "open", s.open)
	s.mu.Unlock()
	closeAll(victims)
}

// admit counts a new connection. It returns nil if there are too many with a request.
func (s *Conns) admit(nc net.Conn) *conn {
	c := &conn{Conn: nc, of: s, from: addressOf(nc)}
	var victims []*conn
	s.mu.Lock()
	a := s.from[c.from]
	if a == nil {
		a = &address{}
		s.from[c.from] = a
	}
	refused := ""
	if n := s.o.PerAddress; n > 0 && a.open >= n && !s.isProxy(c.from) {
		if victims = s.evict(&a.idle, victims); len(victims) == 0 {
			refused = "an address has too many connections with a request; further ones are refused"
		}
	}
	if refused == "" && s.o.Limit > 0 && s.open >= s.o.Limit {
		if victims = s.evict(&s.idle, victims); s.open >= s.o.Limit {
			refused = "there are too many connections with a request; further ones are refused"
		}
	}
	if refused == "" {
		s.open++
		a.open++
		s.from[c.from] = a // dropping its last connection has removed it
		s.setIdle(c, a)
	} else {
		s.warn(refused, "address", c.from.String(), "open", s.open, "from_address", a.open)
	}
	if a.open == 0 {
		delete(s.from, c.from)
	}
	s.mu.Unlock()
	closeAll(victims)
	if refused != "" {
		return nil
	}
	return c
}

func addressOf(nc net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

func (s *Conns) isProxy(a netip.Addr) bool {
	for _, p := range s.o.Proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// warnInterval is the least time between two warnings.
const warnInterval = 10 * time.Second

func (s *Conns) warn(message string, args ...any) {
	if s.o.Logger != nil && time.Since(s.warned) > warnInterval {
		s.warned = time.Now()
		s.o.Logger.Warn(message, args...)
	}
}

// evict removes the longest idle connection from a list, if there is one, and adds it to the
// connections to close.
func (s *Conns) evict(from *list.List, victims []*conn) []*conn {
	e := from.Front()
	if e == nil {
		return victims
	}
	c := e.Value.(*conn)
	s.drop(c)
	return append(victims, c)
}

func closeAll(list []*conn) {
	for _, c := range list {
		_ = c.Conn.Close() // it is dropped already
	}
}

func (s *Conns) setIdle(c *conn, a *address) {
	if c.idle == nil {
		c.idle, c.mine = s.idle.PushBack(c), a.idle.PushBack(c)
	}
}

func (s *Conns) setBusy(c *conn, a *address) {
	if c.idle != nil {
		s.idle.Remove(c.idle)
		a.idle.Remove(c.mine)
		c.idle, c.mine = nil, nil
	}
}

// drop removes a connection from all counts. The caller holds mu.
func (s *Conns) drop(c *conn) {
	if c.closed {
		return
	}
	c.closed = true
	a := s.from[c.from]
	s.setBusy(c, a)
	s.open--
	if a.open--; a.open == 0 {
		delete(s.from, c.from)
	}
}

func (s *Conns) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(c)
}

// Note implements http.Server.ConnState. A connection on which no request has arrived yet is idle for
// the limits, and busy for Quiet: http.Server.Shutdown would drop its request.
func (s *Conns) Note(nc net.Conn, state http.ConnState) {
	c := unwrap(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		s.busy[nc] = struct{}{}
	} else if _, was := s.busy[nc]; was {
		delete(s.busy, nc)
		s.changed = time.Now()
	}
	if c == nil || c.closed {
		return
	}
	switch state {
	case http.StateActive:
		s.setBusy(c, s.from[c.from])
	case http.StateIdle:
		s.setIdle(c, s.from[c.from])
	}
}

// Quiet returns how long no connection has been busy.
func (s *Conns) Quiet() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.busy) > 0 {
		return 0
	}
	return time.Since(s.changed)
}

// unwrap finds the conn in a connection that TLS and others have wrapped.
func unwrap(nc net.Conn) *conn {
	for {
		switch c := nc.(type) {
		case *conn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
