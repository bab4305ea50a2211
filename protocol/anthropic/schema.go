package anthropic

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// What a strict schema may hold. Every other keyword goes into the description,
// as the vendor's own SDKs do it.
var (
	plainKeywords  = []string{"$ref", "type", "title", "enum", "const", "required", "pattern"}
	schemaMaps     = []string{"properties", "$defs", "definitions"}
	schemaLists    = []string{"anyOf", "allOf", "oneOf"}
	silentKeywords = []string{"$schema", "$id", "$comment", "description", "additionalProperties"}
	knownFormats   = []string{"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)

// subset brings a schema into the form that the vendor takes for strict output, and
// reports each keyword that is now in the description only.
func (e *requestEncoder) subset(at string, schema wire.Raw) wire.Raw {
	if recursive(schema) {
		e.report.Refuse(at, "schema.recursive", "the schema refers to itself, which the vendor refuses")
		return schema
	}
	s := subsetter{}
	out := s.schema(schema)
	slices.Sort(s.moved)
	for _, keyword := range slices.Compact(s.moved) {
		e.report.Approximate(at, "schema.keyword_moved", keyword+" is in the description only")
	}
	return out
}

type subsetter struct{ moved []string }

// schema rewrites one schema. What is no object, such as true, stays.
func (s *subsetter) schema(raw wire.Raw) wire.Raw {
	var in wire.Object
	if raw.Kind() != '{' || in.UnmarshalJSON(raw) != nil {
		return raw
	}
	out := make(wire.Object, 0, len(in)+1)
	var notes []string
	for _, m := range in {
		switch value, ok := s.keyword(m); {
		case ok && m.Name == "oneOf":
			s.moved = append(s.moved, "oneOf")
			out = out.With("anyOf", value)
		case ok:
			out = out.With(m.Name, value)
		case !slices.Contains(silentKeywords, m.Name):
			s.moved = append(s.moved, m.Name)
			notes = append(notes, m.Name+": "+string(wire.Compact(m.Value)))
		}
	}
	if isObjectSchema(in) {
		if v, ok := in.Get("additionalProperties"); ok && string(v) != "false" {
			s.moved = append(s.moved, "additionalProperties")
		}
		out = out.With("additionalProperties", wire.Raw("false"))
	}
	if text := describe(in, notes); text != "" {
		out = out.With("description", quoted(text))
	}
	result, err := out.MarshalJSON()
	if err != nil { // every value was read from JSON
		return raw
	}
	return result
}

// keyword rewrites the value of a keyword that may stay.
func (s *subsetter) keyword(m wire.Member) (wire.Raw, bool) {
	switch {
	case slices.Contains(plainKeywords, m.Name):
		return m.Value, true
	case slices.Contains(schemaMaps, m.Name):
		var o wire.Object
		if m.Value.Kind() != '{' || o.UnmarshalJSON(m.Value) != nil {
			return m.Value, true
		}
		for i := range o {
			o[i].Value = s.schema(o[i].Value)
		}
		raw, err := o.MarshalJSON()
		return raw, err == nil
	case slices.Contains(schemaLists, m.Name):
		var list []jsontext.Value
		if json.Unmarshal(m.Value, &list, lenient) != nil {
			return nil, false
		}
		for i := range list {
			list[i] = s.schema(list[i])
		}
		return array(list), true
	case m.Name == "items":
		return s.schema(m.Value), m.Value.Kind() != '['
	case m.Name == "minItems":
		return m.Value, string(m.Value) == "0" || string(m.Value) == "1"
	case m.Name == "format":
		return m.Value, slices.Contains(knownFormats, strings.Trim(string(m.Value), `"`))
	}
	return nil, false
}

func isObjectSchema(o wire.Object) bool {
	typ, _ := o.Get("type")
	_, has := o.Get("properties")
	return has || string(typ) == `"object"`
}

// describe joins a schema's own description and what had to be moved there.
func describe(o wire.Object, notes []string) string {
	var text string
	if raw, ok := o.Get("description"); ok {
		_ = json.Unmarshal(raw, &text, lenient) // a description that is no text says nothing
	}
	if len(notes) == 0 {
		return text
	}
	return strings.TrimSpace(text + "\n\n{" + strings.Join(notes, ", ") + "}")
}

// recursive reports whether a schema refers to itself.
func recursive(schema wire.Raw) bool {
	var root struct {
		Defs        map[string]jsontext.Value `json:"$defs"`
		Definitions map[string]jsontext.Value `json:"definitions"`
	}
	if json.Unmarshal(schema, &root, lenient) != nil {
		return false
	}
	refs := map[string][]string{}
	for name, def := range root.Defs {
		refs["#/$defs/"+name] = refsIn(def)
	}
	for name, def := range root.Definitions {
		refs["#/definitions/"+name] = refsIn(def)
	}
	const onTheWay, done = 1, 2
	state := map[string]int{"#": onTheWay}
	var circles func(at string) bool
	circles = func(at string) bool {
		if state[at] != 0 {
			return state[at] == onTheWay
		}
		state[at] = onTheWay
		found := slices.ContainsFunc(refs[at], circles)
		state[at] = done
		return found
	}
	return slices.ContainsFunc(refsIn(schema), circles)
}

// refsIn lists the references in a schema.
func refsIn(schema wire.Raw) []string {
	var refs []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				if s, ok := e.(string); ok && name == "$ref" {
					refs = append(refs, s)
				}
				walk(e)
			}
		}
	}
	var v any
	if json.Unmarshal(schema, &v, lenient) == nil {
		walk(v)
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}
