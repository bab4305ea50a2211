package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// conn is one client connection with its own HTTP/1.1 client: http.Client would use as
// much CPU as the measured process, on the same two cores. With HTTP/2 it is the streams of one client
// on a connection that it shares, by net/http.
type conn struct {
	job    *job
	shared *http.Transport // nil with HTTP/1.1
	dialed net.Conn
	in     *bufio.Reader
	head   []byte
	body   []byte
	digits []byte // the part of the body that tells the models of a table apart
}

// exchanged is the result of one exchange.
type exchanged struct {
	events int
	first  time.Time // the first event with text
}

// anyKey is a key that nobody checks.
const anyKey = "sk-bench"

func newConn(j *job) *conn {
	c := &conn{job: j, body: bytes.Clone(j.Body), in: bufio.NewReaderSize(nil, 4096)}
	c.head = fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n",
		j.Path, j.Addr, cmp.Or(j.Key, anyKey), j.Head, len(j.Body))
	if j.Models > 0 {
		name := tableModel(0)
		if i := bytes.Index(c.body, []byte(name)); i >= 0 {
			c.digits = c.body[i+len(name)-6 : i+len(name)]
		}
	}
	return c
}

// send sends a request. In a large table, the n-th request has its own model.
func (c *conn) send(ctx context.Context, n int) error {
	if c.dialed == nil {
		d, err := c.dial(ctx)
		if err != nil {
			return err
		}
		c.dialed = d
		c.in.Reset(d)
	}
	c.name(n)
	out := net.Buffers{c.head, c.body}
	_, err := out.WriteTo(c.dialed)
	return err
}

func (c *conn) dial(ctx context.Context) (net.Conn, error) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if c.job.HTTP == h1s {
		return (&tls.Dialer{NetDialer: d, Config: trusting()}).DialContext(ctx, "tcp", c.job.Addr)
	}
	return d.DialContext(ctx, "tcp", c.job.Addr)
}

// name writes the model of the n-th request into the body, in a large table.
func (c *conn) name(n int) {
	if c.digits != nil {
		// A stride that shares no factor with the number of models visits all of them.
		copy(c.digits, fmt.Sprintf("%06d", n*7919%c.job.Models))
	}
}

// open sends the n-th request and returns its response when the headers are there.
func (c *conn) open(ctx context.Context, n int) (*http.Response, error) {
	if c.shared != nil {
		return c.openShared(ctx, n)
	}
	if err := c.send(ctx, n); err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		_ = c.dialed.SetReadDeadline(end)
	}
	return checked(http.ReadResponse(c.in, nil))
}

func (c *conn) openShared(ctx context.Context, n int) (*http.Response, error) {
	c.name(n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+c.job.Addr+c.job.Path, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+cmp.Or(c.job.Key, anyKey))
	if name, value, ok := strings.Cut(strings.TrimSpace(c.job.Head), ": "); ok {
		req.Header.Set(name, value)
	}
	return checked(c.shared.RoundTrip(req))
}

// checked returns the error of a response that has another status than 200.
func checked(resp *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		resp.Body.Close()
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, said)
	}
	return resp, nil
}

// exchange sends a request and reads the response to its end.
func (c *conn) exchange(ctx context.Context, n int) (x exchanged, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	resp, err := c.open(ctx, n)
	if err != nil {
		return x, err
	}
	defer resp.Body.Close()
	switch {
	case c.job.Stream && c.job.Binary:
		x, err = c.readBinary(resp.Body)
	case c.job.Stream:
		x, err = c.readEvents(resp.Body)
	default:
		err = c.readWhole(resp.Body)
	}
	if resp.Close {
		c.close()
	}
	return x, err
}

func (c *conn) readWhole(body io.Reader) error {
	n, err := io.Copy(io.Discard, body)
	switch {
	case err != nil:
		return fmt.Errorf("the answer was cut: %w", err)
	case n < int64(c.job.Bytes):
		return fmt.Errorf("the answer has %d bytes, and %d were due", n, c.job.Bytes)
	}
	return nil
}

// readEvents reads a stream and checks that it is complete.
func (c *conn) readEvents(body io.Reader) (x exchanged, err error) {
	lines := bufio.NewReaderSize(body, 4096)
	ended := false
	for {
		line, err := lines.ReadSlice('\n')
		if bytes.HasPrefix(line, []byte("data:")) {
			x.events++
		}
		if x.first.IsZero() && bytes.Contains(line, []byte(word)) {
			x.first = time.Now()
		}
		ended = ended || bytes.HasPrefix(line, []byte(c.job.End))
		switch {
		case err == nil || errors.Is(err, bufio.ErrBufferFull):
			continue
		case !errors.Is(err, io.EOF):
			return x, fmt.Errorf("the stream was cut after %d events: %w", x.events, err)
		case !ended || x.events < c.job.Events:
			return x, fmt.Errorf("the stream ended after %d events, and %d and %q were due", x.events, c.job.Events, c.job.End)
		}
		return x, nil
	}
}

// readBinary reads a stream whose events are not lines, and counts those with text.
func (c *conn) readBinary(body io.Reader) (x exchanged, err error) {
	all, err := io.ReadAll(body)
	x.events = bytes.Count(all, []byte(word))
	if err == nil && x.events < c.job.Events {
		err = fmt.Errorf("the stream ended after %d events, and %d were due", x.events, c.job.Events)
	}
	return x, err
}

func (c *conn) close() {
	if c.dialed != nil {
		_ = c.dialed.Close()
		c.dialed = nil
	}
}
