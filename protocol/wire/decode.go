package wire

import (
	"bytes"
	"errors"
	"reflect"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal reads data into v. What v held before is gone, also after an error.
func (s *Shape[T]) Unmarshal(data []byte, v *T) error { return s.unmarshal(data, v, false) }

// UnmarshalLenient is Unmarshal for texts that one has to live with, such as an
// upstream's answer: a member whose value does not suit its field is kept among
// the members that have no field.
func (s *Shape[T]) UnmarshalLenient(data []byte, v *T) error { return s.unmarshal(data, v, true) }

func (s *Shape[T]) unmarshal(data []byte, v *T, lenient bool) error {
	var zero T
	*v = zero
	if err := check(data); err != nil {
		return err
	}
	r := root{codec: s.codec(), into: reflect.ValueOf(v).Elem(), lenient: lenient}
	// Half a surrogate pair is "invalid UTF-8" to the decoder but may be a
	// fragment's end; bytes that are not UTF-8 were refused by check.
	err := json.Unmarshal(data, &r, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		return nil
	}
	*v = zero
	if r.err != nil {
		err = r.err // without what the library wraps around it
	}
	return asError(err)
}

// root is how a codec gets at one of the library's pooled decoders.
type root struct {
	codec   codec
	into    reflect.Value
	lenient bool
	err     error
}

// UnmarshalJSONFrom is called by the library.
func (r *root) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	r.err = r.codec.decode(&decoder{Decoder: d, lenient: r.lenient}, r.into)
	return r.err
}

type decoder struct {
	*jsontext.Decoder
	lenient bool
}

// misfit consumes the next value and says that it should be something else.
func (d *decoder) misfit(want string) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	return d.misfitOf(raw, want)
}

// misfitOf is misfit for a value that has just been read.
func (d *decoder) misfitOf(raw Raw, want string) error {
	return &misfit{
		at: &Error{
			Pointer: string(d.StackPointer()),
			Message: "want " + want + ", got " + kindNames[raw.Kind()],
		},
		raw: raw.Clone(),
	}
}

// literal reads a string and returns its literal, which is valid until the next
// read.
func (d *decoder) literal() (Raw, error) {
	if d.PeekKind() != '"' {
		return nil, d.misfit("a string")
	}
	return d.ReadValue()
}

// text decodes a literal.
func text(lit Raw) string {
	if bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1 : len(lit)-1])
	}
	s, _ := jsontext.AppendUnquote(nil, lit)
	return string(s)
}

func (o *object) decode(d *decoder, v reflect.Value) error {
	if d.PeekKind() != '{' {
		return d.misfit("an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	var slots [maxFields]int32 // most objects fit; it spares growing a slice
	order := slots[:0]
	var unknown Object
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		slot, err := o.decodeMember(d, v, name, &unknown)
		if err != nil {
			return err
		}
		order = append(order, slot)
	}
	if o.extra >= 0 {
		kept := v.Field(o.extra).Addr().Interface().(*Extra)
		kept.order = append([]int32(nil), order...)
		kept.unknown = unknown
	}
	_, err := d.ReadToken()
	return err
}

// decodeMember reads the member whose name has just been read, and returns what
// Extra.order says about it.
func (o *object) decodeMember(d *decoder, v reflect.Value, name Raw, unknown *Object) (int32, error) {
	member := Member{}
	if i, known := o.lookup(name); known {
		err := o.fields[i].decode(d, v)
		if err == nil {
			return int32(i), nil
		}
		bad, ok := errors.AsType[*misfit](err)
		if !ok || !d.lenient {
			return 0, err
		}
		member = Member{Name: o.fields[i].name, Value: bad.raw}
	} else {
		member.Name = text(name)
		raw, err := d.ReadValue()
		if err != nil {
			return 0, err
		}
		member.Value = raw.Clone()
	}
	*unknown = append(*unknown, member)
	return ^int32(len(*unknown) - 1), nil
}

func (o *object) lookup(literal Raw) (int, bool) {
	if bytes.IndexByte(literal, '\\') >= 0 {
		i, ok := o.byName[text(literal)]
		return i, ok
	}
	i, ok := o.byName[string(literal[1:len(literal)-1])]
	return i, ok
}

func (f *field) decode(d *decoder, v reflect.Value) error {
	if f.codec == nil {
		return rawCodec{}.decode(d, v.Field(f.index))
	}
	opt := v.Field(f.index).Addr().Interface().(optional)
	if d.PeekKind() == 'n' {
		opt.setNull()
		_, err := d.ReadToken()
		return err
	}
	err := f.codec.decode(d, reflect.ValueOf(opt.fill()).Elem())
	if err != nil {
		v.Field(f.index).SetZero()
	}
	return err
}

func (u *union) decode(d *decoder, v reflect.Value) error {
	f := u.forms[d.PeekKind()]
	if f == nil {
		return d.misfit(u.want)
	}
	return f.decode(d, v)
}

type stringCodec struct{}

func (stringCodec) decode(d *decoder, v reflect.Value) error {
	lit, err := d.literal()
	if err == nil {
		v.SetString(text(lit))
	}
	return err
}

type textCodec struct{}

func (textCodec) decode(d *decoder, v reflect.Value) error {
	lit, err := d.literal()
	if err == nil {
		v.Addr().Interface().(*Text).body = string(lit[1 : len(lit)-1])
	}
	return err
}

type boolCodec struct{}

func (boolCodec) decode(d *decoder, v reflect.Value) error {
	if k := d.PeekKind(); k != 't' && k != 'f' {
		return d.misfit("true or false")
	}
	tok, err := d.ReadToken()
	if err == nil {
		v.SetBool(tok.Bool())
	}
	return err
}

type numberCodec struct{}

func (numberCodec) decode(d *decoder, v reflect.Value) error {
	if k := d.PeekKind(); k != '0' && k != '"' {
		return d.misfit("a number")
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() == '"' && !Number(raw).valid() {
		return d.misfitOf(raw, "a number")
	}
	v.SetString(string(raw))
	return nil
}

type rawCodec struct{}

func (rawCodec) decode(d *decoder, v reflect.Value) error {
	raw, err := d.ReadValue()
	if err == nil {
		v.SetBytes(raw.Clone())
	}
	return err
}

type membersCodec struct{}

func (membersCodec) decode(d *decoder, v reflect.Value) error {
	// An object without fields and with nothing but extras.
	var all struct{ Extra Extra }
	if err := (&object{extra: 0}).decode(d, reflect.ValueOf(&all).Elem()); err != nil {
		return err
	}
	*v.Addr().Interface().(*Object) = append(Object{}, all.Extra.unknown...)
	return nil
}

type listCodec struct{ elem codec }

func (l listCodec) decode(d *decoder, v reflect.Value) error {
	if d.PeekKind() != '[' {
		return d.misfit("an array")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 1))
	for n := 0; d.PeekKind() != ']'; n++ {
		if n == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(n + 1)
		v.Index(n).SetZero() // Grow may hand out used memory
		if err := l.elem.decode(d, v.Index(n)); err != nil {
			return fatal(err)
		}
	}
	_, err := d.ReadToken()
	return err
}

// fatal takes a misfit's leniency away: in the middle of an array the decoder
// has already gone past what would have to be kept.
func fatal(err error) error {
	if bad, ok := errors.AsType[*misfit](err); ok {
		return bad.at
	}
	return err
}

// check finds what the decoder does not: nesting beyond MaxDepth, and bytes that
// are not UTF-8 (the decoder is told to let those pass).
func check(data []byte) error {
	if !utf8.Valid(data) {
		at := len(data) - len(bytes.TrimLeftFunc(data, func(r rune) bool { return r != utf8.RuneError }))
		return &Error{Pointer: pointerAt(data, at), Message: "the text is not valid UTF-8"}
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = stringEnd(data, i)
		case '{', '[':
			if depth++; depth > MaxDepth {
				return &Error{Pointer: pointerAt(data, i), Message: "arrays and objects are nested too deeply"}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// stringEnd returns where the string that starts at i ends.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		n := bytes.IndexByte(data[i:], '"')
		if n < 0 {
			return len(data)
		}
		slashes := 0
		for slashes < n && data[i+n-1-slashes] == '\\' {
			slashes++
		}
		i += n
		if slashes%2 == 0 {
			return i
		}
	}
	return i
}

// pointerAt returns the pointer to the value that holds the byte at offset.
func pointerAt(data []byte, offset int) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for d.InputOffset() <= int64(offset) {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	return string(d.StackPointer())
}
