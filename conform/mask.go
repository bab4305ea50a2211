package conform

import (
	"strings"
	"unicode/utf8"
)

// Masked characters. Each has the class and the UTF-8 length of those that it replaces, so
// that counts of bytes and characters stay the same.
const (
	maskLower = 'x'
	maskUpper = 'X'
	maskDigit = '1'
	maskTwo   = 'ñ'
	maskThree = '文'
	maskFour  = '😀'
)

// Mask replaces each letter and digit with one of its class and keeps spaces and ASCII
// punctuation. Characters are masked one by one, so the masked fragments of a text form its
// mask, and masking twice changes nothing.
func Mask(s string) string { return strings.Map(MaskRune, s) }

// MaskRune returns the character that replaces r.
func MaskRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return maskLower
	case r >= 'A' && r <= 'Z':
		return maskUpper
	case r >= '0' && r <= '9':
		return maskDigit
	case r < utf8.RuneSelf, r == utf8.RuneError:
		return r
	case utf8.RuneLen(r) == 2:
		return maskTwo
	case utf8.RuneLen(r) == 3:
		return maskThree
	}
	return maskFour
}
