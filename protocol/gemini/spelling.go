package gemini

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// spelling knows the members of one of Google's types, so that snake_case names
// can be told from names that belong to a user. A member whose value has no
// Google type leads to nil, and nothing below it is touched.
type spelling map[string]spelling

var (
	requestSpelling    = spellingFor[Request]()
	countSpelling      = spellingFor[CountRequest]()
	embedSpelling      = spellingFor[EmbedRequest]()
	batchEmbedSpelling = spellingFor[BatchEmbedRequest]()
)

func spellingFor[T any]() func() spelling {
	return sync.OnceValue(func() spelling { return spellingOf(reflect.TypeFor[T]()) })
}

// spellingOf reads the names off a wire type.
func spellingOf(t reflect.Type) spelling {
	switch {
	case t == reflect.TypeFor[wire.Raw](), t == reflect.TypeFor[wire.Object](), t == reflect.TypeFor[wire.Text]():
		return nil
	case t.Kind() == reflect.Slice:
		return spellingOf(t.Elem())
	case t.Kind() != reflect.Struct:
		return nil
	}
	if value, ok := t.MethodByName("Value"); ok { // an Opt
		return spellingOf(value.Type.Out(0))
	}
	s := spelling{}
	for i := range t.NumField() {
		f := t.Field(i)
		if _, form := f.Tag.Lookup("wire"); form { // the forms of a union are one value
			return spellingOf(f.Type)
		}
		if name := f.Tag.Get("json"); name != "-" {
			s[name] = spellingOf(f.Type)
		}
	}
	return s
}

// camel returns the body with the snake_case names of Google's members in
// camelCase. Anything else, faults included, stays as it is.
func (s spelling) camel(body []byte) []byte {
	if !hasSnakeName(body) {
		return body
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	r := renamer{in: body, d: d}
	if r.value(s) != nil || r.out == nil {
		return body
	}
	return append(r.out, body[r.copied:]...)
}

// hasSnakeName reports whether any member's name may have an underscore. Most
// bodies have none, and this is much cheaper than a decoder.
func hasSnakeName(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '_')
		if i < 0 {
			return false
		}
		body = body[i+1:]
		end := bytes.IndexByte(body, '"')
		if end < 0 {
			return false
		}
		body = body[end+1:]
		if rest := bytes.TrimLeft(body, " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
			return true
		}
	}
}

type renamer struct {
	in, out []byte
	copied  int // how much of in is in out
	d       *jsontext.Decoder
}

func (r *renamer) value(s spelling) error {
	kind := r.d.PeekKind()
	if s == nil || kind != '{' && kind != '[' {
		return r.d.SkipValue()
	}
	if _, err := r.d.ReadToken(); err != nil {
		return err
	}
	for r.d.PeekKind() != '}' && r.d.PeekKind() != ']' {
		inner := s
		if kind == '{' {
			name, err := r.d.ReadValue()
			if err != nil {
				return err
			}
			inner = s[r.name(s, name)]
		}
		if err := r.value(inner); err != nil {
			return err
		}
	}
	_, err := r.d.ReadToken()
	return err
}

// name returns the member's name, in camelCase if it is one of Google's.
func (r *renamer) name(s spelling, literal jsontext.Value) string {
	name := strings.Trim(string(literal), `"`)
	if _, known := s[name]; known || !strings.Contains(name, "_") {
		return name
	}
	camel := camelCase(name)
	if _, known := s[camel]; !known {
		return name
	}
	end := int(r.d.InputOffset())
	r.out = append(r.out, r.in[r.copied:end-len(literal)]...)
	r.out = append(append(append(r.out, '"'), camel...), '"')
	r.copied = end
	return camel
}

func camelCase(snake string) string {
	words := strings.Split(snake, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}
