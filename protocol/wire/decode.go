package wire

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
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
	if !utf8.Valid(data) {
		at := len(data) - len(bytes.TrimLeftFunc(data, func(r rune) bool { return r != utf8.RuneError }))
		return &Error{Pointer: pointerAt(data, at), Message: "the text is not valid UTF-8"}
	}
	d := decoder{Scanner: Scanner{b: data, maxDepth: depth, unique: true}, lenient: lenient}
	err := codecFor(into.Type()).decode(&d, into)
	if err == nil && d.End() != nil {
		err = errSyntax
	}
	if err == nil {
		return nil
	}
	into.SetZero()
	return d.explain(err)
}

// Lenient are options of the JSON library that accept duplicate names and invalid UTF-8.
// They are for responses of upstreams and for values that a client sends back.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decoder reads the text of a value for the codecs.
type decoder struct {
	Scanner
	lenient  bool
	checked  bool // the text is part of one that was checked, and no one changes it
	elements int  // objects in arrays so far
}

// errSyntax is the error of a text that is not valid JSON, until [decoder.explain].
var errSyntax = errors.New("syntax")

// explain returns the [*Error] for an error of a codec. The JSON library describes what
// is wrong with the syntax.
func (d *decoder) explain(err error) error {
	if bad, ok := errors.AsType[*misfit](err); ok {
		return &Error{Pointer: pointerAt(d.b, bad.at), Message: bad.message}
	}
	if d.depth > d.maxDepth {
		return &Error{Pointer: pointerAt(d.b, d.i-1), Message: "arrays and objects are nested too deeply"}
	}
	var value Raw
	if err := json.Unmarshal(d.b, &value, jsontext.AllowInvalidUTF8(true)); err != nil {
		return asError(err)
	}
	return &Error{Message: "not valid JSON at byte " + strconv.Itoa(d.i), Cause: errNoReason}
}

// read reads the next value and returns its text.
func (d *decoder) read() (Raw, error) {
	if raw := d.Value(); raw != nil {
		return raw, nil
	}
	return nil, errSyntax
}

// keep returns a text of the decoder for a decoded value.
func (d *decoder) keep(text Raw) Raw {
	if d.checked {
		return slices.Clip(text)
	}
	return text.Clone()
}

// skip reads the next value.
func (d *decoder) skip() error {
	_, err := d.read()
	return err
}

// misfit reads the next value and returns the error that it has the wrong kind.
func (d *decoder) misfit(want string) error {
	raw, err := d.read()
	if err != nil {
		return err
	}
	return d.misfitOf(raw, want)
}

// misfitOf is like misfit, for a value that has just been read.
func (d *decoder) misfitOf(raw Raw, want string) error {
	return &misfit{at: d.i - len(raw), message: "want " + want + ", got " + kindNames[raw.Kind()], raw: raw}
}

// literal reads a string and returns its JSON text.
func (d *decoder) literal() (Raw, error) {
	if d.Kind() != '"' {
		return nil, d.misfit("a string")
	}
	return d.read()
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

// object reads an object and calls member for each of its members.
func (d *decoder) object(member func(name []byte) error) error {
	if d.Kind() != '{' {
		return d.misfit("an object")
	}
	first := len(d.names)
	for more := d.open('}'); more; more = d.more('}') {
		name, ok := d.name(first)
		if !ok {
			return errSyntax
		}
		if err := member(name); err != nil {
			return err
		}
	}
	d.forget(first)
	if d.failed {
		return errSyntax
	}
	return nil
}

func (o *object) decode(d *decoder, v reflect.Value) error {
	var slots [maxFields]int32 // avoids an allocation for most objects
	order := slots[:0]
	var unknown Object
	err := d.object(func(name []byte) error {
		slot, err := o.decodeMember(d, v, name, &unknown)
		if order = append(order, slot); err == nil && len(order) > MaxMembers && len(o.fields) > 0 {
			return d.tooManyMembers()
		}
		return err
	})
	if err == nil && o.extra >= 0 {
		kept := v.Field(o.extra).Addr().Interface().(*Extra)
		kept.order = append([]int32(nil), order...)
		kept.unknown = unknown
	}
	return err
}

// tooManyMembers returns the error of an object of a struct with more than MaxMembers
// members. Codecs may look for each of them in all of them.
func (d *decoder) tooManyMembers() error {
	return &misfit{at: d.i - 1, message: "an object has more than " + strconv.Itoa(MaxMembers) + " members"}
}

// decodeMember reads the value of the member whose name has just been read. It returns
// the member's entry in Extra.order.
func (o *object) decodeMember(d *decoder, v reflect.Value, name []byte, unknown *Object) (int32, error) {
	var member Member
	if i, known := o.byName[string(Name(name))]; known {
		err := o.fields[i].decode(d, v)
		if err == nil {
			return int32(i), nil
		}
		raw, ok := d.kept(err)
		if !ok {
			return 0, err
		}
		member = Member{Name: o.fields[i].name, Value: d.keep(raw)}
	} else {
		raw, err := d.read()
		if err != nil {
			return 0, err
		}
		member = Member{Name: string(Name(name)), Value: d.keep(raw)}
	}
	*unknown = append(*unknown, member)
	return ^int32(len(*unknown) - 1), nil
}

// kept returns the value that lenient decoding keeps as a member without a field, if err
// is about one.
func (d *decoder) kept(err error) (Raw, bool) {
	bad, ok := errors.AsType[*misfit](err)
	if !ok || !d.lenient || bad.raw == nil {
		return nil, false
	}
	return bad.raw, true
}

func (f *field) decode(d *decoder, v reflect.Value) error {
	return f.codec.decode(d, v.Field(f.index))
}

// optCodec is the codec of an Opt.
type optCodec struct{ value codec }

func (c optCodec) decode(d *decoder, v reflect.Value) error {
	opt := v.Addr().Interface().(optional)
	if d.Kind() == 'n' {
		opt.setNull()
		return d.skip()
	}
	err := c.value.decode(d, reflect.ValueOf(opt.fill()).Elem())
	if err != nil {
		v.SetZero()
	}
	return err
}

func (u *union) decode(d *decoder, v reflect.Value) error {
	f := u.forms[d.Kind()]
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
	if k := d.Kind(); k != 't' && k != 'f' {
		return d.misfit("true or false")
	}
	raw, err := d.read()
	if err == nil {
		v.SetBool(raw[0] == 't')
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
	if k := d.Kind(); k != '0' && k != '"' {
		return nil, d.misfit("a number")
	}
	raw, err := d.read()
	if err == nil && raw.Kind() == '"' && !Number(raw).valid() {
		return nil, d.misfitOf(raw, "a number")
	}
	return raw, err
}

type rawCodec struct{}

func (rawCodec) decode(d *decoder, v reflect.Value) error {
	raw, err := d.read()
	if err == nil {
		v.SetBytes(d.keep(raw))
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
	if d.Kind() != '[' {
		return nil, d.misfit("an array")
	}
	begin, n := d.i, 0
	for more := d.open(']'); more; more = d.more(']') {
		if err := elem(n); err != nil {
			return nil, fatal(err)
		}
		n++
	}
	if d.failed {
		return nil, errSyntax
	}
	return d.b[begin:d.i], nil
}

// fatal turns a misfit into an error that lenient decoding returns too: an array has no
// other place for an element.
func fatal(err error) error {
	if bad, ok := errors.AsType[*misfit](err); ok {
		bad.raw = nil
	}
	return err
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
