package wire

import (
	"fmt"
	"reflect"
)

// Marshal returns v as JSON. Its type, or the type that it points to, must be one that
// [Unmarshal] accepts.
func Marshal(v any) ([]byte, error) { return Append(nil, v) }

// Append appends v as JSON to dst. It is like [Marshal] otherwise.
func Append(dst []byte, v any) ([]byte, error) {
	from := reflect.ValueOf(v)
	if from.Kind() == reflect.Pointer {
		return codecFor(from.Type().Elem()).append(dst, from.Elem())
	}
	addressable := reflect.New(from.Type()).Elem()
	addressable.Set(from)
	return codecFor(from.Type()).append(dst, addressable)
}

func (o *object) append(dst []byte, v reflect.Value) ([]byte, error) {
	w := writer{object: o, v: v, dst: append(dst, '{')}
	var extra Extra
	if o.extra >= 0 {
		extra = *v.Field(o.extra).Addr().Interface().(*Extra)
	}
	added := 0 // the unknown members from here on were added after decoding
	for _, n := range extra.order {
		if n >= 0 {
			w.field(int(n))
		} else {
			w.unknown(extra.unknown[^n])
			added++
		}
	}
	for i := range o.fields {
		w.field(i)
	}
	for _, m := range extra.unknown[added:] {
		w.unknown(m)
	}
	return append(w.dst, '}'), w.err
}

// writer writes the members of one object.
type writer struct {
	*object
	v       reflect.Value
	dst     []byte
	written uint64 // a bit for each field
	members int
	err     error
}

// field writes a field unless it is absent or has been written already.
func (w *writer) field(i int) {
	f := &w.fields[i]
	if w.err != nil || w.written&(1<<i) != 0 || f.absent(w.v) {
		return
	}
	w.written |= 1 << i
	w.comma()
	w.dst = append(w.dst, f.prefix...)
	w.dst, w.err = f.append(w.dst, w.v)
	if w.err != nil {
		w.err = fmt.Errorf("%s: %w", f.name, w.err)
	}
}

// unknown writes a member of Extra. If the struct has a field of the same name, it
// writes the field instead, unless that is absent.
func (w *writer) unknown(m Member) {
	if i, ok := w.byName[m.Name]; ok {
		w.field(i)
		if w.written&(1<<i) != 0 {
			return
		}
	}
	if w.err != nil {
		return
	}
	w.comma()
	w.dst, w.err = appendMember(w.dst, m)
}

func (w *writer) comma() {
	if w.members++; w.members > 1 {
		w.dst = append(w.dst, ',')
	}
}

func appendMember(dst []byte, m Member) ([]byte, error) {
	dst, err := appendQuote(dst, m.Name)
	if err != nil {
		return dst, fmt.Errorf("member %q: %w", m.Name, err)
	}
	if len(m.Value) == 0 {
		return dst, fmt.Errorf("member %q has no value; delete it or set it to null", m.Name)
	}
	return append(append(dst, ':'), m.Value...), nil
}

func (f *field) absent(v reflect.Value) bool {
	if _, raw := f.codec.(rawCodec); raw {
		return v.Field(f.index).Len() == 0
	}
	return v.Field(f.index).Addr().Interface().(optional).is() == absent
}

func (f *field) append(dst []byte, v reflect.Value) ([]byte, error) {
	return f.codec.append(dst, v.Field(f.index))
}

func (c optCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	opt := v.Addr().Interface().(optional)
	if opt.is() != filled {
		return append(dst, "null"...), nil
	}
	return c.value.append(dst, reflect.ValueOf(opt.target()).Elem())
}

func (u *union) append(dst []byte, v reflect.Value) ([]byte, error) {
	var form *field
	for _, f := range u.all {
		if f.absent(v) {
			continue
		}
		if form != nil {
			return dst, fmt.Errorf("%s holds two forms at once; set one", v.Type())
		}
		form = f
	}
	if form == nil {
		return dst, fmt.Errorf("%s holds no value; set one of its forms", v.Type())
	}
	return form.append(dst, v)
}

func (stringCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	return appendQuote(dst, v.String())
}

func (textCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	return v.Addr().Interface().(*Text).appendLiteral(dst), nil
}

func (boolCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Bool() {
		return append(dst, "true"...), nil
	}
	return append(dst, "false"...), nil
}

func (numberCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	n := Number(v.String())
	if !n.valid() {
		return dst, fmt.Errorf("%q is not a number", string(n))
	}
	return append(dst, n...), nil
}

func (rawCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	raw := v.Bytes()
	if len(raw) == 0 {
		return append(dst, "null"...), nil // an element cannot be absent
	}
	return append(dst, raw...), nil
}

func (membersCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	var err error
	for i, m := range *v.Addr().Interface().(*Object) {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendMember(dst, m); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func (c stringsCodec) append(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '[')
	var err error
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = c.elem.append(dst, v.Index(i)); err != nil {
			return dst, fmt.Errorf("%d: %w", i, err)
		}
	}
	return append(dst, ']'), nil
}
