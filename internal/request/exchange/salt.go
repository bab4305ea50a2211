package exchange

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// CacheSalt returns the salt of the call for the prefix cache of a target's engine, or ""
// if it gets none. Two tenants have different salts, so that neither can measure what the
// other has in the cache; all nodes have the same, so that a tenant finds its own prefixes.
func (c *Call) CacheSalt(t *Target) string {
	mode := t.Provider.CacheSalt
	if c.Tenant == "" || t.Dialect.CacheSalt == "" || !c.Generates() || mode != provider.TenantSalt && (mode != provider.SharedSalt || !c.Settings.IsShared()) {
		return ""
	}
	mac := hmac.New(sha256.New, c.Settings.SaltKey)
	mac.Write([]byte(c.Tenant))
	return hex.EncodeToString(mac.Sum(nil))
}
