package wire

import (
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) string {
	return string(AppendQuote(nil, s))
}

// AppendQuote appends s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendQuote(dst []byte, s string) []byte {
	dst, _ = appendQuote(dst, s)
	return dst
}

// appendQuote is like [AppendQuote]. Its only error is invalid UTF-8.
func appendQuote(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return jsontext.AppendQuote(dst, s)
	}
	dst = append(slices.Grow(dst, len(s)+2), '"')
	return append(appendEscaped(dst, s), '"'), nil
}

// AppendQuoteOrNull is like [AppendQuote], but appends null if s is empty.
func AppendQuoteOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return AppendQuote(dst, s)
}

// appendEscaped appends valid UTF-8 with the same escapes as the JSON library. It copies the
// parts between them at once.
func appendEscaped(dst []byte, s string) []byte {
	for {
		n := plainPrefix(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return dst
		}
		switch c := s[n]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		s = s[n+1:]
	}
}

// plainPrefix returns the number of bytes before the first one that JSON escapes. It looks
// at 32 bytes at a time, then at eight.
func plainPrefix[T string | []byte](s T) int {
	i := 0
	for ; i+32 <= len(s); i += 32 {
		p := s[i : i+32]
		if special(word(p[:8]))|special(word(p[8:16]))|special(word(p[16:24]))|special(word(p[24:])) != 0 {
			break
		}
	}
	for ; i+8 <= len(s); i += 8 {
		if found := special(word(s[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)>>3
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}

// word returns eight bytes as a number. The compiler makes it one load.
func word[T string | []byte](s T) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// special returns a word whose first set bit is in the first byte of w that ends or
// interrupts a JSON string: a quote, a backslash or a control character.
func special(w uint64) uint64 {
	quote, slash := w^('"'*ones), w^('\\'*ones)
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & tops
}
