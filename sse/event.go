package sse

import (
	"bytes"
	"iter"
	"slices"
)

// Event is one block of an event stream. Its slices are valid until the next
// call of the Reader's Batch or Next and must not be written to.
type Event struct {
	Name []byte // of the last event line, nil if there is none
	Data []byte // of all data lines, joined with LF
	ID   []byte // of the last id line, nil if there is none

	// HasData tells an event with empty data from a block without a data line,
	// which browsers ignore: a named keep-alive, a retry line, unknown fields.
	HasData bool

	// Raw is the block from its first field to its blank line, comments between
	// them included. It is Batch.Raw[Start:End], so that a caller can leave
	// exactly this event out. If the blank line is a CRLF that two reads cut
	// apart, its LF is outside, at the beginning of the next batch, where it
	// means nothing.
	Raw        []byte
	Start, End int
}

// Batch is a run of complete blocks.
type Batch struct {
	// Raw holds the exact bytes that were read. It is valid until the next call
	// of the Reader's Batch or Next and must not be written to.
	Raw []byte

	// With it a Batch has four words, which the compiler keeps in registers; a
	// fifth is felt when each read brings a single event.
	from *Reader
}

// Events yields the events in order. There may be none: a batch can consist of
// comments and blank lines.
func (b Batch) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		p := b.parser()
		var e Event
		for p.next(&e) && yield(e) {
		}
	}
}

func (b Batch) parser() parser {
	if b.from == nil { // the batch that comes with an error
		return parser{}
	}
	return b.from.parser(b.Raw, b.from.mark)
}

// parser walks the events of a run of blocks.
type parser struct {
	lines  lines
	pos    int
	joined *[]byte // data of events with several data lines
	join   int     // where this event's data begins in joined, -1 if it is not there
}

// next sets e to the next event. The end of the buffer ends a block as a blank
// line does.
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

// rest returns the blocks that next has not come to.
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
		// Joined data is shorter than its lines, so that this is enough for
		// all events that follow in the batch.
		j = slices.Grow(j, len(p.lines.buf)-e.Start)
		j = append(j, e.Data...)
	}
	j = append(j, '\n')
	j = append(j, value...)
	*p.joined = j
	e.Data = j[p.join:len(j):len(j)]
}
