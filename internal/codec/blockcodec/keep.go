// Package blockcodec has what the codecs of Anthropic Messages and Amazon Bedrock Converse share. Both protocols
// have turns that alternate, content made of blocks, calls that need a result in the next turn, and Claude's
// rules about thinking.
package blockcodec

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Keeper keeps the JSON members of the protocol that it names in an [llm.Ext].
type Keeper string

// Ext keeps the unknown members of an object.
func (k Keeper) Ext(extra wire.Extra) llm.Ext {
	all := extra.All()
	if len(all) == 0 {
		return llm.Ext{}
	}
	return llm.Ext{Protocol: string(k), Members: codec.Members(all)}
}

// Extra returns the members that Ext kept, if they are this protocol's. Marks have their names on the wire.
func (k Keeper) Extra(ext llm.Ext) wire.Extra {
	if ext.Protocol != string(k) || len(ext.Members) == 0 {
		return wire.Extra{}
	}
	return wire.NewExtra(Object(ext.Members))
}

// Object returns members under their names on the wire, without the prefix of marks.
func Object(members []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(members))
	for _, m := range members {
		o = append(o, wire.Member{Name: strings.TrimPrefix(m.Name, codec.MarkPrefix), Value: wire.Raw(m.Value)})
	}
	return o
}

// Keep adds a member.
func (k Keeper) Keep(ext *llm.Ext, name string, value wire.Raw) {
	ext.Protocol = string(k)
	ext.Members = append(ext.Members, llm.Member{Name: name, Value: llm.Raw(value)})
}

// Mark keeps the original JSON of a member whose meaning the neutral model has.
func (k Keeper) Mark(ext *llm.Ext, name string, value wire.Raw) {
	k.Keep(ext, codec.MarkPrefix+name, value)
}

// KeepRest keeps the unknown members of a nested object under the object's name. Rest returns them.
func (k Keeper) KeepRest(ext *llm.Ext, name string, extra wire.Extra) {
	all := extra.All()
	if len(all) == 0 {
		return
	}
	if raw, err := all.MarshalJSON(); err == nil { // cannot fail: it was decoded from JSON
		k.Keep(ext, name, raw)
	}
}

// Rest returns the members that KeepRest kept under a name.
func (k Keeper) Rest(ext llm.Ext, name string) wire.Extra {
	if ext.Protocol != string(k) {
		return wire.Extra{}
	}
	var o wire.Object
	if raw := ext.Get(name); raw == "" || o.UnmarshalJSON([]byte(raw)) != nil {
		return wire.Extra{}
	}
	return wire.NewExtra(o)
}

// Without returns an Ext without the named members.
func Without(ext llm.Ext, names ...string) llm.Ext {
	out := llm.Ext{Protocol: ext.Protocol}
	for _, m := range ext.Members {
		if !slices.Contains(names, m.Name) {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// Member returns an object with one member.
func Member(name string, value wire.Raw) wire.Raw {
	b := append(wire.AppendQuote([]byte{'{'}, name), ':')
	return append(append(b, value...), '}')
}

// Quoted returns s as a JSON string.
func Quoted(s string) wire.Raw { return wire.AppendQuote(nil, s) }
