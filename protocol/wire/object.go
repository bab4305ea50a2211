package wire

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object, its value unread.
type Member struct {
	Name  string
	Value Raw
}

// Object is a JSON object whose members keep their order.
type Object []Member

// Get returns the value of the named member, and whether there is one.
func (o Object) Get(name string) (Raw, bool) {
	for i := range o {
		if o[i].Name == name {
			return o[i].Value, true
		}
	}
	return nil, false
}

// With returns the object with the member set: in its old place where it had
// one, else at the end. o itself is not changed.
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

// MarshalJSON writes the members in their order.
func (o Object) MarshalJSON() ([]byte, error) { return objectShape.Marshal(&o) }

// UnmarshalJSON reads the members in their order.
func (o *Object) UnmarshalJSON(b []byte) error { return objectShape.Unmarshal(b, o) }

var objectShape = Describe[Object]()

// Extra is a struct's memory of the object that it was read from: the order of
// its members, and the members that have no field. It is a field of the struct,
// tagged `json:"-"`.
type Extra struct {
	// order holds a field's number, or the complement of an index into unknown.
	// Members that were added later are in unknown only.
	order   []int32
	unknown Object
}

// NewExtra returns a memory of these members alone. An Extra belongs to the type
// that it was decoded with, because it knows fields by their number; this is the
// way to carry members over to another type.
func NewExtra(members Object) Extra { return Extra{unknown: members} }

// Get returns the member of that name that has no field.
func (e Extra) Get(name string) (Raw, bool) { return e.unknown.Get(name) }

// All returns the members that have no field, in the order they came in. The
// caller must not change them.
func (e Extra) All() Object { return e.unknown }

// Set sets a member that has no field: in its old place where it had one, else
// behind all others. Where the struct does have a field of that name, the field
// is written unless it is absent.
func (e *Extra) Set(name string, value Raw) { e.unknown = e.unknown.With(name, value) }

// Delete takes the member of that name out.
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

// Compact returns raw without white space between tokens; number text, strings
// and order stay as they are. Text that is not JSON comes back as it is.
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
