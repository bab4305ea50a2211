package codec

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// HasContent reports whether a JSON text has a string that is not empty. ignored are the
// names of members that a response without content has too.
func HasContent(text []byte, ignored ...string) bool {
	s := wire.NewScanner(text)
	return ReadContent(&s, ignored...)
}

// ReadContent is HasContent for the next value of a scanner, which it reads.
func ReadContent(s *wire.Scanner, ignored ...string) (found bool) {
	switch s.Kind() {
	case '"':
		return len(s.Value()) > len(`""`)
	case '[':
		for range s.Items() {
			found = found || ReadContent(s, ignored...)
		}
	case '{':
		for name := range s.Members() {
			found = found || !slices.Contains(ignored, string(name)) && ReadContent(s, ignored...)
		}
	default:
		s.Value()
	}
	return found
}
