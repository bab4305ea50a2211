package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// taken are the keywords of JSON Schema that the API honours. One that it does
// not know fails the whole request, so everything else is taken out (GEM-22).
var taken = []string{
	"$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
	"minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
	"propertyOrdering",
}

// mute are keywords that say nothing to a model.
var mute = []string{"$schema", "$comment", "$vocabulary", "definitions"}

// schemaWriter fits a JSON Schema to what the API takes. A constraint that has no
// place goes into the description, where the model can read it.
type schemaWriter struct {
	report *llm.Report
	path   string // of the tool or the format, for the report
	moved  []string
}

// fitSchema returns the schema unchanged, to the byte, if all of it is taken.
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

// schema fits one schema and those inside it. Recursion follows the text, whose
// nesting is bounded; references are kept, so that nothing is written out twice.
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

// node is one schema in the making.
type node struct {
	w        *schemaWriter
	out      wire.Object
	notes    []string // what goes into the description
	nullable bool
	changed  bool
}

func (s *node) set(name string, value wire.Raw) { s.out = s.out.With(name, value) }

func (s *node) member(m wire.Member) {
	switch m.Name {
	case "items":
		if m.Value.Kind() == '[' { // a tuple in the older form
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

// change sets a member that was called otherwise.
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

// enum takes out what the API refuses among the values: null, which becomes a
// type, and the empty string (GEM-25).
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

// allOf is one schema with what all of them say; where two say the same thing
// the first stands.
func (s *node) allOf(raw wire.Raw) {
	branches, _ := elements(raw)
	s.changed = true
	if len(branches) > 1 {
		s.w.tell("allOf")
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

// union adds what a has not.
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

// other is a keyword that holds no schemas, or that the API does not take.
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
	s.w.tell(keyword)
}

// maxTold bounds how many keywords a report names.
const maxTold = 32

// tell remembers a keyword for the report, once.
func (w *schemaWriter) tell(keyword string) {
	if len(w.moved) < maxTold && !slices.Contains(w.moved, keyword) {
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
	// Beside a reference the API takes nothing; wrapped it means the same (GEM-26).
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

// itemsOf says what an array holds, which the API insists on (GEM-27).
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

// emptySchema reports whether a function takes no arguments.
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

// rootType is what a schema says that the whole value is; empty where it does
// not say.
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
