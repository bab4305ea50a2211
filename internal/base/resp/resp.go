// Package resp bounds what a Redis may send. The client library allocates what a reply
// announces, recurses into nested replies, and panics in its own goroutine on a negative
// length, on a push and on a reply that nothing asked for. Any of these would end the
// process. Here such a reply ends its connection.
package resp

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Limits of one reply.
const (
	MaxReply    = 4 << 20 // bytes
	maxElements = 1 << 16 // of all its arrays and maps
	maxDepth    = 8       // of nested arrays and maps
	maxLine     = 16 << 10
)

// Guard makes a client's connections check the replies of the server.
func Guard(o *rueidis.ClientOption) {
	own, older := o.DialCtxFn, o.DialFn
	o.DialCtxFn = func(ctx context.Context, to string, d *net.Dialer, config *tls.Config) (c net.Conn, err error) {
		switch {
		case own != nil:
			c, err = own(ctx, to, d, config)
		case older != nil:
			c, err = older(to, d, config)
		case config != nil:
			c, err = (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", to)
		default:
			c, err = d.DialContext(ctx, "tcp", to)
		}
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, in: scanner{max: MaxReply}, out: scanner{}}, nil
	}
}

// conn is a connection that fails when the server breaks a rule.
type conn struct {
	net.Conn
	in, out scanner
	waiting atomic.Int64 // commands without a reply
}

var errUnasked = errors.New("redis sent a reply to no command")

// Read checks what it reads.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bad := c.in.scan(p[:n], c.replied); bad != nil {
		_ = c.Close() // the reason is returned
		return 0, bad
	}
	return n, err
}

func (c *conn) replied() error {
	if c.waiting.Add(-1) < 0 {
		return errUnasked
	}
	return nil
}

// Write counts the commands before they are sent: their replies may be read at once.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.out.scan(p, func() error { c.waiting.Add(1); return nil }); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// scanner follows a stream of messages. It must frame them exactly as the client library
// does, and so rejects what the library would read in its own way.
type scanner struct {
	max      int    // bytes of a message; 0: no limit
	size     int    // bytes of the current message
	elements int    // of the current message
	open     []int  // elements that each open array or map lacks
	line     []byte // the beginning of a line
	skip     int    // bytes that are left of a string and its line end
}

var (
	errForm  = errors.New("redis sent what is not a reply")
	errLarge = errors.New("redis sent a reply that is too large")
)

// scan reads bytes and calls done after each message.
func (s *scanner) scan(p []byte, done func() error) error {
	for len(p) > 0 {
		var part []byte
		if s.skip > 0 {
			part = p[:min(s.skip, len(p))]
			s.skip -= len(part)
		} else {
			part = p[:lineEnd(p)]
			s.line = append(s.line, part...)
		}
		p = p[len(part):]
		s.size += len(part)
		switch {
		case len(s.line) > maxLine || s.max > 0 && s.size > s.max:
			return errLarge
		case s.skip > 0 || len(s.line) > 0 && s.line[len(s.line)-1] != '\n':
			continue
		}
		if len(s.line) > 0 {
			complete, err := s.header(s.line)
			s.line = s.line[:0]
			if err != nil {
				return err
			}
			if !complete {
				continue
			}
		}
		if err := s.value(done); err != nil {
			return err
		}
	}
	return nil
}

// lineEnd returns the length of a text up to the end of its first line.
func lineEnd(p []byte) int {
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		return i + 1
	}
	return len(p)
}

// header reads the first line of a value and reports whether it is the whole value.
func (s *scanner) header(line []byte) (complete bool, err error) {
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return false, errForm
	}
	text := string(line[1 : len(line)-2])
	switch line[0] {
	case '+', '-', ',', '(':
		return true, nil
	case '_':
		return text == "", formed(text == "")
	case '#':
		return true, formed(text == "t" || text == "f")
	case ':':
		_, err := strconv.ParseInt(text, 10, 64)
		return true, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if text == "-1" && line[0] != '%' {
		return true, formed(line[0] == '$' || line[0] == '*')
	}
	if err != nil {
		return false, errForm
	}
	switch line[0] {
	case '$', '!', '=':
		s.skip = int(n) + 2
		if s.max > 0 && s.size+s.skip > s.max {
			return false, errLarge
		}
		return false, nil
	case '%':
		n *= 2
	case '*', '~':
	default:
		return false, errForm // a push, an attribute, a stream, or none of the protocol
	}
	s.elements += int(n)
	if s.max > 0 && (s.elements > maxElements || len(s.open) >= maxDepth) {
		return false, errLarge
	}
	if n > 0 {
		s.open = append(s.open, int(n))
	}
	return n == 0, nil
}

func formed(ok bool) error {
	if ok {
		return nil
	}
	return errForm
}

// value ends a value, and with it the arrays and maps of which it is the last.
func (s *scanner) value(done func() error) error {
	for last := len(s.open) - 1; last >= 0; last-- {
		if s.open[last]--; s.open[last] > 0 {
			return nil
		}
		s.open = s.open[:last]
	}
	s.size, s.elements = 0, 0
	return done()
}
