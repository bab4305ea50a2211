// Package plain makes texts that come from outside safe to show: on terminals, in tables, logs and
// pages.
package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns a text without what a terminal obeys or an eye cannot see: control characters, escape
// sequences, line breaks, marks that change the direction of text, and bytes that are not UTF-8. Each
// becomes U+FFFD.
func Line(text string) string {
	if IsLine(text) {
		return text
	}
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return utf8.RuneError
	}, text)
}

// IsLine reports whether a text has only characters that Line keeps.
func IsLine(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

// Short returns the beginning of Line of a text, at most so many characters.
func Short(text string, most int) string {
	text = Line(text)
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i] + "…"
		}
	}
	return text
}
