package wire

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Opt is a member that may be absent, null or a value. The zero Opt is absent.
type Opt[T any] struct {
	value T
	state state
}

type state uint8

const (
	absent state = iota
	null
	filled
)

// optional is what the codec needs of an Opt without knowing its type.
type optional interface {
	is() state
	setNull()
	target() any // *T
	fill() any   // *T, and from now on the Opt holds a value
}

// Some is an Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, state: filled} }

// Null is an Opt that is written as null.
func Null[T any]() Opt[T] { return Opt[T]{state: null} }

// IsSet reports whether o holds a value.
func (o Opt[T]) IsSet() bool { return o.state == filled }

// IsNull reports whether o is null.
func (o Opt[T]) IsNull() bool { return o.state == null }

// IsAbsent reports whether the member is not there at all.
func (o Opt[T]) IsAbsent() bool { return o.state == absent }

// IsZero is IsAbsent under the name that the "omitzero" tag option looks for.
func (o Opt[T]) IsZero() bool { return o.state == absent }

// Get returns the value, and whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.value, o.state == filled }

// Or returns the value, or def where there is none.
func (o Opt[T]) Or(def T) T {
	if o.state == filled {
		return o.value
	}
	return def
}

// Value returns the value, or T's zero value where there is none.
func (o Opt[T]) Value() T { return o.value }

// Ptr returns the address of the value, for changing it in place; nil where
// there is none.
func (o *Opt[T]) Ptr() *T {
	if o.state != filled {
		return nil
	}
	return &o.value
}

// MarshalJSON writes the value or null. Absent cannot be written on its own and
// becomes null too; inside a struct of this package it is left out.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if o.state != filled {
		return []byte("null"), nil
	}
	return json.Marshal(o.value, jsontext.AllowInvalidUTF8(true))
}

// UnmarshalJSON reads a value or null.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	*o = Opt[T]{}
	if string(b) == "null" {
		o.setNull()
		return nil
	}
	o.state = filled
	return json.Unmarshal(b, &o.value, jsontext.AllowInvalidUTF8(true))
}

func (o *Opt[T]) is() state { return o.state }

func (o *Opt[T]) setNull() { *o = Opt[T]{state: null} }

func (o *Opt[T]) target() any { return &o.value }

func (o *Opt[T]) fill() any {
	o.state = filled
	return &o.value
}
