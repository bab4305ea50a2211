package relay

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxResponseHeader bounds what an upstream can make us hold before its answer.
const maxResponseHeader = 256 << 10

// What each connection keeps for as long as it is open. Only a request's head goes
// through the first: net/http sends it before the body, which has a buffer of its
// own. Most of what a stream brings does not need the usual 4 KiB.
const (
	writeBuffer = 1 << 10
	readBuffer  = 2 << 10
)

// transports holds upstream connections. There is one pool for each connect
// timeout, because that is all that a pool knows of a provider; it outlives a
// change of configuration, and so do the connections in it.
type transports struct {
	mu     sync.Mutex
	by     map[time.Duration]*http.Transport
	divert string // the one address that is called instead of all others; empty: none
}

// Divert makes every call to a provider go to one address, before anything is served:
// whatever the provider's name is, it is not reached.
func (r *Relay) Divert(address string) { r.transports.divert = address }

func newTransports() *transports {
	return &transports{by: map[time.Duration]*http.Transport{}}
}

func (t *transports) get(connect time.Duration) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	tr, ok := t.by[connect]
	if !ok {
		tr = newTransport(connect)
		if address := t.divert; address != "" {
			tr.Proxy = nil
			tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}
		}
		t.by[connect] = tr
	}
	return tr
}

func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.by {
		tr.CloseIdleConnections()
	}
}

func newTransport(connect time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer(connect),
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the client's bytes are the upstream's bytes
		MaxIdleConns:           4096,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		WriteBufferSize:        writeBuffer,
		ReadBufferSize:         readBuffer,
	}
}
