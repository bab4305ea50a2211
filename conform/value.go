package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value in which numbers keep their text. Looking up a member that does
// not exist returns the zero value, so readers check only the members that they need.
type value struct {
	v    any
	here bool
}

type object = map[string]any

// keepNumbers decodes numbers as json.Number.
var keepNumbers = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	number, err := d.ReadValue()
	*v = json.Number(number)
	return err
}))

// parse reads one JSON value. It rejects duplicate names, invalid UTF-8 and data after
// the value, but accepts unpaired surrogates in escapes: fragments of text contain them.
func parse(b []byte) (value, error) {
	if !utf8.Valid(b) {
		return value{}, errors.New("invalid UTF-8")
	}
	var v any
	if err := jsonv2.Unmarshal(keepHalves(b), &v, keepNumbers, jsontext.AllowInvalidUTF8(true)); err != nil {
		return value{}, err
	}
	return value{v, true}, nil
}

// Halves of surrogate pairs are in memory characters of a private area, because a Go string
// cannot have them. encode writes them as escapes again.
const (
	halfFirst = 0xE800
	halfLast  = 0xEFFF
	halfShift = halfFirst - 0xD800
)

// keepHalves replaces the escapes of unpaired surrogates.
func keepHalves(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\ud`)) && !bytes.Contains(b, []byte(`\uD`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		u, ok := escapeAt(b, i)
		switch {
		case !ok && b[i] == '\\' && i+1 < len(b):
			out = append(out, b[i], b[i+1])
			i += 2
		case !ok:
			out = append(out, b[i])
			i++
		case !utf16.IsSurrogate(u):
			out = append(out, b[i:i+6]...)
			i += 6
		default:
			if low, ok := escapeAt(b, i+6); ok && utf16.DecodeRune(u, low) != unicode.ReplacementChar {
				out = append(out, b[i:i+12]...)
				i += 12
				continue
			}
			out = utf8.AppendRune(out, u+halfShift)
			i += 6
		}
	}
	return out
}

// escapeAt returns the code unit of the escape \uXXXX at a position.
func escapeAt(b []byte, i int) (rune, bool) {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
	return rune(n), err == nil
}

// at returns the member at a path of names.
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

// number returns the text of a number, or "" for any other value.
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

// String returns the value as JSON.
func (x value) String() string { return string(encode(x.v)) }

// encode returns v as JSON without HTML escapes, as vendors write it. It panics if v
// cannot be encoded, which is a bug in this package.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("conform: " + err.Error())
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	isHalf := func(r rune) bool { return r >= halfFirst && r <= halfLast }
	if !bytes.ContainsFunc(out, isHalf) {
		return out
	}
	var escaped []byte
	for _, r := range string(out) {
		if isHalf(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r-halfShift)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// raw returns JSON text as a member of a larger value, or a string if s is not JSON.
func raw(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return s
}

// sameJSON reports whether two JSON texts are equal. It compares numbers by their text
// and ignores the order of members.
func sameJSON(a, b string) bool {
	x, err1 := parse([]byte(a))
	y, err2 := parse([]byte(b))
	return err1 == nil && err2 == nil && reflect.DeepEqual(x.v, y.v)
}

// sameWhole reports whether two JSON texts differ only in halves of surrogate pairs, which
// some vendors reject and U+FFFD replaces (JSN-06).
func sameWhole(a, b string) bool {
	x, err1 := parse([]byte(a))
	y, err2 := parse([]byte(b))
	if err1 != nil || err2 != nil || reflect.DeepEqual(x.v, y.v) {
		return false
	}
	return wholeText(x.String()) == wholeText(y.String())
}

// wholeText replaces the escapes of halves, which encode writes, with U+FFFD.
func wholeText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= halfFirst && r <= halfLast {
			return unicode.ReplacementChar
		}
		return r
	}, string(keepHalves([]byte(s))))
}

// missing returns the path of the first value of want that got lacks, or "". Lists must have
// the same length. The string "…" in want matches every string that is not empty.
func missing(want, got any, at string) string {
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
			if s := missing(v, sub, at+"/"+k); s != "" {
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
			if s := missing(w[i], g[i], at+"/"+strconv.Itoa(i)); s != "" {
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
