package testrig

import (
	"encoding/json"
	"strings"
)

// Object is decoded JSON with accessors; a missing member is the zero value.
type Object map[string]any

// Parse returns a body as an object, nil if it is none.
func Parse(body []byte) Object {
	var o Object
	if json.Unmarshal(body, &o) != nil {
		return nil
	}
	return o
}

// Str returns a string member.
func (o Object) Str(name string) string { s, _ := o[name].(string); return s }

// Num returns an integer member.
func (o Object) Num(name string) int { n, _ := o[name].(float64); return int(n) }

// Flag returns a boolean member.
func (o Object) Flag(name string) bool { b, _ := o[name].(bool); return b }

// Has reports whether a member is present and not null.
func (o Object) Has(name string) bool { v, ok := o[name]; return ok && v != nil }

// Obj returns an object member.
func (o Object) Obj(name string) Object { m, _ := o[name].(map[string]any); return m }

// List returns a member that is a list of objects.
func (o Object) List(name string) []Object {
	items, _ := o[name].([]any)
	var out []Object
	for _, i := range items {
		if m, ok := i.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// Texts returns the text of content that is a string or a list of parts.
func (o Object) Texts(name string) []string {
	if s := o.Str(name); s != "" {
		return []string{s}
	}
	var out []string
	for _, p := range o.List(name) {
		if s := p.Str("text"); s != "" && !p.Flag("thought") {
			out = append(out, s)
		}
	}
	return out
}

// Text returns the texts of content in one piece.
func (o Object) Text(name string) string { return strings.Join(o.Texts(name), "") }

// Compact returns v as JSON.
func Compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
