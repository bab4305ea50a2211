package openaichat

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Notes that this codec leaves among the members of a node for its own encoder.
// Other notes keep how something was spelled and are written again.
const (
	// legacyMark is on a tool, a call or a result that came in the deprecated form.
	legacyMark = protocol.MarkPrefix + "functions"

	// partMark keeps a part as it was, where writing what it means would give
	// another.
	partMark = protocol.MarkPrefix + "part"

	// refusalMark is on a refusal that was the message's own member and no part
	// of its content.
	refusalMark = protocol.MarkPrefix + "refusal"
)

// spelled is the note that keeps a member as it was spelled, where the neutral
// model has what it says.
func spelled(name string) string { return protocol.MarkPrefix + name }

// wireName is the name that a member goes by on the wire; none for a mere note.
func wireName(name string) (string, bool) {
	switch name {
	case legacyMark, partMark, refusalMark:
		return "", false
	}
	return strings.TrimPrefix(name, protocol.MarkPrefix), true
}

// keep puts a member that is there into e.
func keep[T any](e *llm.Ext, name string, v wire.Opt[T]) {
	if v.IsSet() {
		e.Members = append(e.Members, llm.Member{Name: name, Value: rawOf(v)})
	}
}

func rawOf(v any) llm.Raw {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "null" // what was decoded from JSON can be encoded
	}
	return llm.Raw(b)
}

func extOf(e wire.Extra) llm.Ext {
	if m := members(e.All()); len(m) > 0 {
		return llm.Ext{Protocol: own, Members: m}
	}
	return llm.Ext{}
}

// extWith keeps the members of an object, and those of an object inside it under
// that one's name.
func extWith(outer wire.Extra, name string, inner wire.Extra) llm.Ext {
	m := members(outer.All())
	if o := inner.All(); len(o) > 0 {
		m = append(m, llm.Member{Name: name, Value: rawOf(o)})
	}
	if len(m) == 0 {
		return llm.Ext{}
	}
	return llm.Ext{Protocol: own, Members: m}
}

// extrasOf is the way back from extWith.
func extrasOf(e llm.Ext, name string) (outer, inner wire.Extra) {
	if e.Protocol != own {
		return outer, inner
	}
	var rest []llm.Member
	for _, m := range e.Members {
		var o wire.Object
		if m.Name == name && json.Unmarshal([]byte(m.Value), &o) == nil {
			inner = wire.NewExtra(o)
		} else {
			rest = append(rest, m)
		}
	}
	return wire.NewExtra(ownMembers(rest)), inner
}

func members(o wire.Object) []llm.Member {
	if len(o) == 0 {
		return nil
	}
	out := make([]llm.Member, 0, len(o))
	for _, m := range o {
		out = append(out, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
	}
	return out
}

// extraOf is the way back: the members that this protocol has put aside.
func extraOf(e llm.Ext) wire.Extra {
	if e.Protocol != own {
		return wire.Extra{}
	}
	return wire.NewExtra(ownMembers(e.Members))
}

// ownMembers are the members of this protocol's own Ext as they are on the wire.
func ownMembers(list []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(list))
	for _, m := range list {
		if name, ok := wireName(m.Name); ok {
			o = append(o, wire.Member{Name: name, Value: wire.Raw(m.Value)})
		}
	}
	return o
}

func objectOf(list []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(list))
	for _, m := range list {
		o = append(o, wire.Member{Name: m.Name, Value: wire.Raw(m.Value)})
	}
	return o
}
