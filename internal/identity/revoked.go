package identity

import (
	"crypto/sha256"
	"encoding/base64"
	"sync/atomic"
)

// Revoked is a set of tokens that are refused before they expire. The zero value is empty. It is safe
// for concurrent use.
type Revoked struct {
	digests atomic.Pointer[map[[sha256.Size]byte]bool]
}

// TokenDigest returns the digest by which a set has a token.
func TokenDigest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Set replaces the tokens of the set by those with the given digests.
func (r *Revoked) Set(digests []string) {
	set := make(map[[sha256.Size]byte]bool, len(digests))
	for _, d := range digests {
		if sum, err := base64.RawURLEncoding.DecodeString(d); err == nil && len(sum) == sha256.Size {
			set[[sha256.Size]byte(sum)] = true
		}
	}
	r.digests.Store(&set)
}

// has reports whether a token is in the set. The set may be nil.
func (r *Revoked) has(digest [sha256.Size]byte) bool {
	if r == nil {
		return false
	}
	set := r.digests.Load()
	return set != nil && (*set)[digest]
}
