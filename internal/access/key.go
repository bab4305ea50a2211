package access

import (
	"crypto/rand"
	"hash/crc32"

	"github.com/isogloss-gateway/isogloss/internal/secret"
)

// A key is gw_ENV_ID_SECRETSUM. Its beginning and its checksum let scanners find a
// leaked one, and let the gateway refuse what never was one without asking anybody.
const (
	keyPrefix = "gw_"
	idLen     = 22 // 131 bits
	secretLen = 43 // 256 bits
	sumLen    = 6  // holds any CRC-32
	tailLen   = 1 + idLen + 1 + secretLen + sumLen
	envMax    = 16
)

// The environments that keys are made for. They are for the reader's eye and for
// scanners; what a key opens is in its record.
const (
	EnvLive  = "live"  // clients
	EnvAdmin = "admin" // operators
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Mint makes a key. Its text is shown once and never kept; the id and a digest of
// the secret are. An env that is not lower-case letters, 16 at the most, makes a
// text that Parse refuses.
func Mint(env string) (id string, sec, text secret.String) {
	id = random62(idLen)
	sec, text = MintAgain(env, id)
	return id, sec, text
}

// MintAgain makes a new secret for a key that exists, for its rotation.
func MintAgain(env, id string) (sec, text secret.String) {
	s := random62(secretLen)
	head := keyPrefix + env + "_" + id + "_" + s
	sum := checksum(head)
	return secret.String(s), secret.String(head + string(sum[:]))
}

// Parse takes a key apart. It is false for whatever is not shaped like one, judged
// by length, alphabet and checksum alone: no I/O, no allocation.
func Parse(text string) (id string, sec secret.String, ok bool) {
	envLen := len(text) - len(keyPrefix) - tailLen
	if envLen < 1 || envLen > envMax || text[:len(keyPrefix)] != keyPrefix {
		return "", "", false
	}
	env, tail := text[len(keyPrefix):len(keyPrefix)+envLen], text[len(keyPrefix)+envLen:]
	for i := range len(env) {
		if env[i] < 'a' || env[i] > 'z' {
			return "", "", false
		}
	}
	id, rest := tail[1:1+idLen], tail[2+idLen:]
	if tail[0] != '_' || tail[1+idLen] != '_' || !alphanumeric(id) || !alphanumeric(rest) {
		return "", "", false
	}
	sum := checksum(text[:len(text)-sumLen])
	if rest[secretLen:] != string(sum[:]) {
		return "", "", false
	}
	return id, secret.String(rest[:secretLen]), true
}

// random62 is n characters of base62, each as likely as any other: bytes past the
// last whole multiple of 62 are thrown away.
func random62(n int) string {
	const usable = 256 - 256%len(base62)
	out := make([]byte, 0, n)
	var raw [64]byte
	for len(out) < n {
		_, _ = rand.Read(raw[:]) // it never fails: it ends the process instead
		for _, b := range raw {
			if int(b) < usable && len(out) < n {
				out = append(out, base62[int(b)%len(base62)])
			}
		}
	}
	return string(out)
}

// checksum is the CRC-32 of a text in base62. It goes byte by byte, because the
// library's faster way would make a copy of the text on the heap.
func checksum(text string) [sumLen]byte {
	crc := ^uint32(0)
	for i := range len(text) {
		crc = crc32.IEEETable[byte(crc)^text[i]] ^ crc>>8
	}
	crc = ^crc
	var out [sumLen]byte
	for i := sumLen - 1; i >= 0; i-- {
		out[i] = base62[crc%uint32(len(base62))]
		crc /= uint32(len(base62))
	}
	return out
}

// alphanumeric has no branch that depends on a character: the processor learns
// branches, and would then be faster with a key that begins like one it knows.
func alphanumeric(s string) bool {
	good := uint16(1)
	for i := range len(s) {
		c := s[i]
		good &= within(c, '0', 10) | within(c, 'A', 26) | within(c, 'a', 26)
	}
	return good == 1
}

// within is 1 where c is one of the n characters from first on, and 0 otherwise.
func within(c, first byte, n uint16) uint16 { return (uint16(c-first) - n) >> 15 }
