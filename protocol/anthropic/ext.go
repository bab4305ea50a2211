package anthropic

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// extOf keeps the members of an object that no field stands for.
func extOf(extra wire.Extra) llm.Ext {
	all := extra.All()
	if len(all) == 0 {
		return llm.Ext{}
	}
	ext := llm.Ext{Protocol: own, Members: make([]llm.Member, 0, len(all))}
	for _, m := range all {
		ext.Members = append(ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
	}
	return ext
}

// extraOf is what extOf has kept, if it is this protocol's own.
func extraOf(ext llm.Ext) wire.Extra {
	if ext.Protocol != own || len(ext.Members) == 0 {
		return wire.Extra{}
	}
	return wire.NewExtra(objectOf(ext.Members))
}

// objectOf is the members as they were: notes have their prefix for others only.
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

// note adds a member that a field stands for already, so that it comes home as it
// was spelled.
func note(ext *llm.Ext, name string, value wire.Raw) { keep(ext, protocol.MarkPrefix+name, value) }

// keepRest adds what is left of an object whose known members have been read. It
// is kept under the object's own name, where restOf finds it.
func keepRest(ext *llm.Ext, name string, extra wire.Extra) {
	all := extra.All()
	if len(all) == 0 {
		return
	}
	if raw, err := all.MarshalJSON(); err == nil { // it was read from JSON
		keep(ext, name, raw)
	}
}

// restOf is what keepRest has kept under a name.
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

// without is an Ext without some members.
func without(ext llm.Ext, names ...string) llm.Ext {
	out := llm.Ext{Protocol: ext.Protocol}
	for _, m := range ext.Members {
		if !slices.Contains(names, m.Name) {
			out.Members = append(out.Members, m)
		}
	}
	return out
}

// optText is a text member that is left out where it is empty.
func optText(s string) wire.Opt[wire.Text] {
	if s == "" {
		return wire.Opt[wire.Text]{}
	}
	return wire.Some(wire.NewText(s))
}

// optString is a string member that is left out where it is empty.
func optString(s string) wire.Opt[string] {
	if s == "" {
		return wire.Opt[string]{}
	}
	return wire.Some(s)
}

// quoted is s as a JSON string.
func quoted(s string) wire.Raw { return appendString(nil, s) }
