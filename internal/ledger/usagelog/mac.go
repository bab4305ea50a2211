package usagelog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// MACHeader is the name of the message header with the MAC of a message.
const MACHeader = "isogloss-mac"

// Key is the key of the MACs of messages. Gateways and consumers derive it from the first pepper. A
// stranger with access to the broker cannot forge usage, or positions that hide usage.
type Key []byte

// MAC returns the MAC of a message: of the name of its batch and its events.
func (k Key) MAC(header string, body []byte) string {
	h := hmac.New(sha256.New, k)
	digest := sha256.Sum256([]byte(header)) // of a fixed length, so that name and events cannot be cut elsewhere
	_, _ = h.Write(digest[:])               // a hash never fails
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Verifies reports whether a message was written by a gateway.
func (k Key) Verifies(r *Record) bool {
	return hmac.Equal([]byte(k.MAC(r.Header, r.Body)), []byte(r.MAC))
}
