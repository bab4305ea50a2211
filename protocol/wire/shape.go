package wire

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may be nested in a text.
const MaxDepth = 64

// maxFields is the number of bits in the mask that encoding keeps.
const maxFields = 64

// Shape decodes and encodes values of type T.
type Shape[T any] struct {
	codec func() codec
}

// Describe returns the shape of T: a struct of this package's field types, a
// union, or a slice of either. The table is made on first use, so that a package
// with many types pays only for those that it decodes. It panics then if T has a
// field of a type that this package cannot keep.
func Describe[T any]() *Shape[T] {
	return &Shape[T]{codec: sync.OnceValue(func() codec {
		return make(tables).codecOf(reflect.TypeFor[T]())
	})}
}

// codec reads and writes the values of one Go type. The reflect.Value is
// addressable.
type codec interface {
	decode(d *decoder, v reflect.Value) error
	append(dst []byte, v reflect.Value) ([]byte, error)
}

// object is the codec of a struct.
type object struct {
	fields []field
	byName map[string]int
	extra  int // number of the Extra field, -1 if there is none
}

type field struct {
	index  int    // in the struct
	name   string // of the member
	prefix string // the quoted name and the colon
	codec  codec  // of the value inside the Opt; nil for a Raw field
}

// union is the codec of a struct with wire tags.
type union struct {
	forms map[jsontext.Kind]*field
	all   []*field
	want  string // for error messages
}

// tables are the codecs of one Describe; a type that contains itself finds its
// own entry.
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
		return listCodec{elem: t.codecOf(typ.Elem())}
	case reflect.Struct:
		if isUnion(typ) {
			return t.unionOf(typ)
		}
		return t.objectOf(typ)
	default:
		panic(fmt.Sprintf("wire: %s cannot keep what it does not understand; use Opt, Raw, Number, Text or Object", typ))
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
	f := field{index: i, name: name, prefix: string(quoted) + ":"}
	if typ.Field(i).Type == reflect.TypeFor[Raw]() {
		return f
	}
	opt, ok := reflect.New(typ.Field(i).Type).Interface().(optional)
	if !ok {
		panic(fmt.Sprintf("wire: %s.%s is neither an Opt nor a Raw", typ, typ.Field(i).Name))
	}
	f.codec = t.codecOf(reflect.TypeOf(opt.target()).Elem())
	return f
}

// formKinds are the values of a wire tag.
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
			panic(fmt.Sprintf("wire: %s.%s: wire tag %q is no kind of JSON value", typ, typ.Field(i).Name, form))
		}
		f := t.fieldOf(typ, i, form)
		u.all = append(u.all, &f)
		words = append(words, kindNames[kinds[0]])
		for _, k := range kinds {
			if u.forms[k] == nil { // "any" takes what is left
				u.forms[k] = &f
			}
		}
	}
	u.want = strings.Join(words, " or ")
	return u
}
