package exchange

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/edge/framing"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Limits of writing to a client. A client that takes longer than writeTimeout for each timedBytes
// of a piece counts as disconnected. Large writes are split. A slow reader of a large event makes
// progress with each piece, and a client that reads nothing is disconnected after the time of one
// piece. Smaller pieces would cost a system call each.
const (
	writeTimeout   = 20 * time.Second
	timedBytes     = 8 << 10 // writeTimeout is the time for these
	writePiece     = 16 << 10
	deadlineSlack  = time.Second // maximum age of a write deadline
	corkedFrom     = 2 << 10     // smaller parts of a stream take one system call anyway
	discardTimeout = 5 * time.Second
)

// ClientWriter is the only owner of a request's http.ResponseWriter. The request's
// goroutine and the keep-alive timer share it, so every method takes its lock.
type ClientWriter struct {
	mu sync.Mutex
	w  http.ResponseWriter
	rc http.ResponseController

	cork     framing.Cork
	started  bool // the status line is written
	content  bool // a part of the response body is written, other than keep-alives
	written  int64
	deadline time.Time   // when the write deadline was last set
	split    bool        // several pieces were written since the last flush
	copies   []io.Writer // also receive the bytes, in the dialect's form; they never fail
	form     *form       // changes the response; nil: it does not change

	reading sync.Mutex // a transport may read the body in its own goroutine
	open    bool       // the end of the body has not been read
	unread  bool       // the rest of the body is not wanted
	inRead  sync.Mutex // held by a Read of the body

	timer   *time.Timer // sends keep-alives; nil: none
	last    time.Time   // of the last event
	stopped bool        // no further keep-alives
}

// NewClientWriter returns a writer of the response to one request.
func NewClientWriter(w http.ResponseWriter) *ClientWriter {
	return &ClientWriter{w: w, rc: *http.NewResponseController(w)}
}

// SetCork sets the connection of HTTP/1 to which large parts of a stream are written at once.
func (c *ClientWriter) SetCork(k framing.Cork) { c.cork = k }

// SetHeader sets a response header, or a trailer once the response has started.
func (c *ClientWriter) SetHeader(name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w.Header()[name] = []string{value}
}

// CloseUnread closes the client's connection after the response: net/http would read the rest of the request's body before
// it sends the response. A connection of HTTP/2 stays open, because other requests share it.
func (c *ClientWriter) CloseUnread(r *http.Request) {
	if r.ProtoMajor == 1 {
		c.SetHeader("Connection", "close")
	}
}

// Header returns the response headers. Call it after StopKeepAlive.
func (c *ClientWriter) Header() http.Header { return c.w.Header() }

// Copy makes w receive a copy of everything that is written from now on.
func (c *ClientWriter) Copy(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copies = append(c.copies, w)
}

// Started reports whether the status line is written, by a response or by a
// keep-alive.
func (c *ClientWriter) Started() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started
}

// HasContent reports whether a part of a response body is written.
func (c *ClientWriter) HasContent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.content
}

// Written returns the number of bytes written to the body.
func (c *ClientWriter) Written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// Start writes the status line, unless it is written already. It calls header first, to
// set the response headers.
func (c *ClientWriter) Start(status int, header func(http.Header)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.start(status, header)
}

func (c *ClientWriter) start(status int, header func(http.Header)) {
	if c.started {
		return
	}
	h := c.w.Header()
	header(h)
	c.started = true
	if c.form == nil {
		c.w.WriteHeader(status)
		return
	}
	media := h["Content-Type"]
	c.form.start(status, h)
	c.w.WriteHeader(status)
	h["Content-Type"] = media // a stored response has the dialect's form
}

// Write writes a part of the body. It blocks while the client does not read, which
// is how back-pressure reaches the upstream.
func (c *ClientWriter) Write(p []byte, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.content = true
	return c.write(p, now)
}

// WriteEvents starts a stream if necessary, writes whole events and flushes them.
func (c *ClientWriter) WriteEvents(p []byte, now time.Time, lane headers) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) > corkedFrom {
		c.cork.Push()
		defer func() { err = cmp.Or(err, c.cork.Pull()) }()
	}
	if !c.started {
		c.start(http.StatusOK, lane.SetStreamHeaders)
	}
	c.content = true
	c.last = now
	if err := c.write(p, now); err != nil {
		return err
	}
	return c.flush()
}

// WriteCopies writes a part of the body to the copies only, after the client has disconnected.
func (c *ClientWriter) WriteCopies(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.copies {
		_, _ = w.Write(p) // copies never fail
	}
}

// Flush sends buffered bytes.
func (c *ClientWriter) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flush()
}

func (c *ClientWriter) write(p []byte, now time.Time) error {
	copies := c.copies
	if c.form != nil {
		for _, w := range copies {
			_, _ = w.Write(p) // copies never fail
		}
		converted, err := c.form.convert(p)
		if err != nil {
			return err
		}
		copies, p = nil, converted
	}
	for {
		piece := p[:min(len(p), writePiece)]
		c.extendDeadline(now, len(piece))
		n, err := c.w.Write(piece)
		c.written += int64(n)
		for _, w := range copies {
			_, _ = w.Write(p[:n]) // copies never fail
		}
		if err != nil || n == len(p) {
			for _, w := range copies { // the rest, for a response that is stored
				_, _ = w.Write(p[n:])
			}
			return err
		}
		p, now, c.split = p[n:], time.Now(), true
	}
}

// extendDeadline sets the deadline of a write of some bytes.
func (c *ClientWriter) extendDeadline(now time.Time, size int) {
	if more := (size - 1) / timedBytes; more > 0 || now.Sub(c.deadline) > deadlineSlack {
		c.deadline = now
		_ = c.rc.SetWriteDeadline(now.Add(writeTimeout * time.Duration(1+more)))
	}
}

func (c *ClientWriter) flush() error {
	if c.split { // writing the pieces may have taken long
		c.split = false
		c.extendDeadline(time.Now(), 0)
	}
	return c.rc.Flush()
}

// KeepAlive sends a comment line whenever nothing else was written for interval. The first one
// starts the response with the given headers. The comment is one line: some clients parse a blank
// line after it as an event without data. After a part of the stream it sends ping instead, unless
// that is nil.
func (c *ClientWriter) KeepAlive(interval time.Duration, ping []byte, header http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil || c.stopped {
		return
	}
	c.last = time.Now()
	c.timer = time.AfterFunc(interval, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stopped {
			return
		}
		now := time.Now()
		wait := interval - now.Sub(c.last)
		if wait <= 0 {
			wait = interval
			c.start(http.StatusOK, func(h http.Header) { maps.Copy(h, header) })
			event := ping
			if ping == nil || !c.content {
				event = sse.AppendComment(nil, "keep-alive")
			}
			if c.write(event, now) != nil || c.flush() != nil {
				return
			}
		}
		c.timer.Reset(wait)
	})
}

// StopKeepAlive ends the keep-alives and reports whether the response has started.
// From then on only the request's goroutine uses the writer.
func (c *ClientWriter) StopKeepAlive() (started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.started
}

// KeepsAlive reports whether KeepAlive was called.
func (c *ClientWriter) KeepsAlive() bool { return c.timer != nil }

// Close stops the keep-alives. It renews the write deadline, because the server still
// writes buffered bytes.
func (c *ClientWriter) Close() {
	c.StopKeepAlive()
	c.extendDeadline(time.Now(), 0)
}
