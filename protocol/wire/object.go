package wire

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object, with its value as JSON text.
type Member struct {
	Name  string
	Value Raw
}

// Object is the list of an object's members in their order.
type Object []Member

// Get returns the value of the named member and reports whether there is one.
func (o Object) Get(name string) (Raw, bool) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value, true
		}
	}
	return nil, false
}

// With returns a copy of o in which the named member has the value. An existing member
// keeps its place; a new one is added at the end.
func (o Object) With(name string, value Raw) Object {
	out := slices.Clone(o)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, Member{Name: name, Value: value})
}

// MarshalJSON encodes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) { return Marshal(&o) }

// UnmarshalJSON decodes the members in their order.
func (o *Object) UnmarshalJSON(b []byte) error { return Unmarshal(b, o) }

// Extra is a field of a struct that [Unmarshal] decodes. It stores the order of the members
// of the decoded object, and the members for which the struct has no field. Its tag is
// `json:"-"`.
type Extra struct {
	// order lists the members of the decoded object. An entry is the number of a
	// field, or the complement (^i) of an index of unknown. Members that were added
	// after decoding are only in unknown.
	order   []int32
	unknown Object
}

// NewExtra returns an Extra with the given members. Use it to move members to a struct
// of another type: an Extra cannot be copied there, because it refers to fields by their
// number.
func NewExtra(members Object) Extra { return Extra{unknown: members} }

// Get returns the value of a member without a field and reports whether there is one.
func (e Extra) Get(name string) (Raw, bool) { return e.unknown.Get(name) }

// All returns the members without a field in their order. The caller must not modify
// them.
func (e Extra) All() Object { return e.unknown }

// Set sets the value of a member without a field. An existing member keeps its place; a
// new one is added at the end. If the struct has a field of that name, the field is
// written instead, unless it is absent.
func (e *Extra) Set(name string, value Raw) { e.unknown = e.unknown.With(name, value) }

// Delete removes the named member.
func (e *Extra) Delete(name string) {
	at := slices.IndexFunc(e.unknown, func(m Member) bool { return m.Name == name })
	if at < 0 {
		return
	}
	order := make([]int32, 0, len(e.order))
	for _, o := range e.order {
		switch i := int(^o); {
		case o >= 0 || i < at:
			order = append(order, o)
		case i > at:
			order = append(order, o+1) // the complement of i-1
		}
	}
	e.order = order
	e.unknown = slices.Delete(slices.Clone(e.unknown), at, at+1)
}

// Compact returns raw without white space between tokens. It keeps the order of members
// and the text of numbers and strings. It returns invalid JSON unchanged.
func Compact(raw Raw) Raw {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	out, err := jsontext.AppendFormat(nil, raw,
		jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return raw
	}
	return out
}
