package wire

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is the maximum nesting of arrays and objects in requests.
const MaxDepth = 64

// maxFields is the maximum number of fields of a struct: the bits of writer.written.
const maxFields = 64

// codecs caches the codec of every type that was decoded or encoded. Its keys are of
// type reflect.Type, its values of type codec.
var codecs sync.Map

// codecFor returns the codec of a type. It inspects the type when it sees it for the
// first time, and panics if the type is not supported.
func codecFor(typ reflect.Type) codec {
	if c, ok := codecs.Load(typ); ok {
		return c.(codec)
	}
	c, _ := codecs.LoadOrStore(typ, make(tables).codecOf(typ))
	return c.(codec)
}

// codec decodes and encodes the values of one Go type. The reflect.Value must be
// addressable.
type codec interface {
	decode(d *decoder, v reflect.Value) error

	// check reads a value and returns the error that decode would return.
	check(d *decoder) error
	append(dst []byte, v reflect.Value) ([]byte, error)
}

// object is the codec of a struct.
type object struct {
	fields []field
	byName map[string]int
	extra  int // index of the Extra field in the struct, -1 if there is none
}

type field struct {
	index  int    // of the field in the struct
	name   string // of the JSON member
	prefix string // the quoted name and a colon
	codec  codec  // an optCodec or a rawCodec
}

// union is the codec of a struct with wire tags.
type union struct {
	forms map[jsontext.Kind]*field
	all   []*field
	want  string // for error messages
}

// tables holds the codecs of a type and of the types that it contains, so that a type
// can contain itself.
type tables map[reflect.Type]codec

func (t tables) codecOf(typ reflect.Type) codec {
	if c, ok := t[typ]; ok {
		return c
	}
	switch typ {
	case reflect.TypeFor[Number]():
		return numberCodec{}
	case reflect.TypeFor[Text]():
		return textCodec{}
	case reflect.TypeFor[Raw]():
		return rawCodec{}
	case reflect.TypeFor[Object]():
		return membersCodec{}
	}
	switch typ.Kind() {
	case reflect.String:
		return stringCodec{}
	case reflect.Bool:
		return boolCodec{}
	case reflect.Slice:
		if typ.Elem() != reflect.TypeFor[Text]() && typ.Elem().Kind() != reflect.String {
			panic(fmt.Sprintf("wire: unsupported type %s; use List for elements other than strings", typ))
		}
		return stringsCodec{elem: t.codecOf(typ.Elem())}
	case reflect.Struct:
		if opt, ok := reflect.New(typ).Interface().(optional); ok {
			return optCodec{value: t.codecOf(reflect.TypeOf(opt.target()).Elem())}
		}
		if l, ok := reflect.New(typ).Interface().(list); ok {
			// The element's codec is found later, because a type can contain a list of itself.
			return listCodec{elem: l.elem()}
		}
		if isUnion(typ) {
			return t.unionOf(typ)
		}
		return t.objectOf(typ)
	default:
		panic(fmt.Sprintf("wire: unsupported type %s; use Opt, Raw, Number, Text, Object or List", typ))
	}
}

func isUnion(typ reflect.Type) bool {
	for i := range typ.NumField() {
		if _, ok := typ.Field(i).Tag.Lookup("wire"); ok {
			return true
		}
	}
	return false
}

func (t tables) objectOf(typ reflect.Type) codec {
	o := &object{byName: make(map[string]int), extra: -1}
	t[typ] = o
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Type == reflect.TypeFor[Extra]() {
			o.extra = i
			continue
		}
		name := f.Tag.Get("json")
		if name == "" || name == "-" || strings.Contains(name, ",") {
			panic(fmt.Sprintf("wire: %s.%s needs a json tag with a plain name", typ, f.Name))
		}
		o.byName[name] = len(o.fields)
		o.fields = append(o.fields, t.fieldOf(typ, i, name))
	}
	if len(o.fields) > maxFields {
		panic(fmt.Sprintf("wire: %s has more than %d fields", typ, maxFields))
	}
	return o
}

func (t tables) fieldOf(typ reflect.Type, i int, name string) field {
	quoted, _ := jsontext.AppendQuote(nil, name)
	f := field{index: i, name: name, prefix: string(quoted) + ":", codec: t.codecOf(typ.Field(i).Type)}
	switch f.codec.(type) {
	case optCodec, rawCodec:
		return f
	}
	panic(fmt.Sprintf("wire: %s.%s is neither an Opt nor a Raw", typ, typ.Field(i).Name))
}

// formKinds maps a wire tag to the kinds of JSON values that it accepts.
var formKinds = map[string][]jsontext.Kind{
	"string": {'"'}, "number": {'0'}, "bool": {'t', 'f'}, "array": {'['}, "object": {'{'},
	"any": {'n', 't', 'f', '"', '0', '[', '{'},
}

func (t tables) unionOf(typ reflect.Type) codec {
	u := &union{forms: make(map[jsontext.Kind]*field)}
	t[typ] = u
	words := make([]string, 0, typ.NumField())
	for i := range typ.NumField() {
		form := typ.Field(i).Tag.Get("wire")
		kinds, ok := formKinds[form]
		if !ok {
			panic(fmt.Sprintf("wire: %s.%s: wire tag %q is not a kind of JSON value", typ, typ.Field(i).Name, form))
		}
		f := t.fieldOf(typ, i, form)
		u.all = append(u.all, &f)
		words = append(words, kindNames[kinds[0]])
		for _, k := range kinds {
			if u.forms[k] == nil { // "any" gets the kinds that no other form has
				u.forms[k] = &f
			}
		}
	}
	u.want = strings.Join(words, " or ")
	return u
}
