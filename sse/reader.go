package sse

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

const (
	defaultMaxEvent = 16 << 20
	firstBuffer     = 4 << 10

	// keepBuffer is the size up to which the Reader keeps a buffer that has grown.
	// It releases a larger one after use.
	keepBuffer = 64 << 10

	// minRead is the free space for a read when the buffer holds an event of the
	// maximum size.
	minRead = 512

	maxEmptyReads = 100
)

const byteOrderMark = "\xEF\xBB\xBF"

// Options configures a Reader. The zero value is ready to use.
type Options struct {
	// MaxEvent is the maximum size of one event in bytes, including line ends and
	// comments. It also limits the buffer; a second buffer joins data of several
	// lines. 0 means 16 MiB.
	MaxEvent int

	// Buffer is the initial buffer, of which the Reader uses the whole capacity.
	// The Reader allocates a larger one for events that do not fit. The caller may
	// reuse Buffer after the last use of the Reader. nil means that the Reader
	// allocates 4 KiB.
	Buffer []byte
}

// TooLongError is the error for an event longer than Options.MaxEvent.
type TooLongError struct {
	Limit int // the maximum size in bytes
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("sse: event is longer than the limit of %d bytes; raise the limit to read it", e.Limit)
}

// Reader reads an event stream. It starts no goroutine and reads only during calls of
// Batch and Next. It is not safe for concurrent use.
type Reader struct {
	src  io.Reader
	max  int
	home []byte // the initial buffer, used again after a very large event
	err  error  // the error of all further reads

	empty int // reads without bytes or an error, one after the other

	buf     []byte
	done    int  // buf[:done] has been returned, the rest is an incomplete event
	line    int  // start of the first line without a line end
	seen    int  // buf[line:seen] contains no line end
	open    bool // the event at done has a field
	skipLF  bool // the last line end was a CR at the end of buf
	started bool // the byte order mark, if any, has been read
	mark    int  // length of the byte order mark while it is in buf

	joined []byte
	events parser // the events of the last batch that Next has not returned yet
}

// NewReader returns a Reader that reads from r.
func NewReader(r io.Reader, o Options) *Reader {
	limit := o.MaxEvent
	if limit <= 0 {
		limit = defaultMaxEvent
	}
	return &Reader{
		src:  r,
		max:  min(limit, math.MaxInt-minRead),
		home: o.Buffer[:0],
		buf:  o.Buffer[:0],
	}
}

// Batch reads until there is at least one complete event or comment, and returns all
// complete ones. The error is io.EOF at the end of the stream, a *TooLongError,
// io.ErrNoProgress or the error of the underlying Read. Batch returns the complete
// events before the error, and then the same error on every call. Last and Rest
// return the incomplete event.
func (r *Reader) Batch() (Batch, error) {
	left := r.events.rest()
	r.events = parser{}
	if len(left) > 0 {
		r.mark = 0 // it preceded the events that Next has returned
		return Batch{Raw: left, from: r}, nil
	}
	r.discard()
	for r.done == 0 {
		if r.err != nil {
			return Batch{}, r.err
		}
		r.grow()
		r.take(r.src.Read(r.buf[len(r.buf):cap(r.buf)]))
	}
	return Batch{Raw: r.buf[:r.done:r.done], from: r}, nil
}

// Next returns the next event. Its errors are those of Batch.
func (r *Reader) Next() (e Event, err error) {
	for !r.events.next(&e) {
		var b Batch
		if b, err = r.Batch(); err != nil {
			return Event{}, err
		}
		r.events = b.parser()
	}
	return e, nil
}

// Last returns the event at the end of the stream that has no blank line after it,
// and reports whether there is one with data. The caller must check whether the data
// is complete, because some servers omit the last blank line and others fail in the
// middle of a line. Last reports false if the stream ended with an error other than
// io.EOF. The event's Start and End are positions in Rest.
func (r *Reader) Last() (Event, bool) {
	if r.err != io.EOF { //nolint:errorlint // a wrapped io.EOF is a failure, not the stream's end
		return Event{}, false
	}
	start := 0
	if r.done == 0 {
		start = r.mark
	}
	p := r.parser(r.Rest(), start)
	var e Event
	if !p.next(&e) || !e.HasData {
		return Event{}, false
	}
	return e, true
}

// Rest returns the bytes that were read but not returned by Batch, which belong to an
// incomplete event. Call it after an error. If the body is not an event stream, such
// as a JSON error without a final line end, Rest contains it.
func (r *Reader) Rest() []byte {
	return r.buf[r.done:]
}

// Use replaces the buffer with b, so that an idle stream can use a smaller buffer than
// a busy one. It invalidates the last batch and moves an incomplete event to b. It
// returns false and changes nothing if b has no free space after that event, or if
// Next has not returned all events of the last batch.
func (r *Reader) Use(b []byte) bool {
	if len(r.Rest()) >= cap(b) || len(r.events.rest()) > 0 {
		return false
	}
	r.home = b[:0]
	r.move(r.home)
	return true
}

func (r *Reader) parser(raw []byte, start int) parser {
	return parser{lines: lines{buf: raw, lf: -1}, pos: start, joined: &r.joined}
}

// discard removes the bytes of the last batch from the buffer.
func (r *Reader) discard() {
	r.joined = r.joined[:0]
	if cap(r.joined) > keepBuffer {
		r.joined = nil
	}
	if r.done == 0 {
		return
	}
	to := r.buf[:0]
	if cap(to) > max(keepBuffer, cap(r.home)) && len(r.Rest()) < cap(r.home) {
		to = r.home
	}
	r.move(to)
}

// move moves the incomplete event to another buffer.
func (r *Reader) move(to []byte) {
	if r.done > 0 {
		r.mark = 0
	}
	held := r.Rest()
	r.buf = to[:copy(to[:len(held)], held)]
	r.line -= r.done
	r.seen -= r.done
	r.done = 0
}

// take adds n bytes that were read into the free part of the buffer, and looks for events.
func (r *Reader) take(n int, err error) {
	r.buf, r.err = r.buf[:len(r.buf)+n], err
	if n > 0 {
		r.empty = 0
		r.scan()
		return
	}
	if r.empty++; r.empty == maxEmptyReads && err == nil {
		r.err = io.ErrNoProgress
	}
}

// grow enlarges the buffer if it is full.
func (r *Reader) grow() {
	if len(r.buf) < cap(r.buf) {
		return
	}
	size := max(2*cap(r.buf), firstBuffer)
	if size >= r.max {
		size = r.max + minRead
	}
	r.buf = append(make([]byte, 0, size), r.buf...)
	if cap(r.home) == 0 {
		r.home = r.buf[:0]
	}
}

// scan looks for line ends in the new bytes and advances done past complete events.
func (r *Reader) scan() {
	if !r.skipMark() {
		return
	}
	if len(r.buf) <= r.max && bytes.HasSuffix(r.buf, []byte("\n\n")) {
		// The common case of complete events in each read: the second LF always
		// ends a blank line.
		r.done, r.line, r.seen = len(r.buf), len(r.buf), len(r.buf)
		r.open, r.skipLF = false, false
		return
	}
	if r.skipLF {
		r.skipLF = false
		if r.buf[r.line] == '\n' {
			r.line++
			if !r.open {
				r.done = r.line
			}
		}
	}
	l := lines{buf: r.buf, lf: -1}
	from := max(r.line, r.seen)
	for from < len(r.buf) {
		end, next := l.after(from)
		if end == len(r.buf) {
			break
		}
		if !r.endLine(end, next) {
			return
		}
		from = next
	}
	r.seen = len(r.buf)
	if len(r.buf)-r.done > r.max {
		r.err = &TooLongError{Limit: r.max}
	}
}

// skipMark skips the byte order mark. It returns false if more bytes are needed to
// recognize one.
func (r *Reader) skipMark() bool {
	if r.started {
		return true
	}
	if len(r.buf) < len(byteOrderMark) && bytes.HasPrefix([]byte(byteOrderMark), r.buf) {
		return false
	}
	r.started = true
	if bytes.HasPrefix(r.buf, []byte(byteOrderMark)) {
		r.mark = len(byteOrderMark)
		r.line = r.mark
	}
	return true
}

// endLine processes the line from r.line to end. It returns false if the line
// completes an event that is too long.
func (r *Reader) endLine(end, next int) bool {
	if end == r.line {
		r.open = false
	} else if r.buf[r.line] != ':' {
		r.open = true
	}
	r.line = next
	r.skipLF = next == len(r.buf) && r.buf[next-1] == '\r'
	if r.open {
		return true
	}
	// The LF of a CRLF does not count, because it may not have been read yet and
	// the result must not depend on that.
	if end+1-r.done > r.max {
		r.err = &TooLongError{Limit: r.max}
		return false
	}
	r.done = next
	return true
}
