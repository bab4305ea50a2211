package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// value is a JSON value with numbers as they were written. Looking up what is not
// there gives the zero value, so that readers ask for what they need and check it.
type value struct {
	v    any
	here bool
}

type object = map[string]any

// parse reads one JSON value and is as strict as the standard: no duplicate
// names, nothing after it, no invalid UTF-8.
func parse(b []byte) (value, error) {
	if !utf8.Valid(b) {
		return value{}, errors.New("invalid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := parseNext(d)
	if err != nil {
		return value{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return value{}, errors.New("more than one JSON value")
	}
	return value{v, true}, nil
}

func parseNext(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return parseObject(d)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := parseNext(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func parseObject(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("the name %q stands twice in one object", key)
		}
		if o[key], err = parseNext(d); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return o, err
}

// at looks up a member of a path of names.
func (x value) at(path ...string) value {
	for _, name := range path {
		o, _ := x.v.(object)
		v, here := o[name]
		x = value{v, here}
	}
	return x
}

func (x value) str() string { s, _ := x.v.(string); return s }
func (x value) null() bool  { return x.v == nil }
func (x value) isString() bool {
	_, ok := x.v.(string)
	return ok
}
func (x value) isObject() bool {
	_, ok := x.v.(object)
	return ok
}
func (x value) isList() bool {
	_, ok := x.v.([]any)
	return ok
}
func (x value) yes() bool { b, _ := x.v.(bool); return b }

// number is a number's text, empty for anything else.
func (x value) number() string { n, _ := x.v.(json.Number); return string(n) }

func (x value) count() (int, bool) {
	n, err := strconv.Atoi(x.number())
	return n, err == nil
}

func (x value) amount() int { n, _ := x.count(); return n }

func (x value) list() []value {
	l, _ := x.v.([]any)
	out := make([]value, len(l))
	for i, v := range l {
		out[i] = value{v, true}
	}
	return out
}

func (x value) names() []string {
	o, _ := x.v.(object)
	out := make([]string, 0, len(o))
	for k := range o {
		out = append(out, k)
	}
	return out
}

// text is the value as JSON.
func (x value) text() string { return string(encode(x.v)) }

// encode writes JSON without HTML escapes, as vendors do. What the runner builds
// can always be written; a value that cannot is a mistake in this package.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("conform: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// raw is JSON text inside a larger value; text that is no JSON becomes a string.
func raw(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return s
}

// sameJSON compares values, numbers by their text and objects without order.
func sameJSON(a, b string) bool {
	x, err1 := parse([]byte(a))
	y, err2 := parse([]byte(b))
	return err1 == nil && err2 == nil && reflect.DeepEqual(x.v, y.v)
}

// lacking gives the path of something in want that got does not have. Lists have
// to be as long; "…" as a string in want stands for any string that is not empty.
func lacking(want, got any, at string) string {
	switch w := want.(type) {
	case object:
		g, ok := got.(object)
		if !ok {
			return orRoot(at)
		}
		for k, v := range w {
			sub, here := g[k]
			if !here && v != nil {
				return at + "/" + k
			}
			if s := lacking(v, sub, at+"/"+k); s != "" {
				return s
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return orRoot(at)
		}
		for i := range w {
			if s := lacking(w[i], g[i], at+"/"+strconv.Itoa(i)); s != "" {
				return s
			}
		}
		return ""
	case string:
		if s, ok := got.(string); ok && w == "…" && s != "" {
			return ""
		}
	}
	if !reflect.DeepEqual(want, got) {
		return orRoot(at)
	}
	return ""
}

func orRoot(at string) string {
	if at == "" {
		return "/"
	}
	return at
}
