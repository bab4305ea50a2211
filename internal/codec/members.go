package codec

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Members returns the members of an object for an [llm.Ext].
func Members(o wire.Object) []llm.Member {
	var list []llm.Member
	for _, m := range o {
		list = append(list, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
	}
	return list
}

// Object returns the object with these members.
func Object(list []llm.Member) wire.Object {
	o := make(wire.Object, 0, len(list))
	for _, m := range list {
		o = append(o, wire.Member{Name: m.Name, Value: wire.Raw(m.Value)})
	}
	return o
}

// At returns the path of an item of a list, such as turns[2], for a report.
func At(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
