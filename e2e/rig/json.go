package rig

import (
	"encoding/json"
	"slices"
)

// Object is decoded JSON with short ways to its members; what is missing is zero.
type Object map[string]any

// Parse is a body as an object; what is no JSON is an empty one.
func Parse(body []byte) Object {
	var o Object
	_ = json.Unmarshal(body, &o) // what is no JSON has no facts, and the comparison says so
	return o
}

// Str is a member that is a text.
func (o Object) Str(name string) string { s, _ := o[name].(string); return s }

// Num is a member that is a whole number.
func (o Object) Num(name string) int { n, _ := o[name].(float64); return int(n) }

// Flag is a member that is true or false.
func (o Object) Flag(name string) bool { b, _ := o[name].(bool); return b }

// Has says whether a member is there and not null.
func (o Object) Has(name string) bool { v, ok := o[name]; return ok && v != nil }

// Obj is a member that is an object.
func (o Object) Obj(name string) Object { m, _ := o[name].(map[string]any); return m }

// List is a member that is a list of objects.
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

// Texts is the text of content that is a string or a list of parts.
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

// Compact is v as JSON.
func Compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Sorted is s, sorted in place.
func Sorted(s []string) []string {
	slices.Sort(s)
	return s
}
