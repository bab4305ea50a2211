package llm

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// SafeName makes a name that a protocol accepts out of one that it may not: at
// most limit bytes, all of which ok accepts; letters and digits it must accept. A good name stays as it is. What is
// changed gets a part of its hash at the end, so that two names that look alike
// after the change still differ; the same name gives the same result each time,
// because prompt caches and earlier turns depend on it.
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
	return tail[max(0, len(tail)-limit):] // no room for anything but the hash
}

// MintID makes an id for a call that has none. It depends only on what the call
// is, so that a repeated request is written the same way.
func MintID(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return prefix + hex.EncodeToString(sum[:12])
}

// WordByte reports whether a byte is a letter, a digit, _ or -: what most
// protocols accept in names and ids.
func WordByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-'
}
