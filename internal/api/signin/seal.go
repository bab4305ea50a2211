package signin

import (
	"crypto/ecdh"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// tokens are what a person gets by a sign-in. A session that began with a key has its proof instead.
type tokens struct {
	Proof   access.Proof `json:"proof,omitzero"`
	Bearer  string       `json:"bearer"`
	Refresh string       `json:"refresh,omitempty"`
	Mail    string       `json:"mail,omitempty"`
	Expires time.Time    `json:"expires"`
}

// newSecret returns a random text with 256 bits.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// digest returns the digest of a secret, by which the store knows it. The purpose keeps the secrets
// of devices, people and sessions apart.
func digest(purpose, secret string) string {
	sum := sha256.Sum256([]byte(purpose + "\x00" + secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sealing is the context of sealed tokens.
var sealing = []byte("isogloss sign-in tokens")

func kem() hpke.KEM { return hpke.DHKEM(ecdh.X25519()) }

// sealKey returns the public key that belongs to a secret. Whoever has it can seal tokens, and only
// the owner of the secret can open them.
func sealKey(secret string) ([]byte, error) {
	k, err := kem().DeriveKeyPair([]byte(secret))
	if err != nil {
		return nil, err
	}
	return k.PublicKey().Bytes(), nil
}

// seal seals tokens with a public key.
func seal(key []byte, t tokens) ([]byte, error) {
	public, err := kem().NewPublicKey(key)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return hpke.Seal(public, hpke.HKDFSHA256(), hpke.AES256GCM(), sealing, text)
}

// unseal opens sealed tokens with a secret.
func unseal(secret string, sealed []byte) (t tokens, err error) {
	private, err := kem().DeriveKeyPair([]byte(secret))
	if err != nil {
		return t, err
	}
	text, err := hpke.Open(private, hpke.HKDFSHA256(), hpke.AES256GCM(), sealing, sealed)
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(text, &t)
}
