package converse

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// extOf keeps the unknown members of an object.
func extOf(extra wire.Extra) llm.Ext {
	all := extra.All()
	if len(all) == 0 {
		return llm.Ext{}
	}
	return llm.Ext{Protocol: own, Members: protocol.Members(all)}
}

// extraOf returns the members that extOf kept, if they are this protocol's.
func extraOf(ext llm.Ext) wire.Extra {
	if ext.Protocol != own || len(ext.Members) == 0 {
		return wire.Extra{}
	}
	return wire.NewExtra(objectOf(ext.Members))
}

// objectOf returns members under their names on the wire, without the prefix of
// marks.
func objectOf(members []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(members))
	for _, m := range members {
		o = append(o, wire.Member{Name: strings.TrimPrefix(m.Name, protocol.MarkPrefix), Value: wire.Raw(m.Value)})
	}
	return o
}

// keep adds a member to an Ext.
func keep(ext *llm.Ext, name string, value wire.Raw) {
	ext.Protocol = own
	ext.Members = append(ext.Members, llm.Member{Name: name, Value: llm.Raw(value)})
}

// note keeps the original JSON of a member whose meaning the neutral model has.
func note(ext *llm.Ext, name string, value wire.Raw) { keep(ext, protocol.MarkPrefix+name, value) }

// keepRest keeps the unknown members of a nested object under the object's name.
// restOf returns them.
func keepRest(ext *llm.Ext, name string, extra wire.Extra) {
	all := extra.All()
	if len(all) == 0 {
		return
	}
	if raw, err := all.MarshalJSON(); err == nil { // cannot fail: it was decoded from JSON
		keep(ext, name, raw)
	}
}

// restOf returns the members that keepRest kept under a name.
func restOf(ext llm.Ext, name string) wire.Extra {
	if ext.Protocol != own {
		return wire.Extra{}
	}
	var o wire.Object
	if raw := ext.Get(name); raw == "" || o.UnmarshalJSON([]byte(raw)) != nil {
		return wire.Extra{}
	}
	return wire.NewExtra(o)
}

// without returns an Ext without the named members.
func without(ext llm.Ext, names ...string) llm.Ext {
	out := llm.Ext{Protocol: ext.Protocol}
	for _, m := range ext.Members {
		if !slices.Contains(names, m.Name) {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// quoted returns s as a JSON string.
func quoted(s string) wire.Raw { return wire.AppendQuote(nil, s) }

// member returns an object with one member.
func member(name string, value wire.Raw) wire.Raw {
	b := append(wire.AppendQuote([]byte{'{'}, name), ':')
	return append(append(b, value...), '}')
}

// value returns what n points to, or 0.
func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
