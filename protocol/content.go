package protocol

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// HasContent reports whether a JSON text has a string that is not empty. It ignores the
// members that a response without content has too.
func HasContent(text []byte, ignored ...string) bool {
	s := wire.NewScanner(text)
	return hasContent(&s, ignored)
}

// hasContent reads the next value, up to the first such string.
func hasContent(s *wire.Scanner, ignored []string) bool {
	switch s.Kind() {
	case '"':
		return len(s.Value()) > len(`""`)
	case '[':
		for range s.Items() {
			if hasContent(s, ignored) {
				return true
			}
		}
	case '{':
		for name := range s.Members() {
			if !slices.Contains(ignored, string(name)) && hasContent(s, ignored) {
				return true
			}
		}
	default:
		s.Value()
	}
	return false
}
