package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SafeName returns a name of at most limit bytes, all of which satisfy ok, which
// must accept ASCII letters and digits. It returns a valid name unchanged. In any
// other name it replaces the invalid bytes and appends part of the name's hash, so
// that two different names stay different. The result depends only on the arguments,
// because prompt caches and earlier turns contain it.
func SafeName(name string, limit int, ok func(byte) bool) string {
	filler, tail := '_', "_"
	if !ok('_') {
		filler, tail = 'x', ""
	}
	safe := strings.Map(func(r rune) rune {
		if r < 0x80 && ok(byte(r)) {
			return r
		}
		return filler
	}, name)
	if safe == name && name != "" && len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail += hex.EncodeToString(sum[:5])
	if room := limit - len(tail); room > 0 {
		return safe[:min(len(safe), room)] + tail
	}
	return tail[max(0, len(tail)-limit):] // only the hash fits
}

// MintID returns an id for a tool call that has none. It depends only on the
// arguments, so that a repeated request is encoded the same way.
func MintID(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return prefix + hex.EncodeToString(sum[:12])
}

// WordByte reports whether b is an ASCII letter, a digit, '_' or '-', which most
// protocols accept in names and ids.
func WordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}
