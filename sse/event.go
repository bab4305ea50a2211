package sse

import (
	"bytes"
	"iter"
	"slices"
)

// Event is one block of an event stream: the fields up to a blank line. Its slices
// are valid until the next call of the Reader's Batch or Next and must not be
// modified.
type Event struct {
	Name []byte // of the last event line, nil if there is none
	Data []byte // of all data lines, joined with LF
	ID   []byte // of the last id line, nil if there is none

	// HasData reports whether the block has a data line, which may be empty.
	// Browsers ignore a block without one, such as a named keep-alive or a retry
	// line.
	HasData bool

	// Raw is the block from its first field to its blank line, including comments
	// in between. It is Batch.Raw[Start:End], so that a caller can leave out
	// exactly this event. If the blank line is a CRLF that is split between two
	// reads, Raw ends with the CR and the next batch starts with the LF, which has
	// no effect there.
	Raw        []byte
	Start, End int
}

// Batch is a sequence of complete events and comments.
type Batch struct {
	// Raw holds the bytes as they were read. It is valid until the next call of the
	// Reader's Batch or Next. A caller may overwrite the events that it has read.
	Raw []byte

	// The compiler keeps a struct of four words in registers. A fifth word is
	// measurably slower when each read returns a single event.
	from *Reader
}

// Events iterates over the events in order. A batch of comments and blank lines has
// no events.
func (b Batch) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		p := b.parser()
		var e Event
		for p.next(&e) && yield(e) {
		}
	}
}

func (b Batch) parser() parser {
	if b.from == nil { // returned together with an error
		return parser{}
	}
	return b.from.parser(b.Raw, b.from.mark)
}

// parser parses the events of a batch.
type parser struct {
	lines  lines
	pos    int
	joined *[]byte // data of events with several data lines
	join   int     // start of this event's data in joined, -1 if it has one data line
}

// next sets e to the next event. The end of the buffer ends an event like a blank
// line.
func (p *parser) next(e *Event) bool {
	buf := p.lines.buf
	open := false
	for p.pos < len(buf) {
		start := p.pos
		end, next := p.lines.after(start)
		p.pos = next
		switch {
		case end == start && open:
			p.finish(e)
			return true
		case end == start, buf[start] == ':':
		default:
			if !open {
				open = true
				*e = Event{Start: start}
				p.join = -1
			}
			p.field(e, buf[start:end:end])
		}
	}
	if open {
		p.finish(e)
	}
	return open
}

// rest returns the bytes after the last event.
func (p *parser) rest() []byte {
	return p.lines.buf[p.pos:]
}

func (p *parser) finish(e *Event) {
	e.End = p.pos
	e.Raw = p.lines.buf[e.Start:e.End:e.End]
}

func (p *parser) field(e *Event, line []byte) {
	name, value := line, line[len(line):] // without a colon the value is empty
	if len(line) > 4 && string(line[:5]) == "data:" {
		name, value = line[:4], line[5:]
	} else if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		p.data(e, value)
	case "event":
		e.Name = value
	case "id":
		if bytes.IndexByte(value, 0) < 0 { // the standard ignores such an id
			e.ID = value
		}
	}
}

func (p *parser) data(e *Event, value []byte) {
	if !e.HasData {
		e.Data, e.HasData = value, true
		return
	}
	j := *p.joined
	if p.join < 0 {
		p.join = len(j)
		// Joined data is shorter than its lines, so this is enough for all
		// following events of the batch.
		j = slices.Grow(j, len(p.lines.buf)-e.Start)
		j = append(j, e.Data...)
	}
	j = append(j, '\n')
	j = append(j, value...)
	*p.joined = j
	e.Data = j[p.join:len(j):len(j)]
}
