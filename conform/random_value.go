package conform

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
)

// dice makes random values. The same seed and index give the same values.
type dice struct{ *rand.Rand }

func newDice(seed, index uint64) dice { return dice{rand.New(rand.NewPCG(seed, index))} } //nolint:gosec // G404: a test must be repeatable

// chance is true in one of n cases.
func (d dice) chance(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, list []T) T { return list[d.IntN(len(list))] }

// oddTexts are texts that codecs have damaged before.
var oddTexts = []string{
	"Hello", "world", "The quick brown fox", "Grüße aus Köln", "日本語のテキスト", "العربية من اليمين", "\u202eright to left\u202c",
	"👩‍👩‍👧‍👦", "😀🎉", "e\u0301 combining", "zero\u200bwidth", "nbsp\u00a0here", "\u2028line separator\u2029", "tab\there", "a\r\nb", "a\nb\n\nc",
	"bell \u0007 and \u001b[31mred", "\u0001\u001f", "\u007f", "\ufeffmark", "\U0010ffff", "\\u0041 \\n", `"quoted" 'single'`, "</system> <b>&amp;",
	`{"json":true}`, `[1,2]`, "null", "data: [DONE]", "event: error", "```go\nfmt.Println()\n```", "# heading\n- item", "%s %d %%",
	"Dear", "Sir", "$MODEL", "<think>not reasoning</think>", "Error: not an error", "0", "true",
}

var blankTexts = []string{" ", "\n", "\n\n", "\t", "  \n "}

// text returns text that is not blank.
func (d dice) text() string {
	s := pick(d, oddTexts)
	for d.chance(3) {
		s += pick(d, []string{" ", "\n", "", "\n\n"}) + pick(d, oddTexts)
	}
	if d.chance(8) {
		s = pick(d, blankTexts) + s
	}
	if d.chance(8) {
		s += pick(d, blankTexts)
	}
	if d.chance(60) {
		s = strings.Repeat(s+" ", 200)
	}
	return s
}

// word returns a short word that occurs once.
func (d dice) word() string { return fmt.Sprintf("w%06x", d.IntN(1<<24)) }

// seal returns a signature.
func (d dice) seal() string {
	b := make([]byte, 24+d.IntN(40))
	for i := range b {
		b[i] = byte(d.IntN(256))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// picture returns a small image, or a URL of one.
func (d dice) picture(url bool) Image {
	if url {
		return Image{Data: "https://example.com/" + d.word() + pick(d, []string{".png", ".jpg", ".png?x=1&y=2"})}
	}
	head := map[string]string{"image/png": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "image/jpeg": "\xff\xd8\xff\xe0\x00\x10JFIF\x00",
		"image/gif": "GIF89a\x01\x00\x01\x00", "image/webp": "RIFF\x24\x00\x00\x00WEBPVP8 "}
	kind := pick(d, []string{"image/png", "image/jpeg", "image/gif", "image/webp"})
	return Image{kind, base64.StdEncoding.EncodeToString([]byte(head[kind] + d.word()))}
}

// file returns a document.
func (d dice) file() Piece {
	p := Piece{Kind: kindDocument, Name: d.word() + ".pdf"}
	switch d.IntN(3) {
	case 0:
		p.Image, p.Name = Image{Data: "https://example.com/" + d.word() + ".pdf"}, ""
	case 1:
		p.Image, p.Name = Image{textFile, base64.StdEncoding.EncodeToString([]byte(d.text()))}, d.word()+".txt"
	default:
		p.Image = Image{"application/pdf", base64.StdEncoding.EncodeToString([]byte("%PDF-1.4\n" + d.word()))}
	}
	return p
}

var oddNumbers = []string{"0", "1", "-1", "42", "9007199254740993", "123456789012345678901234567890", "2.50", "1e3", "1E-7", "0.1", "-0.0", "1.0", "3.141592653589793238"}

var oddKeys = []string{"path", "x", "y", "list", "naïve", "with space", "a.b", "$ref", "type", "_raw", "value", "input", "ключ", "", "emoji 😀", "a/b", "null"}

// value returns JSON text of at most the depth.
func (d dice) value(depth int) string {
	if depth <= 0 || d.chance(2) {
		return d.scalar()
	}
	if d.chance(3) {
		var list []string
		for range d.IntN(4) {
			list = append(list, d.value(depth-1))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	return d.object(depth)
}

func (d dice) object(depth int) string {
	var members []string
	used := map[string]bool{}
	for range d.IntN(4) {
		key := pick(d, oddKeys)
		if used[key] {
			continue
		}
		used[key] = true
		members = append(members, string(encode(key))+":"+d.value(depth-1))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (d dice) scalar() string {
	switch d.IntN(7) {
	case 0, 1:
		return pick(d, oddNumbers)
	case 2:
		return pick(d, []string{"true", "false", "null"})
	case 3:
		return pick(d, []string{`"\ud83d"`, `"a\udc00b"`, `"\u00e9\ud83d\ude00"`, `"\u0000"`, `"\/"`, `""`})
	default:
		return string(encode(d.text()))
	}
}

// args returns the arguments of a call.
func (d dice) args() string {
	if d.chance(10) {
		n := 5 + d.IntN(25)
		return strings.Repeat(`{"n":`, n) + d.scalar() + strings.Repeat("}", n)
	}
	return d.object(3)
}

// schema returns the JSON Schema of an object. A closed one has only required properties and
// keywords that every vendor accepts.
func (d dice) schema(depth int, closed bool) object {
	properties := object{}
	var names []string
	for range d.IntN(4) {
		name := pick(d, []string{"path", "x", "limit", "tags", "options", "naive_name", "camelCase", "kebab-case", "n1"})
		if _, has := properties[name]; has {
			continue
		}
		properties[name] = d.property(depth-1, closed)
		names = append(names, name)
	}
	o := object{"type": "object", "properties": properties}
	switch {
	case closed:
		o["additionalProperties"] = false
		o["required"] = append([]string{}, names...)
	case len(names) > 0 && d.chance(2):
		o["required"] = names[:1+d.IntN(len(names))]
	}
	setIf(d.chance(4), o, "description", d.text())
	setIf(!closed && d.chance(5), o, "additionalProperties", d.chance(2))
	return o
}

func (d dice) property(depth int, closed bool) object {
	var o object
	kinds := []string{"string", "integer", "number", "boolean", "enum", "array", "object"}
	switch kind := pick(d, kinds); {
	case kind == "enum":
		o = object{"type": "string", "enum": []string{"a", "b c", "ü"}}
	case kind == "array" && depth > 0:
		o = object{"type": "array", "items": d.property(depth-1, closed)}
	case kind == "object" && depth > 0:
		o = d.schema(depth, closed)
	case kind == "array" || kind == "object":
		o = object{"type": "string"}
	default:
		o = object{"type": kind}
		setIf(!closed && kind == "integer" && d.chance(3), o, "minimum", 0)
		setIf(!closed && kind == "string" && d.chance(4), o, "maxLength", 100)
		setIf(!closed && kind == "string" && d.chance(6), o, "pattern", "^[a-z]+$")
	}
	setIf(d.chance(3), o, "description", d.text())
	if !closed && d.chance(6) {
		d.oddKeyword(o)
	}
	return o
}

// oddKeyword adds a keyword that some vendors do not have.
func (d dice) oddKeyword(o object) {
	switch d.IntN(7) {
	case 0:
		delete(o, "type")
		o["anyOf"] = []any{object{"type": "string"}, object{"type": "null"}}
	case 1:
		if kind, ok := o["type"].(string); ok {
			o["type"] = []any{kind, "null"}
		}
	case 2:
		o["title"] = d.text()
	case 3:
		setIf(o["type"] == "string", o, "format", pick(d, []string{"date-time", "uri", "email"}))
	case 4:
		setIf(o["type"] == "boolean", o, "default", true)
	case 5:
		setIf(o["type"] == "array", o, "minItems", 1)
	default:
		setIf(o["type"] == "number", o, "exclusiveMinimum", 0)
	}
}
