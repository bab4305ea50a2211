package wire

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"reflect"
)

// List is a JSON array. It holds the text of the array, and [List.All] decodes one element
// at a time, because a decoded element can take a hundred times the memory of its text. The
// zero List is an empty array.
type List[T any] struct {
	text    Raw
	n       int
	lenient bool
	built   bool  // text is not shared with other lists
	err     error // of Append
}

// list is the interface of all types List[T] for the codec.
type list interface {
	elem() reflect.Type
	set(text Raw, n int, lenient bool)
	array() (Raw, error)
}

// ListOf returns a list of the given elements.
func ListOf[T any](elems ...T) List[T] {
	var l List[T]
	for i := range elems {
		l.Append(&elems[i])
	}
	return l
}

// Len returns the number of elements.
func (l List[T]) Len() int { return l.n }

// All returns an iterator over the positions and the elements. An element is valid until
// the next one: the iterator uses the same memory for all of them.
func (l List[T]) All() iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		if l.n == 0 {
			return
		}
		elem := new(T)
		d := decoder{Scanner: NewScanner(l.text), lenient: l.lenient, checked: true}
		codec, into := codecFor(l.elem()), reflect.ValueOf(elem).Elem()
		_, err := d.array(func(i int) error {
			into.SetZero()
			if err := codec.decode(&d, into); err != nil {
				return err
			}
			if !yield(i, elem) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			panic("wire: a list that was checked is invalid: " + err.Error())
		}
	}
}

// Slice returns the elements.
func (l List[T]) Slice() []T {
	all := make([]T, 0, l.n)
	for _, e := range l.All() {
		all = append(all, *e)
	}
	return all
}

// Append encodes an element and adds it at the end. [Marshal] returns the error if that
// fails.
func (l *List[T]) Append(elem *T) {
	if l.err != nil {
		return
	}
	l.open()
	var err error
	if l.text, err = Append(l.text, elem); err != nil {
		l.err = fmt.Errorf("%d: %w", l.n, err)
		return
	}
	l.text, l.n = append(l.text, ']'), l.n+1
}

// Join adds the elements of another list at the end.
func (l *List[T]) Join(other List[T]) {
	switch {
	case l.err != nil:
	case other.err != nil:
		l.err = other.err
	case other.n == 0:
	case l.n == 0:
		*l = other
		l.built = false
	default:
		l.open()
		l.text, l.n = append(l.text, other.text[1:]...), l.n+other.n
	}
}

// open replaces the bracket at the end of the text by a comma.
func (l *List[T]) open() {
	if !l.built {
		l.text, l.built = bytes.Clone(l.text), true
	}
	if l.n == 0 {
		l.text = append(l.text[:0], '[')
	} else {
		l.text[len(l.text)-1] = ','
	}
}

// MarshalJSON encodes the array.
func (l List[T]) MarshalJSON() ([]byte, error) { return Marshal(&l) }

// UnmarshalJSON decodes an array.
func (l *List[T]) UnmarshalJSON(b []byte) error { return Unmarshal(b, l) }

func (l *List[T]) elem() reflect.Type { return reflect.TypeFor[T]() }

func (l *List[T]) set(text Raw, n int, lenient bool) {
	*l = List[T]{text: text, n: n, lenient: lenient}
}

func (l *List[T]) array() (Raw, error) { return l.text, l.err }

var errStopped = errors.New("stopped")

// listCodec is the codec of a List.
type listCodec struct{ elem reflect.Type }

func (c listCodec) decode(d *decoder, v reflect.Value) error {
	n := 0
	elem := codecFor(c.elem)
	text, err := d.array(func(int) error {
		n++
		if d.checked {
			return d.skip()
		}
		return d.element(elem)
	})
	if err != nil {
		return err
	}
	v.Addr().Interface().(list).set(d.keep(text), n, d.lenient)
	return nil
}

func (c listCodec) check(d *decoder) error {
	elem := codecFor(c.elem)
	_, err := d.array(func(int) error { return d.element(elem) })
	return err
}

func (c listCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	text, err := v.Addr().Interface().(list).array()
	if err != nil || len(text) == 0 {
		return append(dst, "[]"...), err
	}
	return append(dst, text...), nil
}

// A text may have minElements objects and strings in its arrays, and one more for each
// elementSize bytes. Translation keeps some hundred bytes for each object, even if it is
// empty.
const (
	minElements = 1000
	elementSize = 16
	smallText   = 4 << 10 // too small for many elements
)

// MaxElements returns how many objects and strings the arrays of a text of the given size
// may have.
func MaxElements(size int) int { return minElements + size/elementSize }

// element checks an element of a list.
func (d *decoder) element(c codec) error {
	if d.Kind() == '{' {
		if err := d.count(); err != nil {
			return err
		}
	}
	return c.check(d)
}

// count counts an element of an array.
func (d *decoder) count() error {
	if d.elements++; d.elements > MaxElements(len(d.b)) {
		return &misfit{at: d.i, message: tooManyElements}
	}
	return nil
}

const tooManyElements = "the arrays have too many elements for the size of the text"

// Estimates of the memory that translation takes: for each byte of the text, and for each
// object, array and comma outside its strings.
const (
	costPerByte  = 6
	costPerValue = 512
)

// Cost returns how many bytes of memory the translation of a JSON text takes at most, about.
func Cost(text []byte) int64 {
	values := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '{', '[', ',':
			values++
		}
	}
	return costPerByte*int64(len(text)) + costPerValue*int64(values)
}

// CheckElements returns an error if a text has more objects in its arrays than [Unmarshal]
// accepts. It is for texts that are decoded into other types.
func CheckElements(text []byte) error {
	if len(text) < smallText {
		return nil
	}
	elements, arrays, depth := 0, uint64(0), 0 // a bit of arrays is set if the container at that depth is an array
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
		case '{', '[':
			if text[i] == '{' && arrays&(1<<(depth%64)) != 0 {
				if elements++; elements > MaxElements(len(text)) {
					return &Error{Message: tooManyElements}
				}
			}
			depth++
			arrays &^= 1 << (depth % 64)
			if text[i] == '[' {
				arrays |= 1 << (depth % 64)
			}
		case '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return nil
}
