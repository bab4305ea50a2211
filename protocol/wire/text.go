package wire

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Raw is the JSON text of a value. An empty Raw is an absent member.
type Raw = jsontext.Value

// Text is a string that keeps its JSON text. A fragment of a longer string may end
// between the two escapes of a surrogate pair, and Text can still be joined with the
// next fragment. It is for text of models and users; names and enums are of type string.
type Text struct {
	body string // the JSON text without its quotes
}

// NewText returns the Text for s.
func NewText(s string) Text {
	if plainPrefix(s) == len(s) && utf8.ValidString(s) {
		return Text{body: s}
	}
	lit := AppendQuote(nil, s)
	return Text{body: string(lit[1 : len(lit)-1])}
}

// JoinedText returns the Text whose JSON text without quotes is body. Calls of
// [Text.AppendBody] collect such a body from fragments.
func JoinedText(body []byte) Text { return Text{body: string(body)} }

// String returns the decoded string. An unpaired surrogate becomes U+FFFD.
func (t Text) String() string {
	if !hasEscape(t.body) {
		return t.body
	}
	s, _ := jsontext.AppendUnquote(nil, t.appendLiteral(nil))
	return string(s)
}

// IsEmpty reports whether t is "".
func (t Text) IsEmpty() bool { return t.body == "" }

// AppendBody appends the JSON text without its quotes to dst.
func (t Text) AppendBody(dst []byte) []byte { return append(dst, t.body...) }

// Body returns the JSON text without its quotes.
func (t Text) Body() string { return t.body }

// Whole returns t with U+FFFD for every unpaired surrogate. Use it for text that is not
// a fragment, because most parsers reject unpaired surrogates.
func (t Text) Whole() Text {
	if !hasEscape(t.body) || Raw(t.appendLiteral(nil)).IsValid() {
		return t
	}
	return NewText(t.String())
}

// MarshalJSON returns the JSON text unchanged.
func (t Text) MarshalJSON() ([]byte, error) { return t.appendLiteral(nil), nil }

// UnmarshalJSON keeps the JSON text.
func (t *Text) UnmarshalJSON(b []byte) error {
	if Raw(b).Kind() != '"' || len(b) < 2 {
		return errors.New("not a string")
	}
	t.body = string(b[1 : len(b)-1])
	return nil
}

func (t Text) appendLiteral(dst []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, t.body...)
	return append(dst, '"')
}

func hasEscape(body string) bool { return strings.IndexByte(body, '\\') >= 0 }

// WholeText replaces unpaired surrogates, which some vendors reject, in a JSON value. JSN-06
func WholeText(raw Raw) Raw {
	if raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return raw
	}
	out, err := jsontext.AppendFormat(nil, raw, Lenient)
	if err != nil {
		return raw
	}
	return out
}
