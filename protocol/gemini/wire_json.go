package gemini

import (
	"bytes"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// unmarshalRequest decodes a request whose names are in camelCase or in snake_case.
func unmarshalRequest(body []byte, v any) error {
	if !hasSnakeName(body) {
		return wire.Unmarshal(body, v)
	}
	typ := reflect.TypeOf(v).Elem()
	s, ok := spellings.Load(typ)
	if !ok {
		s, _ = spellings.LoadOrStore(typ, spellingOf(typ))
	}
	return wire.Unmarshal(s.(spelling).camel(body), v)
}

// spelling lists the members of one of Google's types. Only their names are converted; names
// in a user's own JSON are not. A member whose value has no Google type leads to nil, and
// nothing below it is converted.
type spelling map[string]spelling

// spellings caches the spelling of each wire type. Its keys are of type reflect.Type.
var spellings sync.Map

// spellingOf returns the names of a wire type.
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
	if all, ok := t.MethodByName("All"); ok { // a wire.List, whose iterator yields an index and a pointer to the item
		return spellingOf(all.Type.Out(0).In(0).In(1).Elem())
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
// camelCase. Everything else stays unchanged, including invalid JSON.
func (s spelling) camel(body []byte) []byte {
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

// snakeNames returns the name in snake_case of a member in camelCase.
func snakeNames(camel string) []string {
	var b strings.Builder
	for _, r := range camel {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	if b.String() == camel {
		return nil
	}
	return []string{b.String()}
}

// appendItem adds an item to a list.
func appendItem(list, item wire.Raw) wire.Raw {
	items, ok := elements(list)
	if !ok {
		return list
	}
	return joinItems(append(items, item))
}

// elements returns the items of a JSON array. It reports false for other values.
func elements(list wire.Raw) ([]wire.Raw, bool) {
	var items wire.List[wire.Raw]
	err := wire.Unmarshal(list, &items)
	return items.Slice(), err == nil
}

func joinItems(items []wire.Raw) wire.Raw {
	out := wire.Raw("[")
	for i, item := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// eachMember applies f to the values of an object.
func eachMember(raw wire.Raw, f func(wire.Raw) wire.Raw) wire.Raw {
	var o wire.Object
	if o.UnmarshalJSON(raw) != nil {
		return raw
	}
	for i := range o {
		o[i].Value = f(o[i].Value)
	}
	return marshal(o)
}

// eachItem applies f to the items of a list.
func eachItem(raw wire.Raw, f func(wire.Raw) wire.Raw) wire.Raw {
	items, ok := elements(raw)
	if !ok {
		return raw
	}
	for i := range items {
		items[i] = f(items[i])
	}
	return joinItems(items)
}

func unquoteNumber(raw wire.Raw) wire.Raw {
	if n := wire.Raw(strings.Trim(string(raw), `"`)); n.Kind() == '0' && n.IsValid() {
		return n
	}
	return raw
}

// marshal writes an object whose members all have values.
func marshal(o wire.Object) wire.Raw {
	out := wire.Raw("{")
	for i, m := range o {
		if i > 0 {
			out = append(out, ',')
		}
		out = wire.AppendQuote(out, m.Name)
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

func quote(s string) wire.Raw { return wire.AppendQuote(nil, s) }

func unquote(raw wire.Raw) (string, error) {
	s, err := jsontext.AppendUnquote(nil, raw)
	return string(s), err
}
