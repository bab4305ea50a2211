package wire

import "bytes"

// Tokens splits JSON text into brackets, names and strings, and skips everything
// else. Unlike [Scanner] it does not validate, so the text must be known to be
// valid, and it accepts text that is cut off at any byte. It is for reading the
// first part of a large text.
type Tokens struct {
	rest []byte
}

// The kinds of tokens that [Tokens.Next] returns besides the brackets, whose kind is
// the bracket itself.
const (
	NoToken     = 0
	NameToken   = ':'
	StringToken = '"'
)

// NewTokens returns the Tokens of text.
func NewTokens(text []byte) Tokens { return Tokens{rest: text} }

// Next returns the kind of the next token, or NoToken at the end of the text. For
// names and strings it also returns the quoted text. A string that is cut off ends
// with the text.
func (t *Tokens) Next() (kind byte, quoted []byte) {
	for i, c := range t.rest {
		switch c {
		case '{', '}', '[', ']':
			t.rest = t.rest[i+1:]
			return c, nil
		case '"':
			end := min(stringEnd(t.rest, i)+1, len(t.rest))
			quoted, t.rest = t.rest[i:end], t.rest[end:]
			after := bytes.TrimLeft(t.rest[:min(len(t.rest), 8)], " \t\r\n")
			if len(after) > 0 && after[0] == ':' {
				return NameToken, quoted
			}
			return StringToken, quoted
		}
	}
	t.rest = nil
	return NoToken, nil
}

// stringEnd returns the position of the quote that ends the string starting at i,
// or len(text) if the string is cut off.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return len(text)
		}
		i += n
		escapes := 0
		for text[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i
		}
	}
	return len(text)
}
