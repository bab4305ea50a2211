package openairesponses

import (
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// object is a JSON object that is being written. It skips a member that was
// written before, so fields come before unknown members.
type object struct {
	text  []byte
	names []string
	known map[string]bool // the names, if there are many
}

// manyNames is the number of names from which on a map is faster than a list.
const manyNames = 64

func (o *object) name(name string) bool {
	if o.known[name] || o.known == nil && slices.Contains(o.names, name) {
		return false
	}
	if o.names = append(o.names, name); len(o.names) == manyNames {
		o.known = make(map[string]bool, 2*manyNames)
		for _, n := range o.names {
			o.known[n] = true
		}
	} else if o.known != nil {
		o.known[name] = true
	}
	if len(o.names) > 1 {
		o.text = append(o.text, ',')
	} else {
		o.text = append(o.text, '{')
	}
	o.text = append(wire.AppendQuote(o.text, name), ':')
	return true
}

func (o *object) raw(name string, value llm.Raw) {
	if value != "" && o.name(name) {
		o.text = append(o.text, value...)
	}
}

// bytes writes a value from bytes. A string would be a copy.
func (o *object) bytes(name string, value []byte) {
	if o.name(name) {
		o.text = append(o.text, value...)
	}
}

// literal writes a string whose JSON literal, without quotes, is given.
func (o *object) literal(name string, body []byte) {
	if o.name(name) {
		o.text = append(append(append(o.text, '"'), body...), '"')
	}
}

func (o *object) str(name, value string) {
	if o.name(name) {
		o.text = wire.AppendQuote(o.text, value)
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
		o.text = wire.AppendQuoteOrNull(o.text, value)
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

// ext writes the unknown members, if they are this protocol's.
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

func (o *object) end() llm.Raw { return llm.Raw(o.close()) }

// close returns the object as the bytes that were written.
func (o *object) close() []byte {
	if len(o.names) == 0 {
		return []byte("{}")
	}
	return append(o.text, '}')
}

// list is a JSON array that is being written.
type list []byte

func (l *list) add(value llm.Raw) { l.next(); *l = append(*l, value...) }

// next begins another item.
func (l *list) next() {
	if len(*l) == 0 {
		*l = append(*l, '[')
	} else {
		*l = append(*l, ',')
	}
}

func (l list) end() llm.Raw { return llm.Raw(l.close()) }

// close returns the array as the bytes that were written.
func (l list) close() []byte {
	if len(l) == 0 {
		return []byte("[]")
	}
	return append(l, ']')
}

func quote(s string) llm.Raw { return llm.Raw(wire.AppendQuote(nil, s)) }

// value returns a raw member, or "" if it is null or absent.
func value(r wire.Raw) llm.Raw {
	if string(r) == "null" {
		return ""
	}
	return llm.Raw(r)
}
