package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// upstreamConn leaves it to reading to tell that the peer has gone. Upstreams close
// idle connections whenever they like, and net/http sends a request again where
// reading finds that out, but not where the second part of a request cannot be
// written any more. A refusal that the peer sent before it went is read, too.
type upstreamConn struct{ *net.TCPConn }

func (c *upstreamConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return len(p), nil
	}
	return n, err
}

// ReadFrom copies by way of Write. It is how a request's body is sent, and the
// buffer is not left to io.Copy, which makes one for each.
func (c *upstreamConn) ReadFrom(r io.Reader) (int64, error) {
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, buf[:])
}

// dialer opens connections to upstreams.
func dialer(connect time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: connect, KeepAlive: 30 * time.Second}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			return &upstreamConn{tcp}, nil
		}
		return c, nil
	}
}
