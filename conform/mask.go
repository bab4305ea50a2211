package conform

import (
	"strings"
	"unicode/utf8"
)

// The letters that stand for all others: of the same class, and of the same length
// in UTF-8, so that whatever counts bytes or characters counts the same.
const (
	maskLower = 'x'
	maskUpper = 'X'
	maskDigit = '1'
	maskTwo   = 'ñ'
	maskThree = '文'
	maskFour  = '😀'
)

// Mask makes a text unreadable and keeps its shape: letters and digits become one of
// their class, spaces and ASCII punctuation stay. Each character is replaced for
// itself, so the mask of pieces is the mask of the whole, and of a mask itself.
func Mask(s string) string { return strings.Map(MaskRune, s) }

// MaskRune is what stands for a character.
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
