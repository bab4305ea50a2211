package protocoltest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/isogloss-gateway/isogloss/llm"
)

// wide is the maximum length of a value that is written on the line of its name.
const wide = 96

// DumpRequest formats a request as text. It leaves out unset fields.
func DumpRequest(r *llm.Request) string { return tree(reflect.ValueOf(r)) }

// DumpResponse formats a response as text. It leaves out unset fields.
func DumpResponse(r *llm.Response) string { return tree(reflect.ValueOf(r)) }

// DumpEvents formats a stream as text, one line for each event.
func DumpEvents(events []llm.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.WriteString(line(reflect.ValueOf(e)) + "\n")
	}
	return b.String()
}

// DumpReport formats a report as text, one line for each loss.
func DumpReport(r *llm.Report) string {
	var b strings.Builder
	for _, l := range r.Losses {
		fmt.Fprintf(&b, "%s %s %s\n", l.Verdict, l.Path, l.Code)
	}
	return b.String()
}

// DumpError formats an error as text, without its cause.
func DumpError(e *llm.Error) string {
	c := *e
	c.Cause = nil
	return line(reflect.ValueOf(c)) + "\n"
}

// member is the name and value of a field that is set.
type member struct {
	name  string
	value reflect.Value
}

// members returns the fields of a struct that are set, including those of embedded
// structs.
func members(v reflect.Value) []member {
	var out []member
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Anonymous:
			out = append(out, members(v.Field(i))...)
		case f.IsExported() && !unset(v.Field(i)):
			out = append(out, member{snake(f.Name), v.Field(i)})
		}
	}
	return out
}

func unset(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return len(members(v)) == 0
	default:
		return v.IsZero()
	}
}

// snake converts a field's name to snake case: MaxTokens to max_tokens, ID to id.
func snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) {
			starts := i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
			if starts {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// tree formats a value, on several lines if it is longer than wide.
func tree(v reflect.Value) string {
	var b strings.Builder
	branch(&b, "", v)
	return b.String()
}

func branch(b *strings.Builder, indent string, v reflect.Value) {
	for _, m := range members(deref(v)) {
		twig(b, indent, m.name, m.value)
	}
}

func twig(b *strings.Builder, indent, name string, v reflect.Value) {
	inner := deref(v)
	if s := line(v); len(s) <= wide || leaf(inner) {
		b.WriteString(indent + name + " " + s + "\n")
		return
	}
	if inner.Kind() == reflect.Slice {
		for i := range inner.Len() {
			twig(b, indent, name+"["+strconv.Itoa(i)+"]", inner.Index(i))
		}
		return
	}
	b.WriteString(strings.TrimRight(indent+name+" "+kindName(v), " ") + "\n")
	branch(b, indent+"  ", inner)
}

func leaf(v reflect.Value) bool {
	return v.Kind() != reflect.Slice && v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[llm.Ext]()
}

func deref(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// kindName returns the type name of a block or an event, and "" for other values.
func kindName(v reflect.Value) string {
	if v.Kind() == reflect.Interface {
		return snake(deref(v).Type().Name())
	}
	return ""
}

// line formats a value on one line.
func line(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return strings.TrimLeft(kindName(v)+line(v.Elem()), " ")
	case reflect.Struct:
		return structLine(v)
	case reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = line(v.Index(i))
		}
		return "[" + strings.Join(items, " ") + "]"
	case reflect.Map:
		var items []string
		for _, k := range slices.Sorted(maps.Keys(stringKeys(v))) {
			items = append(items, strconv.Quote(k)+":"+line(v.MapIndex(reflect.ValueOf(k))))
		}
		return "{" + strings.Join(items, " ") + "}"
	case reflect.String:
		return stringLine(v)
	default:
		return fmt.Sprint(v.Interface())
	}
}

func stringKeys(v reflect.Value) map[string]bool {
	keys := map[string]bool{}
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

// stringLine formats enums and JSON unchanged, and text in quotes.
func stringLine(v reflect.Value) string {
	s := v.String()
	if v.Type() == reflect.TypeFor[string]() || strings.ContainsAny(s, "\r\n") {
		return strconv.Quote(s)
	}
	return s
}

func structLine(v reflect.Value) string {
	if e, ok := v.Interface().(llm.Ext); ok {
		return extLine(e)
	}
	var items []string
	for _, m := range members(v) {
		items = append(items, m.name+"="+line(m.value))
	}
	s := "{" + strings.Join(items, " ") + "}"
	if _, event := v.Interface().(llm.Event); event {
		return snake(v.Type().Name()) + s
	}
	return s
}

func extLine(e llm.Ext) string {
	items := make([]string, 0, len(e.Members))
	for _, m := range e.Members {
		items = append(items, m.Name+"="+string(m.Value))
	}
	return e.Protocol + "{" + strings.Join(items, " ") + "}"
}
