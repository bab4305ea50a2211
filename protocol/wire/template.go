package wire

import "bytes"

// Template recognizes events that differ from an earlier one only in the text of one
// string, as most deltas of a stream do. The zero Template matches nothing.
type Template struct {
	event     []byte
	open, end int // positions of the string's quotes in event; 0 if it has none
	misses    int // calls of Learn since the last match
}

const (
	maxTemplate = 1 << 10 // bytes of an event
	maxMisses   = 8       // for streams whose events differ in more than one string
)

// Matches reports whether data equals the event except for the string.
func (t *Template) Matches(data []byte) bool {
	rest := t.event[t.end:]
	if t.open == 0 || len(data) <= t.open+len(rest) {
		return false
	}
	text := data[t.open+1 : len(data)-len(rest)]
	if !bytes.Equal(data[:t.open+1], t.event[:t.open+1]) || !bytes.Equal(data[len(data)-len(rest):], rest) ||
		bytes.IndexByte(text, '"') >= 0 || bytes.HasSuffix(text, []byte{'\\'}) {
		return false
	}
	t.misses = 0
	return true
}

// Learn makes data the event. The string is the one in which it differs from the event
// before.
func (t *Template) Learn(data []byte) {
	if t.misses++; t.misses > maxMisses || len(data) > maxTemplate {
		return
	}
	t.open, t.end = differingString(t.event, data)
	t.event = append(t.event[:0], data...)
}

// differingString returns the positions of the quotes around the first byte of data that
// differs from before. They are 0 if it is not in the value of a member or an element.
func differingString(before, data []byte) (open, end int) {
	same := 0
	for same < min(len(before), len(data)) && before[same] == data[same] {
		same++
	}
	for i := 0; i < same; i++ {
		if data[i] != '"' {
			continue
		}
		if end = stringEnd(data, i); end < same {
			i = end
			continue
		}
		after := bytes.TrimLeft(data[min(end+1, len(data)):], " \t\r\n")
		if len(after) == 0 || after[0] == ':' {
			return 0, 0
		}
		return i, end
	}
	return 0, 0
}
