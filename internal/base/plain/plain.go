// Package plain makes texts that come from outside safe to show: on terminals, in tables, logs and
// pages.
package plain

import (
	"fmt"
	"io"
	"slices"
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

// Lines is Line for a text of several lines: it keeps line feeds and tabs.
func Lines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j := range cells {
			cells[j] = Line(cells[j])
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// Fprintf writes a text in which each argument that is a text is a Line.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	shown := slices.Clone(args)
	for i := range shown {
		if text, ok := shown[i].(string); ok {
			shown[i] = Line(text)
		}
	}
	return fmt.Fprintf(w, format, shown...)
}

// maxWord is the maximum length of a word in bytes.
const maxWord = 128

// Other takes the place of a text that is no word.
const Other = "other"

// Word returns an identifier, such as an upstream's error code, finish reason or id. A text with
// blanks or other characters may be prose that quotes a prompt or a key: then Word returns Other.
func Word(text string) string {
	if len(text) > maxWord || strings.ContainsFunc(text, notInWord) {
		return Other
	}
	return text
}

func notInWord(c rune) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return false
	}
	return !strings.ContainsRune("_-.:/@+=", c)
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
