package settings

import (
	"encoding"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
)

// Optional interfaces of sections.
type (
	checker   interface{ Check(at *At) }            // has rules beyond the tags of its fields
	placed    interface{ place(n *Node, f *File) }  // remembers its place
	shorthand interface{ FromText(text string) }    // may be a single value instead of a mapping
	settler   interface{ Settle(at *At) }           // replaces what is written by what is used
	table     interface{ add(name string) any }     // is a mapping with names of the operator's own
	decoder   interface{ decode(n *Node, f *File) } // reads its node itself
)

func (a *At) place(n *Node, f *File) { a.node, a.file = n, f }

// Table is a mapping whose keys the operator chooses, in the order of the file.
type Table[T any] []*Named[T]

// Named is an entry of a Table.
type Named[T any] struct {
	Name  string
	Value T
}

func (t *Table[T]) add(name string) any {
	n := &Named[T]{Name: name}
	*t = append(*t, n)
	return &n.Value
}

// Defaults sets the values of the tag default in a struct and the structs in it.
func (f *File) Defaults(to any) { f.defaults(reflect.ValueOf(to).Elem()) }

func (f *File) defaults(v reflect.Value) {
	if v.Kind() != reflect.Struct || isScalar(v) || !f.sectionOf(v.Type()).hasDefaults {
		return
	}
	for _, s := range f.sectionOf(v.Type()).fields {
		inner := v.Field(s.index)
		if s.preset == "" {
			f.defaults(inner)
			continue
		}
		own := &File{types: f.types} // for problems of its own
		if own.scalar(&Node{Kind: Scalar, Text: s.preset, Written: s.preset}, inner, s); own.problems.any() {
			panic("settings: the tag default of " + s.Key + ": " + own.problems.Error())
		}
	}
}

// value sets a value from its node. Its field is nil for an item of a table.
func (f *File) value(n *Node, v reflect.Value, s *Field) {
	switch to := v.Addr().Interface().(type) {
	case table:
		if f.want(n, Mapping) {
			for _, c := range n.Children {
				entry := reflect.ValueOf(to.add(c.Key)).Elem()
				f.defaults(entry)
				f.value(c, entry, nil)
			}
		}
		return
	case decoder:
		if f.want(n, Mapping) {
			to.decode(n, f)
		}
		return
	}
	if isScalar(v) {
		if f.want(n, Scalar) {
			f.scalar(n, v, s)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer: // a section that is nil if the file does not have it
		if n.Kind != Null {
			v.Set(reflect.New(v.Type().Elem()))
			f.defaults(v.Elem())
			f.value(n, v.Elem(), s)
		}
	case reflect.Struct:
		f.section(n, v, s == nil || s.Type.Kind() == reflect.Slice || s.Type.Kind() == reflect.Map)
	case reflect.Slice:
		f.list(n, v, s)
	case reflect.Map:
		if !f.want(n, Mapping) {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, c := range n.Children {
			item := reflect.New(v.Type().Elem()).Elem()
			f.defaults(item)
			f.value(c, item, s)
			v.SetMapIndex(reflect.ValueOf(c.Key), item)
		}
	default:
		panic("settings: there is no way to read a " + v.Type().String())
	}
}

// want reports a node of another kind. An empty value is ignored, as if the key were
// not set.
func (f *File) want(n *Node, k Kind) bool {
	if n.Kind == k {
		return true
	}
	if n.Kind != Null {
		write := map[Kind]string{Scalar: "one value", Mapping: "\"key: value\" lines below it", Sequence: "a list such as [a, b]"}
		if n.Kind == Mapping {
			write[Scalar] = "one value, in quotes if it has a colon" // {addresses: [a:1]} is a mapping too
		}
		f.problems.add(n, "is %s; write %s", n.Kind, write[k])
	}
	return false
}

func (f *File) list(n *Node, v reflect.Value, s *Field) {
	if n.Source != "" && n.Kind == Scalar { // from a variable or a flag
		n.split()
	}
	if !f.want(n, Sequence) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Children), len(n.Children)))
	for i, c := range n.Children {
		f.defaults(v.Index(i))
		f.value(c, v.Index(i), s)
	}
	if most := s.rule.MaxItems; most != nil && int64(v.Len()) > *most {
		f.problems.add(n, "has %d items; write at most %d", v.Len(), *most)
	}
}

// section sets the fields of a struct and checks it. Of empty ones, only the items of lists and tables are checked.
func (f *File) section(n *Node, v reflect.Value, item bool) {
	at := &At{node: n, file: f}
	to := v.Addr().Interface()
	if p, ok := to.(placed); ok {
		p.place(n, f)
	}
	if short, ok := to.(shorthand); ok && n.Kind == Scalar {
		short.FromText(n.Text)
	} else if f.want(n, Mapping) {
		f.fields(n, v)
	} else if n.Kind != Null || !item {
		return
	}
	for _, s := range f.sectionOf(v.Type()).fields {
		if s.required && v.Field(s.index).IsZero() {
			at.Wrong(s.Key, "is required; write %s such as %s", oneOrList(s.Type), s.Example)
		}
	}
	if c, ok := to.(checker); ok {
		c.Check(at)
	}
}

func oneOrList(t reflect.Type) string {
	if t.Kind() == reflect.Slice {
		return "a list"
	}
	return "one"
}

func (f *File) fields(n *Node, v reflect.Value) {
	of := f.sectionOf(v.Type())
	for _, c := range n.Children {
		s, ok := of.byKey[c.Key]
		if !ok {
			f.problems.add(c, "is not a known key; %s", Instead(c.Key, of.keys()))
			continue
		}
		f.value(c, v.Field(s.index), s)
	}
}

// isScalar reports whether a value is written as a single one.
func isScalar(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case *netip.Prefix, encoding.TextUnmarshaler:
		return true
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	default:
		return false
	}
}

func (f *File) scalar(n *Node, v reflect.Value, s *Field) {
	switch to := v.Addr().Interface().(type) {
	case *netip.Prefix:
		prefix, err := netip.ParsePrefix(n.Text)
		if err != nil {
			f.problems.add(n, "%q is no network; write one such as 10.0.0.0/8", n.Written)
		}
		*to = prefix
		return
	case encoding.TextUnmarshaler:
		if err := to.UnmarshalText([]byte(n.Text)); err != nil {
			f.problems.add(n, "%q %s", n.Written, err)
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Text)
		f.checkText(n, s)
	case reflect.Bool:
		switch n.Text {
		case "true", "false":
			v.SetBool(n.Text == "true")
		default:
			f.problems.add(n, "%q is not a boolean; write true or false", n.Written)
		}
	case reflect.Int64:
		i, err := s.parse(n.Text)
		if err != nil {
			f.problems.add(n, "%q %s", n.Written, err)
		}
		v.SetInt(i)
		f.checkNumber(n, float64(i), s)
	case reflect.Int:
		i, err := strconv.Atoi(n.Text)
		if err != nil {
			f.problems.add(n, "%q is not a whole number", n.Written)
		}
		v.SetInt(int64(i))
		f.checkNumber(n, float64(i), s)
	default:
		number, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			f.problems.add(n, "%q is not a number", n.Written)
		}
		v.SetFloat(number)
		f.checkNumber(n, number, s)
	}
}

// checkText checks a text by the tags of its field.
func (f *File) checkText(n *Node, s *Field) {
	if s == nil || s.rule.Text(n.Text) == "" {
		return
	}
	switch r := &s.rule; {
	case r.Enum != nil:
		// Make no suggestion for an expanded value: the message would reveal it.
		best := ""
		if n.Text == n.Written {
			best = similar.Name(n.Text, r.Enum)
		}
		if best != "" {
			f.problems.add(n, "%q is not known; did you mean %q?", n.Written, best)
			return
		}
		f.problems.add(n, "%q is not known; write one of %s", n.Written, strings.Join(r.Enum, ", "))
	case r.MaxLength != nil && r.Pattern == "":
		f.problems.add(n, "has more than %d characters; shorten it", *r.MaxLength)
	default:
		example, _, _ := strings.Cut(strings.Trim(s.Example, "[]"), ",")
		f.problems.add(n, "%q is not %s; write one such as %s", n.Written, s.form, example)
	}
}

// checkNumber checks a number by the tags of its field.
func (f *File) checkNumber(n *Node, v float64, s *Field) {
	if s == nil || s.rule.Number(v) == "" {
		return
	}
	switch r := &s.rule; {
	case r.Minimum != nil && r.Maximum != nil:
		f.problems.add(n, "is %s; write a number from %s to %s", n.Written, s.format(*r.Minimum), s.format(*r.Maximum))
	case r.Minimum != nil && *r.Minimum == 0:
		f.problems.add(n, "is negative; write a number, or 0 for the default")
	case r.Minimum != nil:
		f.problems.add(n, "is less than %s; write at least that, such as %s", s.format(*r.Minimum), s.Example)
	default:
		f.problems.add(n, "is more than %s; write at most that, such as %s", s.format(*r.Maximum), s.Example)
	}
}

// format writes a number as the file has it.
func (s *Field) format(v int64) string {
	switch {
	case s.bytes:
		return FormatSize(v)
	case s.Type == reflect.TypeFor[time.Duration]():
		return FormatDuration(time.Duration(v))
	}
	return strconv.FormatInt(v, 10)
}
