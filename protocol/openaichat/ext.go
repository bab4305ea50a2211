package openaichat

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

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
	return wire.NewExtra(objectOf(rest)), inner
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
	return wire.NewExtra(objectOf(e.Members))
}

func objectOf(list []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(list))
	for _, m := range list {
		o = append(o, wire.Member{Name: m.Name, Value: wire.Raw(m.Value)})
	}
	return o
}
