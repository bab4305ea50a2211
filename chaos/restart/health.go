package restart

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// health is a connection to one process, on which it is asked how it is. A new
// connection would come out at whichever process accepts it.
type health struct {
	conn net.Conn
	r    *bufio.Reader
}

func dialHealth(ctx context.Context, url string) (*health, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	h := &health{c, bufio.NewReader(c)}
	if status, err := h.status(); err != nil || status != http.StatusOK {
		h.close()
		return nil, errors.Join(errors.New("the gateway is not healthy"), err)
	}
	return h, nil
}

func (h *health) close() { _ = h.conn.Close() }

func (h *health) status() (int, error) {
	_ = h.conn.SetDeadline(time.Now().Add(patience)) // if not, the next call tells
	if _, err := io.WriteString(h.conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(h.r, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// draining reports whether the process says that it leaves.
func (h *health) draining() bool {
	status, err := h.status()
	return err == nil && status == http.StatusServiceUnavailable
}
