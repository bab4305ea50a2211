package codec

import (
	"bytes"
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Assembler reads a stream for a non-streaming client of the same dialect. It keeps the
// members that the response needs and the neutral events do not have.
type Assembler interface {
	// Event reads the data of an event. It does not keep the slice.
	Event(data []byte)

	// Complete completes a response that was encoded from the neutral events.
	Complete(body []byte) []byte
}

// maxLate limits the size of the members that a LateMembers keeps.
const maxLate = 1 << 20

// LateMembers collects members of a response from the events of a stream. If a name comes
// several times, the last value counts.
type LateMembers struct {
	list   wire.Object
	places map[string]int // positions of the names in list
	size   int
}

// Keep keeps a member unless it is null.
func (l *LateMembers) Keep(name string, value wire.Raw) {
	if value.Kind() == 'n' {
		return
	}
	at, known := l.places[name]
	grown := len(value) + len(name)
	if known {
		grown = len(value) - len(l.list[at].Value)
	}
	if l.size+grown > maxLate {
		return
	}
	l.size += grown
	if !known {
		if l.places == nil {
			l.places = map[string]int{}
		}
		at = len(l.list)
		l.list, l.places[name] = append(l.list, wire.Member{Name: name}), at
	}
	l.list[at].Value = bytes.Clone(value)
}

// SetIn returns a copy of an object with the members set. A member that the object already has
// keeps its place, and the others follow at the end.
func (l *LateMembers) SetIn(o wire.Object) wire.Object {
	out, has := slices.Clone(o), make(map[string]bool, len(o))
	for i, m := range out {
		has[m.Name] = true
		if at, known := l.places[m.Name]; known {
			out[i].Value = l.list[at].Value
		}
	}
	for _, m := range l.list {
		if !has[m.Name] {
			out = append(out, m)
		}
	}
	return out
}

// Complete returns the body of a response with the members set.
func (l *LateMembers) Complete(body []byte) []byte {
	var response wire.Object
	if response.UnmarshalJSON(body) != nil {
		return body
	}
	if text, err := l.SetIn(response).MarshalJSON(); err == nil {
		return text
	}
	return body
}
