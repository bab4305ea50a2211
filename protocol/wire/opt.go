package wire

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

// optional is the interface of all types Opt[T] for the codec.
type optional interface {
	is() state
	setNull()
	target() any // returns a *T
	fill() any   // sets the state to filled and returns a *T
}

// Some returns an Opt that holds v.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, state: filled} }

// NonZero returns an Opt that holds v. It is absent if v is T's zero value.
func NonZero[T comparable](v T) Opt[T] {
	var zero T
	if v == zero {
		return Opt[T]{}
	}
	return Some(v)
}

// FromPtr returns an Opt that holds *p. It is absent if p is nil.
func FromPtr[T any](p *T) Opt[T] {
	if p == nil {
		return Opt[T]{}
	}
	return Some(*p)
}

// Null returns an Opt that is null.
func Null[T any]() Opt[T] { return Opt[T]{state: null} }

// IsSet reports whether o holds a value.
func (o Opt[T]) IsSet() bool { return o.state == filled }

// IsNull reports whether o is null.
func (o Opt[T]) IsNull() bool { return o.state == null }

// IsAbsent reports whether o is absent.
func (o Opt[T]) IsAbsent() bool { return o.state == absent }

// IsZero is the same as IsAbsent. The tag option "omitzero" of the JSON packages calls
// it.
func (o Opt[T]) IsZero() bool { return o.state == absent }

// Get returns the value and reports whether there is one.
func (o Opt[T]) Get() (T, bool) { return o.value, o.state == filled }

// Or returns the value, or def if there is none.
func (o Opt[T]) Or(def T) T {
	if o.state == filled {
		return o.value
	}
	return def
}

// Value returns the value, or T's zero value if there is none.
func (o Opt[T]) Value() T { return o.value }

// Ptr returns a pointer to the value, or nil if there is none.
func (o *Opt[T]) Ptr() *T {
	if o.state != filled {
		return nil
	}
	return &o.value
}

// Clone returns a pointer to a copy of the value, or nil if there is none.
func (o Opt[T]) Clone() *T {
	if o.state != filled {
		return nil
	}
	return &o.value
}

// MarshalJSON encodes the value, or null if there is none. [Marshal] leaves out an
// absent field instead.
func (o Opt[T]) MarshalJSON() ([]byte, error) { return Marshal(&o) }

// UnmarshalJSON decodes a value or null.
func (o *Opt[T]) UnmarshalJSON(b []byte) error { return Unmarshal(b, o) }

func (o *Opt[T]) is() state { return o.state }

func (o *Opt[T]) setNull() { *o = Opt[T]{state: null} }

func (o *Opt[T]) target() any { return &o.value }

func (o *Opt[T]) fill() any {
	o.state = filled
	return &o.value
}
