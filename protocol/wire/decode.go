package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes data into the value that v points to. Its type must be a struct of
// this package's field types, a union, an [Opt], or a slice of one of these; Unmarshal
// panics if it has a field of another type. It overwrites the value even if it returns
// an error.
func Unmarshal(data []byte, v any) error { return unmarshal(data, v, false, MaxDepth) }

// UnmarshalPart is like Unmarshal, for a part of a request or a response that was
// decoded before: it accepts the nesting of responses.
func UnmarshalPart(data []byte, v any) error { return unmarshal(data, v, false, maxScanDepth) }

// UnmarshalLenient is like Unmarshal, but keeps a member whose value has the wrong
// kind for its field among the members without a field, and accepts deeper nesting. It
// is for responses of upstreams.
func UnmarshalLenient(data []byte, v any) error { return unmarshal(data, v, true, maxScanDepth) }

func unmarshal(data []byte, v any, lenient bool, depth int) error {
	into := reflect.ValueOf(v).Elem()
	into.SetZero()
	if err := check(data, depth); err != nil {
		return err
	}
	r := root{codec: codecFor(into.Type()), into: into, decoder: decoder{data: data, lenient: lenient}}
	// The decoder treats an unpaired surrogate as invalid UTF-8, but a fragment may
	// end with one. check has rejected all other invalid UTF-8.
	err := json.Unmarshal(data, &r, jsontext.AllowInvalidUTF8(true))
	if err == nil {
		return nil
	}
	into.SetZero()
	if r.err != nil {
		err = r.err // without the library's wrapper
	}
	return asError(err)
}

// Lenient are options of the JSON library that accept duplicate names and invalid UTF-8.
// They are for responses of upstreams and for values that a client sends back.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// root gives a codec access to one of the library's pooled decoders.
type root struct {
	codec   codec
	into    reflect.Value
	decoder decoder
	err     error
}

// UnmarshalJSONFrom implements the library's interface.
func (r *root) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	r.decoder.Decoder = d
	r.err = r.codec.decode(&r.decoder, r.into)
	return r.err
}

type decoder struct {
	*jsontext.Decoder
	data     []byte // the text that is decoded
	lenient  bool
	checked  bool // data is part of a text that was checked, and no one changes it
	elements int  // objects in arrays so far
}

// misfit reads the next value and returns the error that it has the wrong kind.
func (d *decoder) misfit(want string) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	return d.misfitOf(raw, want)
}

// misfitOf is like misfit, for a value that has been read already.
func (d *decoder) misfitOf(raw Raw, want string) error {
	return &misfit{
		at: &Error{
			Pointer: string(d.StackPointer()),
			Message: "want " + want + ", got " + kindNames[raw.Kind()],
		},
		raw: raw.Clone(),
	}
}

// literal reads a string and returns its JSON text, which is valid until the next read.
func (d *decoder) literal() (Raw, error) {
	if d.PeekKind() != '"' {
		return nil, d.misfit("a string")
	}
	return d.ReadValue()
}

// text returns the string that a JSON string stands for. An incomplete string, which
// only values from outside a decoder can be, stands for the part before its end.
func text(lit Raw) string {
	if n := len(lit); n > 1 && lit[n-1] == '"' && bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1 : n-1])
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
	var slots [maxFields]int32 // avoids an allocation for most objects
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
		if order = append(order, slot); len(order) > MaxMembers && len(o.fields) > 0 {
			return d.tooManyMembers()
		}
	}
	if o.extra >= 0 {
		kept := v.Field(o.extra).Addr().Interface().(*Extra)
		kept.order = append([]int32(nil), order...)
		kept.unknown = unknown
	}
	_, err := d.ReadToken()
	return err
}

// tooManyMembers returns the error of an object of a struct with more than MaxMembers
// members. Codecs may look for each of them in all of them.
func (d *decoder) tooManyMembers() error {
	return &Error{Pointer: string(d.StackPointer()), Message: "an object has more than " + strconv.Itoa(MaxMembers) + " members"}
}

// decodeMember reads the value of the member whose name has just been read. It returns
// the member's entry in Extra.order.
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
	return f.codec.decode(d, v.Field(f.index))
}

// optCodec is the codec of an Opt.
type optCodec struct{ value codec }

func (c optCodec) decode(d *decoder, v reflect.Value) error {
	opt := v.Addr().Interface().(optional)
	if d.PeekKind() == 'n' {
		opt.setNull()
		_, err := d.ReadToken()
		return err
	}
	err := c.value.decode(d, reflect.ValueOf(opt.fill()).Elem())
	if err != nil {
		v.SetZero()
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
	raw, err := d.number()
	if err == nil {
		v.SetString(string(raw))
	}
	return err
}

// number reads a number, or a string that holds one.
func (d *decoder) number() (Raw, error) {
	if k := d.PeekKind(); k != '0' && k != '"' {
		return nil, d.misfit("a number")
	}
	raw, err := d.ReadValue()
	if err == nil && raw.Kind() == '"' && !Number(raw).valid() {
		return nil, d.misfitOf(raw, "a number")
	}
	return raw, err
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
	// Decode into a struct without fields, so that all members are unknown.
	var all struct{ Extra Extra }
	if err := (&object{extra: 0}).decode(d, reflect.ValueOf(&all).Elem()); err != nil {
		return err
	}
	*v.Addr().Interface().(*Object) = append(Object{}, all.Extra.unknown...)
	return nil
}

// stringsCodec is the codec of a slice of strings.
type stringsCodec struct{ elem codec }

func (c stringsCodec) decode(d *decoder, v reflect.Value) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 1))
	_, err := d.array(func(n int) error {
		if err := d.count(); err != nil {
			return err
		}
		if n == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(n + 1)
		v.Index(n).SetZero() // memory from Grow may hold old values
		return c.elem.decode(d, v.Index(n))
	})
	return err
}

// array reads an array and calls elem for each of its elements. It returns the text of the
// array.
func (d *decoder) array(elem func(n int) error) (Raw, error) {
	if d.PeekKind() != '[' {
		return nil, d.misfit("an array")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	begin := d.InputOffset() - 1
	for n := 0; d.PeekKind() != ']'; n++ {
		if err := elem(n); err != nil {
			return nil, fatal(err)
		}
	}
	_, err := d.ReadToken()
	return d.data[begin:d.InputOffset()], err
}

// fatal turns a misfit into an error that lenient decoding returns too. In an array the
// decoder has already read past the value that it would have to keep.
func fatal(err error) error {
	if bad, ok := errors.AsType[*misfit](err); ok {
		return bad.at
	}
	return err
}

// check rejects nesting beyond maxDepth and invalid UTF-8, which the decoder accepts.
func check(data []byte, maxDepth int) error {
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
			if depth++; depth > maxDepth {
				return &Error{Pointer: pointerAt(data, i), Message: "arrays and objects are nested too deeply"}
			}
		case '}', ']':
			depth--
		}
	}
	return nil
}

// pointerAt returns the JSON pointer to the value that contains the byte at offset.
func pointerAt(data []byte, offset int) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for d.InputOffset() <= int64(offset) {
		if _, err := d.ReadToken(); err != nil {
			break
		}
	}
	return string(d.StackPointer())
}
