package protocol

import (
	"bytes"
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Assembler reads a stream for a non-streaming client of the same dialect. It keeps what the
// neutral events leave out of a response.
type Assembler interface {
	// Event reads the data of an event and does not keep it.
	Event(data []byte)

	// Complete completes a response that was encoded from the neutral events.
	Complete(body []byte) []byte
}

// maxLate limits the size of the members that a LateMembers keeps.
const maxLate = 1 << 20

// LateMembers are members of a response that the events of a stream have. The last value of a
// name counts.
type LateMembers struct {
	list wire.Object
	size int
}

// Keep keeps a member unless it is null.
func (l *LateMembers) Keep(name string, value wire.Raw) {
	if value.Kind() == 'n' {
		return
	}
	at := slices.IndexFunc(l.list, func(m wire.Member) bool { return m.Name == name })
	grown := len(value) + len(name)
	if at >= 0 {
		grown = len(value) - len(l.list[at].Value)
	}
	if l.size+grown > maxLate {
		return
	}
	l.size += grown
	if at < 0 {
		at = len(l.list)
		l.list = append(l.list, wire.Member{Name: name})
	}
	l.list[at].Value = bytes.Clone(value)
}

// SetIn returns an object with the members.
func (l *LateMembers) SetIn(o wire.Object) wire.Object {
	for _, m := range l.list {
		o = o.With(m.Name, m.Value)
	}
	return o
}
