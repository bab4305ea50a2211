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

	// A buffer that grew beyond keepBuffer is given up after use. Below it a
	// stream of middling events would only grow it again each time.
	keepBuffer = 64 << 10

	// minRead is the room for a read when the longest block is held.
	minRead = 512

	maxEmptyReads = 100
)

const byteOrderMark = "\xEF\xBB\xBF"

// Options configure a Reader. The zero value is ready to use.
type Options struct {
	// MaxEvent bounds the bytes of one block, line ends and comments included,
	// and so the buffer. Data of several lines is held a second time, joined.
	// 0 means 16 MiB.
	MaxEvent int

	// Buffer is read into, up to its capacity, as long as the blocks fit. It
	// stays the caller's, who may use it again when done with the Reader. nil
	// means 4 KiB of the Reader's own.
	Buffer []byte
}

// TooLongError is returned for a block longer than Options.MaxEvent.
type TooLongError struct {
	Limit int // the bytes that were allowed
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("sse: event is longer than the limit of %d bytes; raise the limit to read it", e.Limit)
}

// Reader reads an event stream. It starts no goroutine and reads only when
// asked. It must not be used by several goroutines at once.
type Reader struct {
	src  io.Reader
	max  int
	home []byte // the buffer to return to after a huge event
	err  error  // why reading ended; it stays

	buf    []byte
	done   int  // buf[:done] is released, the rest waits for its block's end
	line   int  // where the first line without an end begins
	seen   int  // from line to here there is no line end
	open   bool // the block at done has a field
	skipLF bool // the last line end was a CR at the end of buf
	begun  bool // the byte order mark was looked for
	mark   int  // its length, while it is in buf

	joined []byte
	events parser // what Next has left of its batch
}

// NewReader returns a Reader of r.
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

// Batch reads until something is complete and returns all that is. The error is
// io.EOF at the end of the stream, a *TooLongError, io.ErrNoProgress or what the
// underlying Read returned, and it stays. Blocks that were complete before it
// are returned first; what was not is left for Last and Rest.
func (r *Reader) Batch() (Batch, error) {
	left := r.events.rest()
	r.events = parser{}
	if len(left) > 0 {
		r.mark = 0 // it was before the events that Next returned
		return Batch{Raw: left, from: r}, nil
	}
	r.discard()
	for r.done == 0 {
		if r.err != nil {
			return Batch{}, r.err
		}
		if r.read() > 0 {
			r.scan()
		}
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

// Last returns the block that the stream's end cut off, read as if a blank line
// followed, and whether there is one with data. It is for the caller to decide
// whether that data is whole: some servers leave out the last blank line, others
// die in the middle of a line. After any other error than io.EOF there is
// nothing to decide, and Last returns false. Start and End refer to Rest.
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

// Rest returns the bytes that were read and not returned by Batch, which are
// those of an unfinished block. It is meant to be called after an error; a body
// that is no event stream, such as a bare JSON error, may be found in it.
func (r *Reader) Rest() []byte {
	return r.buf[r.done:]
}

// Use makes b the buffer in place of Options.Buffer, so that a stream which waits
// need not keep the large buffer that a busy one wants. Call it when done with the
// last batch: its bytes are given up, and an unfinished block is moved to b. It
// returns false and changes nothing where b has no room beyond that block, or
// while Next has events left.
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

// discard gives up the bytes that were released and what was made of them.
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

// move takes the bytes that were not released to another buffer.
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

// read appends the bytes of one Read that brings some and returns their number,
// which is 0 only with r.err set.
func (r *Reader) read() int {
	r.grow()
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		r.err = err
		if n > 0 || err != nil {
			return n
		}
	}
	r.err = io.ErrNoProgress
	return 0
}

// grow makes room for a read.
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

// scan looks for line ends in the bytes not seen yet and moves done.
func (r *Reader) scan() {
	if !r.begin() {
		return
	}
	if len(r.buf) <= r.max && bytes.HasSuffix(r.buf, []byte("\n\n")) {
		// The common case of whole events in each read: whatever came before,
		// the second LF ends a blank line.
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

// begin passes over the byte order mark. It returns false while what there is
// may become one.
func (r *Reader) begin() bool {
	if r.begun {
		return true
	}
	if len(r.buf) < len(byteOrderMark) && bytes.HasPrefix([]byte(byteOrderMark), r.buf) {
		return false
	}
	r.begun = true
	if bytes.HasPrefix(r.buf, []byte(byteOrderMark)) {
		r.mark = len(byteOrderMark)
		r.line = r.mark
	}
	return true
}

// endLine takes the line from r.line to end into account. It returns false if
// that completes a block which is too long.
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
	// Counted without the LF of a CRLF, which may not have come yet: the
	// verdict must not depend on it.
	if end+1-r.done > r.max {
		r.err = &TooLongError{Limit: r.max}
		return false
	}
	r.done = next
	return true
}
