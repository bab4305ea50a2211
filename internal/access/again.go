package access

import "github.com/isogloss-gateway/isogloss/internal/secret"

// MintAgain makes a new secret for a key that exists, for its rotation.
func MintAgain(env, id string) (sec, text secret.String) {
	s := random62(secretLen)
	head := keyPrefix + env + "_" + id + "_" + s
	sum := checksum(head)
	return secret.String(s), secret.String(head + string(sum[:]))
}
