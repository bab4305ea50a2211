package openairesponses

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// object is a JSON object in the making. A member that has been written is not
// written again, so fields go before the members that have none.
type object struct {
	text  []byte
	names []string
}

func (o *object) name(name string) bool {
	if slices.Contains(o.names, name) {
		return false
	}
	o.names = append(o.names, name)
	if len(o.names) > 1 {
		o.text = append(o.text, ',')
	} else {
		o.text = append(o.text, '{')
	}
	o.text = append(appendString(o.text, name), ':')
	return true
}

func (o *object) raw(name string, value llm.Raw) {
	if value != "" && o.name(name) {
		o.text = append(o.text, value...)
	}
}

func (o *object) str(name, value string) {
	if o.name(name) {
		o.text = appendString(o.text, value)
	}
}

// opt writes a string unless it is empty.
func (o *object) opt(name, value string) {
	if value != "" {
		o.str(name, value)
	}
}

// nullable writes a string, or null for an empty one.
func (o *object) nullable(name, value string) {
	if o.name(name) {
		o.text = appendNullable(o.text, value)
	}
}

func (o *object) num(name string, value int64) {
	if o.name(name) {
		o.text = strconv.AppendInt(o.text, value, 10)
	}
}

func (o *object) integer(name string, value *int64) {
	if value != nil {
		o.num(name, *value)
	}
}

func (o *object) boolean(name string, value *bool) {
	if value != nil && o.name(name) {
		o.text = strconv.AppendBool(o.text, *value)
	}
}

// ext writes the members that no field stands for, where they are of this
// protocol.
func (o *object) ext(e llm.Ext) {
	if !isOwn(e) {
		return
	}
	for _, m := range e.Members {
		if name, ok := wireName(m.Name); ok {
			o.raw(name, m.Value)
		}
	}
}

func (o *object) end() llm.Raw {
	if len(o.names) == 0 {
		return "{}"
	}
	return llm.Raw(append(o.text, '}'))
}

// list is a JSON array in the making.
type list []byte

func (l *list) add(value llm.Raw) {
	if len(*l) == 0 {
		*l = append(*l, '[')
	} else {
		*l = append(*l, ',')
	}
	*l = append(*l, value...)
}

func (l list) end() llm.Raw {
	if len(l) == 0 {
		return "[]"
	}
	return llm.Raw(append(l, ']'))
}

func appendString(b []byte, s string) []byte {
	// The error is about invalid UTF-8, which is replaced; the text is complete.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func quote(s string) llm.Raw { return llm.Raw(appendString(nil, s)) }

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

// extOf keeps the members that have no field. Null means absent in a request.
func extOf(e wire.Extra) llm.Ext {
	ext := llm.Ext{Protocol: own}
	for _, m := range e.All() {
		if string(m.Value) != "null" {
			ext.Members = append(ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	return ext
}

// value is a raw member, empty where it is null or absent.
func value(r wire.Raw) llm.Raw {
	if string(r) == "null" {
		return ""
	}
	return llm.Raw(r)
}

// pointer is the address of an Opt's value, nil where there is none.
func pointer[T any](o wire.Opt[T]) *T {
	if v, ok := o.Get(); ok {
		return &v
	}
	return nil
}

// membersOf reads an object that was JSON before.
func membersOf(raw llm.Raw) wire.Object {
	var o wire.Object
	if raw != "" {
		_ = json.Unmarshal([]byte(raw), &o, lenient) // what is no object has no members
	}
	return o
}
