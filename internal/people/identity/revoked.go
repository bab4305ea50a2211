package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync/atomic"
)

// Revoked is a set of tokens that are refused before they expire. The zero value is empty. It is safe
// for concurrent use.
type Revoked struct {
	digests atomic.Pointer[map[[sha256.Size]byte]bool]
}

// revocation returns the digest by which a verified token is revoked: that of its issuer and id (jti),
// or of its signed part. The text of the token as a whole will not do. It can be spelled in other ways
// that are as valid: base64 has bits that count for nothing, and ECDSA has two signatures for each.
func revocation(issuer, id, token string) string {
	text := "id\x00" + issuer + "\x00" + id
	if id == "" {
		text = "signed\x00" + token[:strings.LastIndexByte(token, '.')]
	}
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Set replaces the tokens of the set by those with the given digests.
func (r *Revoked) Set(digests []string) {
	set := make(map[[sha256.Size]byte]bool, len(digests))
	for _, d := range digests {
		if sum, ok := parseDigest(d); ok {
			set[sum] = true
		}
	}
	r.digests.Store(&set)
}

func parseDigest(text string) (sum [sha256.Size]byte, ok bool) {
	n, err := base64.RawURLEncoding.Decode(sum[:], []byte(text[:min(len(text), 43)]))
	return sum, err == nil && n == sha256.Size
}

// has reports whether a token is in the set, by the digest of its text, as earlier versions of the
// gateway have revoked it, or by that of revocation. The set may be nil.
func (r *Revoked) has(digest [sha256.Size]byte, revocation string) bool {
	if r == nil {
		return false
	}
	set := r.digests.Load()
	if set == nil || len(*set) == 0 {
		return false
	}
	sum, ok := parseDigest(revocation)
	return (*set)[digest] || ok && (*set)[sum]
}
