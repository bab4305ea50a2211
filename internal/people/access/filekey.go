package access

import (
	"cmp"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Key is a client key written as a mapping.
type Key struct {
	// The key.
	Secret secret.String `key:"key" example:"${TEAM_KEY}"`
	// Priority of its requests under overload. A request can lower it with the
	// header Isogloss-Criticality. The default is normal.
	Criticality string `key:"criticality" enum:"critical,normal,sheddable" example:"critical"`
	// Maximum number of open requests. The default is overload.per_key.
	Concurrency int `key:"concurrency" minimum:"0" example:"8"`
}

// minKey is the minimum length of a key in the file.
const minKey = 16

// FromText lets a key be written alone.
func (k *Key) FromText(text string) { k.Secret = secret.String(text) }

// Check checks the key.
func (k *Key) Check(at *settings.At) {
	key := "key"
	if !at.Has(key) {
		key = "" // written alone
	}
	switch {
	case k.Secret == "":
		at.Wrong(key, "is empty; write a key of at least %d characters, or remove the line", minKey)
	case strings.ContainsFunc(k.Secret.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }):
		at.Wrong(key, "holds a space or a character that a header cannot carry; write letters, digits and signs")
	case len(k.Secret) < minKey:
		at.Wrong(key, "is shorter than %d characters; write a longer one, for example from \"openssl rand -hex 24\"", minKey)
	case k.Secret.IsKnown():
		at.Wrong(key, "is a key of an example, which everybody knows; write one from \"openssl rand -hex 24\"")
	}
	k.Criticality = cmp.Or(k.Criticality, "normal")
}
