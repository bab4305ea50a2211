package upstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
)

// hosts has the HTTP/2 connections of a pool. It opens one connection to a host at a time and fills it:
// net/http opens a connection for each request that finds none with room. In a burst it opens hundreds.
type hosts struct {
	transport *http.Transport
	scheme    string // of URLs whose hosts may speak HTTP/2; empty: none does
	logger    *slog.Logger

	mu   sync.Mutex
	list map[hostKey]*host
}

// hostKey names a host. Providers do not share connections: each has a credential of its own.
type hostKey struct{ provider, address string }

// host is a server that speaks HTTP/2, or may.
type host struct {
	plain bool // it speaks HTTP/1.1, so net/http has its connections
	conns []*http.ClientConn
	dial  *dial // nil: none runs
}

// dial is an attempt to connect, for which requests wait.
type dial struct {
	done chan struct{} // closed at its end
	err  error         // set before
}

const (
	// streamWindow is how many bytes of a response the upstream may send before the gateway reads
	// them: 5 MB/s at 100 ms to and fro.
	streamWindow = 512 << 10
	// maxStreams limits the open requests of a connection. The upstream may announce less.
	maxStreams = 250
	// connWindow has room for all streams of a connection, so that unread ones do not hold up others.
	connWindow = maxStreams * streamWindow
)

// errDialPanicked is the error of a dial that has panicked.
var errDialPanicked = errors.New("the connection failed")

// reserve returns a connection with room for a request, which it reserves. It returns nil if the host speaks
// HTTP/1.1. A request that a connection has refused takes another one.
func (m *hosts) reserve(ctx context.Context, key hostKey, refused *http.ClientConn) (*http.ClientConn, error) {
	for {
		c, d := m.reserveOpen(ctx, key, refused)
		if d == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		}
	}
}

// reserveOpen is reserve without waiting. It returns the dial to wait for if no connection has room.
func (m *hosts) reserveOpen(ctx context.Context, key hostKey, refused *http.ClientConn) (*http.ClientConn, *dial) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.list[key]
	if h == nil {
		h = &host{}
		m.list[key] = h
	}
	if h.plain {
		return nil, nil
	}
	h.conns = slices.DeleteFunc(h.conns, unusable)
	for _, c := range h.conns {
		if c != refused && c.InFlight() < maxStreams && c.Reserve() == nil {
			return c, nil
		}
	}
	if h.dial == nil {
		h.dial = &dial{done: make(chan struct{})}
		// The connection is for all that wait, so it outlives the request that needs it first.
		ctx = context.WithoutCancel(ctx)
		go func() { crash.Do(m.logger, func() { m.connect(ctx, key.address, h) }) }()
	}
	return nil, h.dial
}

// unusable reports whether a connection is closed, or takes no more requests and has none. It closes the latter.
func unusable(c *http.ClientConn) bool {
	if c.Err() == nil && (c.Available() > 0 || c.InFlight() > 0) {
		return false
	}
	_ = c.Close()
	return true
}

// connect opens a connection to a host for all requests that wait for its dial, and ends the dial.
func (m *hosts) connect(ctx context.Context, address string, h *host) {
	c, err := (*http.ClientConn)(nil), errDialPanicked
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err != nil:
		case c.Available() <= 1: // HTTP/1.1
			h.plain = true
			_ = c.Close()
		default:
			h.conns = append(h.conns, c)
		}
		h.dial.err = err
		close(h.dial.done)
		h.dial = nil
	}()
	c, err = m.transport.NewClientConn(ctx, m.scheme, address)
}

// noteProtocol notes that a host speaks HTTP/2 now, which it did not before.
func (m *hosts) noteProtocol(key hostKey, resp *http.Response) {
	if resp.ProtoMajor == 2 {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.list[key].plain = false
	}
}

// closeIdle closes the connections without requests.
func (m *hosts) closeIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.list {
		h.conns = slices.DeleteFunc(h.conns, func(c *http.ClientConn) bool {
			idle := c.InFlight() == 0
			if idle {
				_ = c.Close()
			}
			return idle
		})
	}
}

// maxResends limits how often a request is sent again that the upstream has certainly not processed.
const maxResends = 5

// roundTrip sends a request of a provider.
func (p *pool) roundTrip(req *http.Request, provider string) (*http.Response, error) {
	if req.URL.Scheme != p.hosts.scheme {
		return p.RoundTrip(req)
	}
	key := hostKey{provider, addressOf(req)}
	var refused *http.ClientConn
	for sent := 0; ; sent++ {
		c, err := p.hosts.reserve(req.Context(), key, refused)
		if err != nil {
			return nil, err
		}
		if c == nil {
			resp, err := p.RoundTrip(req)
			if err == nil {
				p.hosts.noteProtocol(key, resp)
			}
			return resp, err
		}
		resp, err := c.RoundTrip(req)
		if err == nil || sent == maxResends || !unprocessed(err) || !rewind(req) {
			return resp, err
		}
		refused = c
	}
}

// addressOf returns the host and port of a request.
func addressOf(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}

// streamError has the fields of net/http's error of a stream, which errors.As therefore copies into it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream error" }

// refusedStream is the code REFUSED_STREAM of RFC 9113.
const refusedStream = 7

// unprocessed reports whether an upstream has certainly not processed a request: it was never written, its stream
// was refused, or it is beyond the last one that a GOAWAY frame names. net/http has no names for two of the errors.
func unprocessed(err error) bool {
	var stream streamError
	if errors.As(err, &stream) {
		return stream.Code == refusedStream
	}
	switch err.Error() {
	case "http2: client conn not usable", "http2: Transport received Server's graceful shutdown GOAWAY":
		return true
	}
	return false
}
