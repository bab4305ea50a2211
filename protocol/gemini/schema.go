package gemini

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// jsonSchema turns Google's form of a schema, which is OpenAPI's with upper-case
// types, into JSON Schema. Only keywords in the place of keywords are touched: a
// property may be called "nullable" (GEM-23). What is no schema stays as it is.
func jsonSchema(raw wire.Raw) wire.Raw {
	var in wire.Object
	if in.UnmarshalJSON(raw) != nil {
		return raw
	}
	var out wire.Object
	nullable := false
	for _, m := range in {
		name := keyword(m.Name)
		switch name {
		case "type":
			if m.Value = lowerType(m.Value); m.Value == nil {
				continue
			}
		case "nullable":
			nullable = string(m.Value) == "true"
			continue
		case "items", "additionalProperties":
			m.Value = jsonSchema(m.Value)
		case "properties", "defs", "$defs":
			m.Value = eachMember(m.Value, jsonSchema)
		case "anyOf", "prefixItems", "oneOf", "allOf":
			m.Value = eachItem(m.Value, jsonSchema)
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			m.Value = unquoteNumber(m.Value) // protobuf writes 64-bit integers as strings
		case "format":
			if string(m.Value) == `"enum"` {
				continue
			}
		case "example":
			name, m.Value = "examples", wire.Raw("["+string(m.Value)+"]")
		case "propertyOrdering":
			continue
		}
		out = append(out, wire.Member{Name: name, Value: m.Value})
	}
	if nullable {
		out = orNull(out)
	}
	return marshal(out)
}

// keyword gives a keyword's name in camelCase: the type of these schemas is one of
// Google's too.
func keyword(name string) string {
	if camel := camelCase(name); slices.Contains(snakeKeywords, camel) {
		return camel
	}
	return name
}

// snakeKeywords are those that have two words.
var snakeKeywords = []string{
	"anyOf", "prefixItems", "additionalProperties", "minItems", "maxItems", "minLength", "maxLength",
	"minProperties", "maxProperties", "propertyOrdering",
}

// lowerType gives a type's name in JSON Schema; nil for one that says nothing.
func lowerType(raw wire.Raw) wire.Raw {
	if raw.Kind() != '"' {
		return raw
	}
	lower := strings.ToLower(string(raw))
	if lower == `"type_unspecified"` {
		return nil
	}
	return wire.Raw(lower)
}

// orNull lets a schema accept null as well.
func orNull(o wire.Object) wire.Object {
	if t, ok := o.Get("type"); ok && t.Kind() == '"' {
		o = o.With("type", wire.Raw("["+string(t)+`,"null"]`))
	}
	if list, ok := o.Get("enum"); ok {
		o = o.With("enum", appendItem(list, wire.Raw("null")))
	}
	if list, ok := o.Get("anyOf"); ok {
		o = o.With("anyOf", appendItem(list, wire.Raw(`{"type":"null"}`)))
	}
	return o
}

// appendItem adds an item to a list.
func appendItem(list, item wire.Raw) wire.Raw {
	items, ok := elements(list)
	if !ok {
		return list
	}
	return joinItems(append(items, item))
}

// elements takes a list apart.
func elements(list wire.Raw) ([]wire.Raw, bool) {
	var l rawList
	if rawListShape.Unmarshal(list, &l) != nil {
		return nil, false
	}
	return l.Items.Value(), true
}

// rawList is a list whose items are left as they are.
type rawList struct {
	Items wire.Opt[[]wire.Raw] `wire:"array"`
}

var rawListShape = wire.Describe[rawList]()

func joinItems(items []wire.Raw) wire.Raw {
	out := wire.Raw("[")
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// eachMember applies f to the values of an object.
func eachMember(raw wire.Raw, f func(wire.Raw) wire.Raw) wire.Raw {
	var o wire.Object
	if o.UnmarshalJSON(raw) != nil {
		return raw
	}
	for i := range o {
		o[i].Value = f(o[i].Value)
	}
	return marshal(o)
}

// eachItem applies f to the items of a list.
func eachItem(raw wire.Raw, f func(wire.Raw) wire.Raw) wire.Raw {
	items, ok := elements(raw)
	if !ok {
		return raw
	}
	for i := range items {
		items[i] = f(items[i])
	}
	return joinItems(items)
}

func unquoteNumber(raw wire.Raw) wire.Raw {
	if n := wire.Raw(strings.Trim(string(raw), `"`)); n.Kind() == '0' && n.IsValid() {
		return n
	}
	return raw
}

// marshal writes an object whose members all have values.
func marshal(o wire.Object) wire.Raw {
	out := wire.Raw("{")
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendString(out, m.Name)
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

func appendString(b []byte, s string) []byte {
	// The error is about invalid UTF-8, which is replaced; the text is complete.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

func quote(s string) wire.Raw { return appendString(nil, s) }

func unquote(raw wire.Raw) (string, error) {
	s, err := jsontext.AppendUnquote(nil, raw)
	return string(s), err
}
