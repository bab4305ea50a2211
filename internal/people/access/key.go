package access

import (
	"crypto/rand"
	"hash/crc32"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// A key has the form gw_ENV_ID_SECRETSUM. Prefix and checksum let scanners find leaked keys, and
// let the gateway reject malformed ones without a query.
const (
	keyPrefix = "gw_"
	idLen     = 22 // 131 bits
	secretLen = 43 // 256 bits
	sumLen    = 6  // holds any CRC-32
	tailLen   = 1 + idLen + 1 + secretLen + sumLen
	envMax    = 16
)

// Environments of keys. They are for readers and scanners; the record says what a key may do.
const (
	EnvLive  = "live"  // clients
	EnvAdmin = "admin" // operators
)

// Env returns the environment in the text of a new key: the word for operators' keys, the name of
// the key's cell, or the word for clients' keys without a cell.
func Env(cell string, role Role) string {
	switch {
	case role != "":
		return EnvAdmin
	case cell != "":
		return cell
	}
	return EnvLive
}

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Mint creates a key. Its text is shown once and not stored; the id and a digest of the secret are.
// An env must consist of at most 16 lower-case letters, or Parse rejects the text.
func Mint(env string) (id string, sec, text secret.String) {
	id = random62(idLen)
	sec, text = MintAgain(env, id)
	return id, sec, text
}

// MintAgain creates a new secret for an existing key, for its rotation.
func MintAgain(env, id string) (sec, text secret.String) {
	s := random62(secretLen)
	head := keyPrefix + env + "_" + id + "_" + s
	sum := checksum(head)
	return secret.String(s), secret.String(head + string(sum[:]))
}

// Parse splits a key. It reports false for text that is not a key by length, alphabet or checksum.
// It does not allocate.
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

// random62 returns n uniformly distributed base62 characters: bytes from the last multiple of 62 on
// are discarded.
func random62(n int) string {
	const usable = 256 - 256%len(base62)
	out := make([]byte, 0, n)
	var raw [64]byte
	for len(out) < n {
		_, _ = rand.Read(raw[:]) // never fails
		for _, b := range raw {
			if int(b) < usable && len(out) < n {
				out = append(out, base62[int(b)%len(base62)])
			}
		}
	}
	return string(out)
}

// checksum returns the CRC-32 of a text in base62. It processes single bytes, because the library
// function would copy the text to the heap.
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

// alphanumeric has no branch that depends on a character: branch prediction would make keys with a
// known prefix faster.
func alphanumeric(s string) bool {
	good := uint16(1)
	for i := range len(s) {
		c := s[i]
		good &= within(c, '0', 10) | within(c, 'A', 26) | within(c, 'a', 26)
	}
	return good == 1
}

// within returns 1 if c is one of the n characters from first on, and 0 otherwise.
func within(c, first byte, n uint16) uint16 { return (uint16(c-first) - n) >> 15 }
