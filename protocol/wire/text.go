package wire

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Raw is a value's JSON text. An empty Raw is an absent member.
type Raw = jsontext.Value

// Text is a string that keeps its JSON literal, so that a fragment cut between
// the halves of a surrogate pair can still be joined with its other half. It is
// the type of what models and people write; names and enums are plain strings.
type Text struct {
	body string // the literal without its quotation marks
}

// NewText returns the Text for s.
func NewText(s string) Text {
	// Only invalid UTF-8 is an error here, and it is replaced by U+FFFD.
	lit, _ := jsontext.AppendQuote(nil, s)
	return Text{body: string(lit[1 : len(lit)-1])}
}

// JoinedText returns the Text whose literal is the given bodies of literals one
// after another, which is what [Text.AppendBody] collects.
func JoinedText(body []byte) Text { return Text{body: string(body)} }

// String returns the characters. Half a surrogate pair becomes U+FFFD.
func (t Text) String() string {
	if !hasEscape(t.body) {
		return t.body
	}
	s, _ := jsontext.AppendUnquote(nil, t.appendLiteral(nil))
	return string(s)
}

// IsEmpty reports whether t is "".
func (t Text) IsEmpty() bool { return t.body == "" }

// AppendBody appends the literal without its quotation marks.
func (t Text) AppendBody(dst []byte) []byte { return append(dst, t.body...) }

// Len is the length of the literal without its quotation marks.
func (t Text) Len() int { return len(t.body) }

// Whole returns t with every unpaired half of a surrogate pair replaced by
// U+FFFD. It is for text that is no longer a fragment: most parsers refuse the
// halves.
func (t Text) Whole() Text {
	if !hasEscape(t.body) || Raw(t.appendLiteral(nil)).IsValid() {
		return t
	}
	return NewText(t.String())
}

// MarshalJSON writes the literal as it came.
func (t Text) MarshalJSON() ([]byte, error) { return t.appendLiteral(nil), nil }

// UnmarshalJSON keeps the literal.
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

func hasEscape(body string) bool {
	for i := range len(body) {
		if body[i] == '\\' {
			return true
		}
	}
	return false
}
