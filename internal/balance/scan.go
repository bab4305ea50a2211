package balance

import "bytes"

// scanner finds the strings and the brackets in JSON that is known to be valid: the
// request path has checked it. A decoder that checks it again takes three times as
// long.
type scanner struct {
	rest []byte
}

// The kinds of tokens besides brackets, which are themselves.
const (
	nothing = 0
	name    = ':'
	text    = '"'
)

// next returns the next token and, for names and texts, its literal. It passes over
// numbers, true, false and null. A text that is cut off is one with what is there.
func (s *scanner) next() (kind byte, literal []byte) {
	for i, c := range s.rest {
		switch c {
		case '{', '}', '[', ']':
			s.rest = s.rest[i+1:]
			return c, nil
		case '"':
			s.rest = s.rest[i:]
			return s.literal()
		}
	}
	s.rest = nil
	return nothing, nil
}

func (s *scanner) literal() (kind byte, literal []byte) {
	n := literalLen(s.rest)
	literal, s.rest = s.rest[:n], s.rest[n:]
	after := bytes.TrimLeft(s.rest[:min(len(s.rest), 8)], " \t\r\n")
	if len(after) > 0 && after[0] == ':' {
		return name, literal
	}
	return text, literal
}

// literalLen is the length of the literal that b begins with.
func literalLen(b []byte) int {
	for i := 1; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}
