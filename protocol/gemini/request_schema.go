package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// jsonSchema converts Google's OpenAPI form of a schema, with upper-case types,
// to JSON Schema. It touches only names in keyword position: a property may be
// called "nullable" (GEM-23). A value that is not a schema stays unchanged.
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

// keyword returns a keyword's name in camelCase.
func keyword(name string) string {
	if camel := camelCase(name); slices.Contains(snakeKeywords, camel) {
		return camel
	}
	return name
}

// snakeKeywords lists the keywords of two words.
var snakeKeywords = []string{
	"anyOf", "prefixItems", "additionalProperties", "minItems", "maxItems", "minLength", "maxLength",
	"minProperties", "maxProperties", "propertyOrdering",
}

// lowerType returns a type's name in JSON Schema, or nil for TYPE_UNSPECIFIED.
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

// orNull makes a schema accept null as well.
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

// taken lists the JSON Schema keywords that the API accepts. An unknown keyword
// fails the request, so all others are removed (GEM-22).
var taken = []string{
	"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
	"minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
	"propertyOrdering",
}

// mute lists keywords that have no meaning for a model.
var mute = []string{"$schema", "$comment", "$vocabulary", "definitions"}

// schemaWriter converts a JSON Schema to the subset that the API accepts. A
// constraint that is removed goes into the description for the model to read.
type schemaWriter struct {
	report *llm.Report
	path   string // of the tool or the format, for the report
	moved  []string
}

// fitSchema converts a schema. It returns a schema unchanged if the API accepts
// all of it.
func fitSchema(schema llm.Raw, path string, report *llm.Report) wire.Raw {
	w := schemaWriter{report: report, path: path}
	in := wire.Raw(schema)
	out, changed := w.schema(in)
	if len(w.moved) > 0 {
		report.Approximate(path, "schema.keyword_moved",
			"the API does not take "+strings.Join(w.moved, ", ")+"; the description says it instead")
	}
	if !changed {
		return in
	}
	return out
}

// schema converts one schema and those inside it. Recursion is bounded by the
// nesting of the text; references are kept and not expanded.
func (w *schemaWriter) schema(raw wire.Raw) (out wire.Raw, changed bool) {
	if k := raw.Kind(); k == 't' || k == 'f' {
		return wire.Raw("{}"), true // the API has no boolean schemas
	}
	var in wire.Object
	if in.UnmarshalJSON(raw) != nil {
		return raw, false
	}
	s := &node{w: w}
	for _, m := range in {
		s.member(m)
	}
	s.finish()
	if !s.changed {
		return raw, false
	}
	return marshal(s.out), true
}

// node is one schema that is being converted.
type node struct {
	w        *schemaWriter
	out      wire.Object
	notes    []string // removed keywords for the description
	nullable bool
	changed  bool
}

func (s *node) set(name string, value wire.Raw) { s.out = s.out.With(name, value) }

func (s *node) member(m wire.Member) {
	switch m.Name {
	case "items":
		if m.Value.Kind() == '[' { // the older form of a tuple
			s.change("prefixItems", eachItem(m.Value, s.inner))
			return
		}
		s.set("items", s.inner(m.Value))
	case "additionalProperties":
		if m.Value.Kind() == '{' {
			m.Value = s.inner(m.Value)
		}
		s.set(m.Name, m.Value)
	case "properties", "$defs":
		s.set(m.Name, eachMember(m.Value, s.inner))
	case "definitions":
		s.change("$defs", eachMember(m.Value, s.inner))
	case "anyOf", "oneOf", "prefixItems":
		s.set(m.Name, eachItem(m.Value, s.inner))
	case "$ref":
		s.ref(m.Value)
	case "const":
		s.change("enum", wire.Raw("["+string(m.Value)+"]"))
	case "enum":
		s.enum(m.Value)
	case "nullable":
		s.changed = true
		s.nullable = string(m.Value) == "true"
	case "allOf":
		s.allOf(m.Value)
	default:
		s.other(m)
	}
}

// change sets a member under its new name.
func (s *node) change(name string, value wire.Raw) {
	s.changed = true
	s.set(name, value)
}

func (s *node) inner(raw wire.Raw) wire.Raw {
	out, changed := s.w.schema(raw)
	s.changed = s.changed || changed
	return out
}

func (s *node) ref(raw wire.Raw) {
	if old := `"#/definitions/`; strings.HasPrefix(string(raw), old) {
		s.change("$ref", wire.Raw(`"#/$defs/`+string(raw[len(old):])))
		return
	}
	s.set("$ref", raw)
}

// enum removes the values that the API rejects: null, which becomes a type, and
// the empty string (GEM-25).
func (s *node) enum(raw wire.Raw) {
	values, ok := elements(raw)
	left := slices.DeleteFunc(slices.Clone(values), func(v wire.Raw) bool { return v.Kind() == 'n' || string(v) == `""` })
	if !ok || len(left) == len(values) && len(left) > 0 {
		s.set("enum", raw)
		return
	}
	s.changed = true
	for _, v := range values {
		s.nullable = s.nullable || v.Kind() == 'n'
		if string(v) == `""` {
			s.note("enum", wire.Raw(`an empty string is allowed too`))
		}
	}
	if len(left) > 0 {
		s.set("enum", joinItems(left))
	}
}

// allOf merges several schemas into one. Where two set the same keyword, the
// first wins.
func (s *node) allOf(raw wire.Raw) {
	branches, _ := elements(raw)
	s.changed = true
	if len(branches) > 1 {
		s.w.addMoved("allOf")
	}
	for _, branch := range branches {
		out, _ := s.w.schema(branch)
		var o wire.Object
		if o.UnmarshalJSON(out) != nil {
			continue
		}
		for _, m := range o {
			s.merge(m)
		}
	}
}

func (s *node) merge(m wire.Member) {
	have, ok := s.out.Get(m.Name)
	switch {
	case !ok:
		s.set(m.Name, m.Value)
	case m.Name == "properties":
		var a, b wire.Object
		if a.UnmarshalJSON(have) == nil && b.UnmarshalJSON(m.Value) == nil {
			s.set(m.Name, marshal(union(a, b, func(p wire.Member) string { return p.Name })))
		}
	case m.Name == "required":
		a, _ := elements(have)
		b, _ := elements(m.Value)
		s.set(m.Name, joinItems(union(a, b, func(name wire.Raw) string { return string(name) })))
	}
}

// union appends the elements of b that a does not have.
func union[T any](a, b []T, key func(T) string) []T {
	seen := map[string]bool{}
	for _, v := range a {
		seen[key(v)] = true
	}
	for _, v := range b {
		if !seen[key(v)] {
			a = append(a, v)
		}
	}
	return a
}

// other handles a keyword that holds no schema, or that the API does not accept.
func (s *node) other(m wire.Member) {
	switch {
	case slices.Contains(taken, m.Name):
		s.set(m.Name, m.Value)
	case slices.Contains(mute, m.Name):
		s.changed = true
	default:
		s.changed = true
		s.note(m.Name, m.Value)
	}
}

func (s *node) note(keyword string, value wire.Raw) {
	s.notes = append(s.notes, keyword+": "+string(wire.Compact(value)))
	s.w.addMoved(keyword)
}

// maxMoved limits how many keywords a report names.
const maxMoved = 32

// addMoved records a keyword for the report, once.
func (w *schemaWriter) addMoved(keyword string) {
	if len(w.moved) < maxMoved && !slices.Contains(w.moved, keyword) {
		w.moved = append(w.moved, keyword)
	}
}

func (s *node) finish() {
	if s.nullable {
		s.allowNull()
	}
	if t, ok := s.out.Get("type"); ok && strings.Contains(string(t), `"array"`) {
		s.itemsOf()
	}
	if len(s.notes) > 0 {
		text := strings.Join(s.notes, "; ")
		if have, ok := s.out.Get("description"); ok {
			if plain, err := unquote(have); err == nil {
				text = plain + " (" + text + ")"
			}
		}
		s.change("description", quote(text))
	}
	// The API accepts no other keyword beside a reference; wrapping it has the
	// same meaning (GEM-26).
	if ref, ok := s.out.Get("$ref"); ok && s.hasSiblings() {
		at := slices.IndexFunc(s.out, func(m wire.Member) bool { return m.Name == "$ref" })
		s.out = slices.Delete(slices.Clone(s.out), at, at+1)
		branch := wire.Raw(`{"$ref":` + string(ref) + `}`)
		if list, has := s.out.Get("anyOf"); has {
			s.change("anyOf", appendItem(list, branch))
		} else {
			s.change("anyOf", joinItems([]wire.Raw{branch}))
		}
	}
}

func (s *node) hasSiblings() bool {
	return slices.ContainsFunc(s.out, func(m wire.Member) bool { return !strings.HasPrefix(m.Name, "$") })
}

// allowNull adds null to the types that a schema allows.
func (s *node) allowNull() {
	t, ok := s.out.Get("type")
	switch {
	case !ok:
		if list, has := s.out.Get("anyOf"); has {
			s.set("anyOf", appendItem(list, wire.Raw(`{"type":"null"}`)))
		}
	case t.Kind() == '"' && string(t) != `"null"`:
		s.set("type", joinItems([]wire.Raw{t, wire.Raw(`"null"`)}))
	case t.Kind() == '[' && !strings.Contains(string(t), `"null"`):
		s.set("type", appendItem(t, wire.Raw(`"null"`)))
	}
}

// itemsOf adds items to an array schema, which the API requires (GEM-27).
func (s *node) itemsOf() {
	if _, ok := s.out.Get("items"); ok {
		return
	}
	if _, ok := s.out.Get("prefixItems"); ok {
		return
	}
	s.change("items", wire.Raw(`{"type":"string"}`))
	s.w.report.Approximate(s.w.path, "schema.items_added", "an array that does not say what it holds is sent as one of strings")
}

// emptySchema reports whether a schema describes a function without arguments.
func emptySchema(schema llm.Raw) bool {
	var o wire.Object
	if schema == "" || o.UnmarshalJSON([]byte(schema)) != nil {
		return strings.TrimSpace(string(schema)) == "" || strings.TrimSpace(string(schema)) == "null"
	}
	for _, m := range o {
		switch {
		case m.Name == "type" && string(m.Value) == `"object"`, m.Name == "$schema",
			m.Name == "additionalProperties" && string(m.Value) == "false",
			m.Name == "required" && string(wire.Compact(m.Value)) == "[]",
			m.Name == "properties" && string(wire.Compact(m.Value)) == "{}":
		default:
			return false
		}
	}
	return true
}

// rootType returns the type of a schema, or "" if it has none.
func rootType(schema llm.Raw) string {
	var o wire.Object
	if o.UnmarshalJSON([]byte(schema)) != nil {
		return "no schema"
	}
	t, _ := o.Get("type")
	s, err := strconv.Unquote(string(t))
	if err != nil {
		return string(t)
	}
	return s
}
