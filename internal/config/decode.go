package config

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
)

// Optional interfaces of the structs of file.go.
type (
	placed    interface{ place(n *node) }           // remembers its node
	textual   interface{ parse(text string) error } // is read from a scalar
	choice    interface{ options() []string }       // is one of a few words
	shorthand interface{ fromText(text string) }    // may be a scalar instead of a mapping
	named     interface{ add() any }                // is a mapping with names of the operator's own
)

// table is a mapping whose keys the operator chooses, in the order of the file. The
// key of an entry's node is its name.
type table[T any] []*T

func (t *table[T]) add() any {
	v := new(T)
	*t = append(*t, v)
	return v
}

// decode sets the struct that dst points to from a node.
func decode(n *node, dst any, ps *Problems) {
	d := decoder{ps: ps, keys: map[reflect.Type]map[string]int{}}
	d.value(n, reflect.ValueOf(dst).Elem())
}

type decoder struct {
	ps   *Problems
	keys map[reflect.Type]map[string]int // field by key, for each struct
}

func (d *decoder) value(n *node, v reflect.Value) {
	switch dst := v.Addr().Interface().(type) {
	case placed:
		dst.place(n)
		if short, ok := dst.(shorthand); ok && n.kind == scalar {
			short.fromText(n.text)
			return
		}
		if d.want(n, mapping) {
			d.fields(n, v)
		}
	case named:
		if !d.want(n, mapping) {
			return
		}
		for _, c := range n.children {
			d.value(c, reflect.ValueOf(dst.add()).Elem())
		}
	case *jsonObject:
		if d.want(n, mapping) {
			dst.decode(n, d.ps)
		}
	case textual:
		if d.want(n, scalar) {
			if err := dst.parse(n.text); err != nil {
				d.ps.add(n, "%q %s", n.written, err)
			}
		}
	default:
		d.plain(n, v)
	}
}

// want reports a node of another kind. An empty value is ignored, as if the key were
// not set.
func (d *decoder) want(n *node, k kind) bool {
	if n.kind == k {
		return true
	}
	if n.kind != null {
		write := map[kind]string{scalar: "one value", mapping: "\"key: value\" lines below it", sequence: "a list such as [a, b]"}
		if n.kind == mapping {
			write[scalar] = "one value, in quotes if it has a colon" // {addresses: [a:1]} is a mapping too
		}
		d.ps.add(n, "is %s; write %s", n.kind, write[k])
	}
	return false
}

func (d *decoder) fields(n *node, v reflect.Value) {
	keys := d.keysOf(v.Type())
	for _, c := range n.children {
		i, ok := keys[c.key]
		if !ok {
			d.ps.add(c, "is not a known key; %s", instead(c.key, keyNames(v.Type())))
			continue
		}
		d.value(c, v.Field(i))
	}
}

func (d *decoder) keysOf(t reflect.Type) map[string]int {
	if d.keys[t] == nil {
		d.keys[t] = map[string]int{}
		for i := range t.NumField() {
			if key := t.Field(i).Tag.Get("key"); key != "" {
				d.keys[t][key] = i
			}
		}
	}
	return d.keys[t]
}

// keyNames lists the keys of a struct in the order of its fields.
func keyNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("key"); key != "" {
			names = append(names, key)
		}
	}
	return names
}

// plain decodes values of Go's basic kinds.
func (d *decoder) plain(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		if !d.want(n, sequence) {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.children), len(n.children)))
		for i, c := range n.children {
			d.value(c, v.Index(i))
		}
	case reflect.Map:
		if !d.want(n, mapping) {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, c := range n.children {
			text := reflect.New(v.Type().Elem()).Elem()
			d.value(c, text)
			v.SetMapIndex(reflect.ValueOf(c.key), text)
		}
	default:
		if d.want(n, scalar) {
			d.scalar(n, v)
		}
	}
}

func (d *decoder) scalar(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.text)
		if c, ok := v.Interface().(choice); ok {
			d.choice(n, c.options())
		}
	case reflect.Bool:
		switch n.text {
		case "true", "false":
			v.SetBool(n.text == "true")
		default:
			d.ps.add(n, "%q is not a boolean; write true or false", n.written)
		}
	case reflect.Int:
		i, err := strconv.Atoi(n.text)
		if err != nil {
			d.ps.add(n, "%q is not a whole number", n.written)
		}
		v.SetInt(int64(i))
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			d.ps.add(n, "%q is not a number", n.written)
		}
		v.SetFloat(f)
	default:
		panic("config: file.go has a field of kind " + v.Kind().String() + ", which decode.go does not know")
	}
}

func (d *decoder) choice(n *node, options []string) {
	for _, o := range options {
		if n.text == o {
			return
		}
	}
	// Make no suggestion for an expanded value: the message would reveal it.
	best := ""
	if n.text == n.written {
		best = similar.Name(n.text, options)
	}
	if best != "" {
		d.ps.add(n, "%q is not known; did you mean %q?", n.written, best)
		return
	}
	d.ps.add(n, "%q is not known; write one of %s", n.written, strings.Join(options, ", "))
}
