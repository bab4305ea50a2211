// Package upstream sends requests to upstreams and reads their responses. It
// owns the connections, the timeouts and the errors of that side of the gateway.
package upstream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
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

// Client holds the connections to upstreams. It keeps one pool for each combination of the
// settings of a provider that a pool depends on. Pools and their connections survive a
// configuration reload.
type Client struct {
	Logger *slog.Logger // of panics; set it before the first request

	mu     sync.Mutex
	pools  map[poolKey]*pool
	divert string
	own    ownAddresses
}

// poolKey has the settings of a pool.
type poolKey struct {
	connect time.Duration
	version provider.HTTPVersion
}

// pool holds the connections with the same settings. From time to time it is replaced, so that no
// connection is used for ever: names may have other addresses by then, and a load balancer may have
// other servers.
type pool struct {
	*http.Transport
	hosts *hosts
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
	return &Client{Logger: slog.New(slog.DiscardHandler), pools: map[poolKey]*pool{}}
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
		p.closeIdle()
		if p.old != nil {
			p.old.closeIdle()
		}
	}
}

// SetTransport sets the transport of the requests with a connect timeout. It is
// for tests, before the first request.
func (c *Client) SetTransport(connect time.Duration, t *http.Transport) {
	p := c.newPool(poolKey{connect, provider.AutoHTTP}, t)
	p.fixed = true
	c.pools[poolKey{connect, provider.AutoHTTP}] = p
}

func (c *Client) newPool(key poolKey, t *http.Transport) *pool {
	p := &pool{Transport: t, hosts: &hosts{transport: t, scheme: "https", logger: c.Logger, list: map[hostKey]*host{}}}
	switch key.version {
	case provider.HTTP1:
		t.Protocols = new(http.Protocols)
		t.Protocols.SetHTTP1(true)
		p.hosts.scheme = "" // none
	case provider.H2C:
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
		p.hosts.scheme = "http"
	}
	return p
}

// closeIdle closes the connections without requests.
func (p *pool) closeIdle() {
	p.CloseIdleConnections()
	p.hosts.closeIdle()
}

// Transport returns a transport with a connect timeout, for requests other than those of clients.
func (c *Client) Transport(connect time.Duration) *http.Transport {
	return c.pool(poolKey{connect, provider.AutoHTTP}).Transport
}

// pool returns the connections with some settings.
func (c *Client) pool(key poolKey) *pool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, now := c.pools[key], time.Now()
	switch {
	case p == nil:
		p = c.newPool(key, c.newTransport(key.connect))
		p.since = now
		c.pools[key] = p
	case p.fixed:
	case now.Sub(p.since) > maxAge:
		p.old = nil
		next := c.newPool(key, c.newTransport(key.connect))
		next.since, next.old = now.Add(rand.N(maxAge/4)), p //nolint:gosec // jitter
		p, c.pools[key] = next, next
	}
	return p.choose(now)
}

// choose returns the pool or, during overlap, the one before.
func (p *pool) choose(now time.Time) *pool {
	if p.old == nil {
		return p
	}
	moved := float64(now.Sub(p.since)) / float64(overlap)
	if moved >= 1 {
		p.old.closeIdle()
		p.old = nil
		return p
	}
	if rand.Float64() >= moved { //nolint:gosec // spreads the load
		return p.old
	}
	return p
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
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout, WriteByteTimeout: writeTimeout,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connWindow},
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
