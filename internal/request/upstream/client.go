// Package upstream sends requests to upstreams and reads their responses. It
// owns the connections, the timeouts and the errors of that side of the gateway.
package upstream

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// maxResponseHeader limits the size of a response's header section.
const maxResponseHeader = 256 << 10

// Buffer sizes of a connection, held for as long as it is open. The write buffer
// only carries the request head: the body has a buffer of its own. Most reads of
// a stream need less than the default of 4 KiB.
const (
	writeBuffer = 1 << 10
	readBuffer  = 2 << 10
)

// Client holds the connections to upstreams. It keeps one pool per connect
// timeout, the only setting of a provider that a pool depends on. Pools and their
// connections survive a configuration reload.
type Client struct {
	Logger *slog.Logger // of panics; set it before the first request

	mu     sync.Mutex
	pools  map[time.Duration]*pool // by connect timeout
	divert string
	own    ownAddresses
}

// pool holds the connections with one connect timeout. From time to time it is replaced, so that no
// connection is used for ever: names may have other addresses by then, and a load balancer may have
// other servers.
type pool struct {
	*http.Transport
	since time.Time // when its first request is sent
	old   *pool     // which takes a part of the requests during overlap
	fixed bool      // for tests
}

const (
	// maxAge is how long a pool is used, and up to a quarter longer: the gateways of a cluster
	// must not reconnect at the same time.
	maxAge = 10 * time.Minute
	// overlap is how long it takes to move from a pool to the next, one connection after the
	// other.
	overlap = 30 * time.Second
)

// NewClient returns a Client without connections.
func NewClient() *Client {
	return &Client{Logger: slog.New(slog.DiscardHandler), pools: map[time.Duration]*pool{}}
}

// Divert sends every request to one address, whatever its URL is. Call it before the
// first request.
func (c *Client) Divert(address string) { c.divert = address }

// AddOwnAddress adds an address of the gateway. Connections to it fail: a request that the
// gateway sends to itself would send another, without end.
func (c *Client) AddOwnAddress(a net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.own.add(a)
}

// checkAddress rejects an address that is the gateway's own.
func (c *Client) checkAddress(address string) error {
	c.mu.Lock()
	own := c.own
	c.mu.Unlock()
	if own.contain(address) {
		return errOwnAddress
	}
	return nil
}

// Close closes idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pools {
		p.CloseIdleConnections()
		if p.old != nil {
			p.old.CloseIdleConnections()
		}
	}
}

// SetTransport sets the transport of the requests with a connect timeout. It is
// for tests, before the first request.
func (c *Client) SetTransport(connect time.Duration, t *http.Transport) {
	c.pools[connect] = &pool{Transport: t, fixed: true}
}

// Transport returns the connections with a connect timeout.
func (c *Client) Transport(connect time.Duration) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, now := c.pools[connect], time.Now()
	switch {
	case p == nil:
		p = &pool{Transport: c.newTransport(connect), since: now}
		c.pools[connect] = p
	case p.fixed:
	case now.Sub(p.since) > maxAge:
		p.old = nil
		p = &pool{Transport: c.newTransport(connect), since: now.Add(rand.N(maxAge / 4)), old: p} //nolint:gosec // jitter
		c.pools[connect] = p
	}
	return p.choose(now)
}

// choose returns the transport of a pool or, during overlap, of the one before.
func (p *pool) choose(now time.Time) *http.Transport {
	if p.old == nil {
		return p.Transport
	}
	moved := float64(now.Sub(p.since)) / float64(overlap)
	if moved >= 1 {
		p.old.CloseIdleConnections()
		p.old = nil
		return p.Transport
	}
	if rand.Float64() >= moved { //nolint:gosec // spreads the load
		return p.old.Transport
	}
	return p.Transport
}

func (c *Client) newTransport(connect time.Duration) *http.Transport {
	t := NewTransport(connect)
	t.DialContext = dialer(connect, c.checkAddress)
	if address := c.divert; address != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return t
}

// NewTransport returns a transport with the settings of the gateway.
func NewTransport(connect time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer(connect, func(string) error { return nil }),
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the verbatim lane relays the upstream's bytes
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		WriteBufferSize:        writeBuffer,
		ReadBufferSize:         readBuffer,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout},
	}
}

const (
	// maxIdle lets every one of ten thousand workers keep a connection.
	maxIdle = 1 << 15

	// A connection without frames is pinged, and closed without a reply. All requests to a host
	// share it, so that one that leads nowhere would fail them all.
	pingAfter    = 10 * time.Second
	pingTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
)

// dialer returns a dial function that wraps TCP connections in conn. check may reject an
// address, after names are resolved.
func dialer(connect time.Duration, check func(address string) error) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error { return check(address) }}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		start := time.Now()
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		trip, _ := ctx.Value(dialingKey{}).(*dialing)
		trip.note(time.Since(start))
		if tcp, ok := c.(*net.TCPConn); ok {
			return &conn{TCPConn: tcp}, nil
		}
		return c, nil
	}
}

// conn is a TCP connection that hides write errors of a closed peer. The
// following read reports them, and net/http then resends the request on another
// connection, which it does not do for a failed write in the middle of a request.
// A response that the peer sent before it closed is also read.
//
// It reads ahead while the peer sends more than a read takes, as a stream does in a burst. The
// buffer is a pooled one, which an idle connection does not have.
type conn struct {
	*net.TCPConn
	full  bool               // the last read filled its buffer, so more bytes may be there
	ahead *[LargeBuffer]byte // nil if nothing was read ahead
	rest  []byte             // of ahead
}

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
	n, err := c.TCPConn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return len(p), nil
	}
	return n, err
}

// ReadFrom copies through Write with a pooled buffer. net/http sends request
// bodies with it.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	buf := largeBuffers.Get().(*[LargeBuffer]byte)
	defer largeBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, buf[:])
}
