// Package framing serves connections on which everybody agrees where a request ends. It
// refuses request heads that net/http reads in a lenient way, so that a proxy in front of
// the gateway can take the same bytes for other requests: lines that end with a bare LF,
// continuation lines, a Content-Length beside a Transfer-Encoding, and a
// Transfer-Encoding of HTTP/1.0. docs/design/014-request-heads.md has the reasons.
package framing

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits of a connection that ends.
const (
	handshakeTime = 10 * time.Second       // of writes; the server's own deadline limits reads
	lingerTime    = 500 * time.Millisecond // for the client to read that its request was refused
	lingerBytes   = 256 << 10              // of the client that are still read meanwhile
)

// malformed makes net/http answer 400 and close the connection, wherever in a head it
// stands.
const malformed = "\x00\r\n\r\n"

// Serve serves the connections of a listener, over TLS if the server has a TLSConfig. Without TLS it
// serves HTTP/2 only if the server's Protocols have UnencryptedHTTP2.
//
// net/http asks a *tls.Conn for its plaintext itself, where nothing can check it. So the
// server gets connections that look unencrypted, and recognises HTTP/2 by its preface.
//
// While leaving is set, responses ask clients to close their connections: the process is about
// to exit, and a request on a connection that is being closed would be lost.
func Serve(s *http.Server, l net.Listener, leaving *atomic.Bool) error {
	s.Handler = &handler{s.Handler, leaving}
	s.DisableGeneralOptionsHandler = true // it would keep a connection open after a chunked request
	clear := s.TLSConfig == nil && s.Protocols != nil && s.Protocols.UnencryptedHTTP2()
	if s.TLSConfig != nil {
		l = tls.NewListener(l, s.TLSConfig.Clone())
		s.Protocols = new(http.Protocols)
		s.Protocols.SetHTTP1(true)
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	return s.Serve(&listener{l, s.ErrorLog, clear})
}

// connKey is the context key of a request's connection.
type connKey struct{}

// handler closes the connection while the process is leaving and after a chunked request,
// where conn checks no further, and sets Request.TLS.
type handler struct {
	http.Handler
	leaving *atomic.Bool
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.prepare(w, r)
	h.Handler.ServeHTTP(w, r)
}

// prepare is a separate function, and handler a pointer, to keep the stack small while a
// stream waits in ServeHTTP. The runtime halves the stack of a translated stream to 8 KiB
// only while less than 4 KiB are in use.
//
//go:noinline
func (h *handler) prepare(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 || h.leaving.Load() {
		w.Header().Set("Connection", "close")
	}
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		r.TLS = c.state
	}
}

// listener is a listener of conns.
type listener struct {
	net.Listener
	log   *log.Logger
	http2 bool // connections without TLS may use HTTP/2
}

func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, log: l.log, heads: heads{http2: l.http2}}
	c.tls, _ = accepted.(*tls.Conn)
	return c, nil
}

// conn is a connection that checks the heads of the requests that are read from it.
type conn struct {
	net.Conn
	tls     *tls.Conn            // the same connection; nil: not encrypted
	state   *tls.ConnectionState // nil before the handshake
	log     *log.Logger
	heads   heads
	refused atomic.Bool
	sent    int // bytes of malformed that were read

	corked *[corkSize]byte // nil: what is written is not kept
	kept   int             // bytes of corked
}

// Read reads what the client sent. It replaces a line that must be refused by malformed, and
// ends there.
func (c *conn) Read(p []byte) (int, error) {
	if c.refused.Load() {
		return c.readMalformed(p)
	}
	if c.tls != nil && c.state == nil && !c.handshake() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if good := c.heads.check(p[:n]); good < n {
		c.refused.Store(true)
		if good == 0 {
			return c.readMalformed(p)
		}
		return good, nil
	}
	return n, err
}

func (c *conn) readMalformed(p []byte) (int, error) {
	n := copy(p, malformed[c.sent:])
	if c.sent += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// handshake makes the TLS handshake. It reports whether there may be requests.
func (c *conn) handshake() bool {
	_ = c.SetWriteDeadline(time.Now().Add(handshakeTime)) // fails only on a closed connection
	err := c.tls.HandshakeContext(context.Background())   // Close ends it
	if err != nil {
		if other, ok := errors.AsType[tls.RecordHeaderError](err); ok && other.Conn != nil {
			_, _ = io.WriteString(other.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n") // if the client reads HTTP
		}
		c.log.Printf("http: TLS handshake error from %s: %v", c.RemoteAddr(), err)
		c.refused.Store(true)
		c.sent = len(malformed) // over a connection without TLS nothing can be answered
		return false
	}
	_ = c.SetWriteDeadline(time.Time{})
	state := c.tls.ConnectionState()
	c.state, c.heads.http2 = &state, state.NegotiatedProtocol == "h2"
	return true
}

// NetConn returns the connection that conn reads from.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends the responses. net/http calls it so that a client reads the last one.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection. The client of a refused request gets time to read the
// response: a close while bytes of it are unread would discard the response.
func (c *conn) Close() error {
	if c.refused.Load() && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime)) // a connection that failed needs no time
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}
