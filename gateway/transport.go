package gateway

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// Transport lets the gateway answer the requests of a vendor's SDK, whatever their host: the path says which dialect they
// speak, and the model where they go.
type Transport struct {
	pipe     *http.Transport
	basePath string
	maxBody  int64
}

func newTransport(l *listener, basePath string, maxBody int64) *Transport {
	return &Transport{basePath: basePath, maxBody: maxBody, pipe: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		MaxIdleConnsPerHost: idleConns,
		DisableCompression:  true,
	}}
}

// idleConns are the connections in memory that wait for requests.
const idleConns = 64

// RoundTrip sends a request to the gateway. It reads the body before, because some SDKs close it as soon as the response
// begins.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if err := t.readBody(out); err != nil {
		return nil, err
	}
	out.URL.Scheme, out.URL.Host, out.Host = "http", "localhost", "localhost"
	if t.basePath != "" {
		out.URL.Path = t.basePath + out.URL.Path
		if out.URL.RawPath != "" {
			out.URL.RawPath = t.basePath + out.URL.RawPath
		}
	}
	resp, err := t.pipe.RoundTrip(out)
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

// readBody replaces the body of a request by its bytes, up to one more than the gateway accepts.
func (t *Transport) readBody(r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, t.maxBody+1))
	_ = r.Body.Close() // read to its end, or to the gateway's limit
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return err
}

// CloseIdleConnections closes connections in memory that wait for requests.
func (t *Transport) CloseIdleConnections() { t.pipe.CloseIdleConnections() }

// listener accepts connections in memory.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial connects to the listener.
func (l *listener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- conn{server}:
		return client, nil
	case <-l.closed:
		return nil, http.ErrServerClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is an address of this machine that nothing listens on.
func (l *listener) Addr() net.Addr { return here() }

func here() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// conn is a connection in memory, with addresses of this machine.
type conn struct{ net.Conn }

// LocalAddr is an address of this machine.
func (conn) LocalAddr() net.Addr { return here() }

// RemoteAddr is an address of this machine.
func (conn) RemoteAddr() net.Addr { return here() }
