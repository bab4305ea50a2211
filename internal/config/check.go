package config

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/people/identity"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Check checks what sections have to do with each other, and builds providers and models.
func (c *Config) Check(at *settings.At) {
	store := at.Has("store")
	c.Identity, c.SignIn = c.IdentitySettings.Build(store)
	for i := range c.GateSettings {
		c.Gates = append(c.Gates, c.GateSettings[i].Build())
	}
	c.checkKeys(at)
	c.checkStore(at)
	if c.isPlace {
		return
	}
	c.checkListen(at)
	if c.alone {
		return
	}
	c.checkServing(at)
	c.Providers = provider.Build(c.ProviderSettings, c.Timeouts, c.Listen)
	byName := make(map[string]*provider.Provider, len(c.Providers))
	for _, p := range c.Providers {
		byName[p.Name] = p
	}
	for _, m := range c.ModelSettings {
		c.Models = append(c.Models, m.Value.resolve(c, byName))
	}
}

// Settle drops what the configuration was built from.
func (c *Config) Settle(at *settings.At) {
	c.Store.settle(at.Below("store"), c.Data)
	c.ProviderSettings, c.ModelSettings, c.GateSettings, c.IdentitySettings = nil, nil, nil, identity.Settings{}
}

func (c *Config) checkServing(at *settings.At) {
	if c.Discover.On() {
		return
	}
	if len(c.ProviderSettings) == 0 {
		at.Wrong("providers", "is empty: no upstream serves models; write one, such as \"openai: {preset: openai, api_key: ${OPENAI_API_KEY}}\"")
	}
	if len(c.ModelSettings) == 0 {
		at.Wrong("models", "is empty: no model is served; write one, such as \"openai/*\": {targets: [\"openai/*\"]}")
	}
}

func (c *Config) checkKeys(at *settings.At) {
	seen := map[secret.String]bool{}
	for i, k := range c.Keys {
		if seen[k.Secret] {
			at.WrongItem("keys", i, "is the same key as one before it; keep one")
		}
		seen[k.Secret] = true
	}
}

// checkStore checks what requires a store.
func (c *Config) checkStore(at *settings.At) {
	if c.Cell == "live" || c.Cell == "admin" {
		at.Wrong("cell", "is not a name of 1 to 16 lower-case letters other than live and admin, which other keys have; write one such as eu")
	}
	if c.Usage.Sink != nil && (!at.Below("store").On() || c.Store.isFile()) {
		at.Wrong("usage.sink", "requires a store in PostgreSQL, which has keys and balances; write store, or remove sink")
	}
	if at.Below("store").On() {
		return
	}
	for key, text := range map[string]string{
		"redis":  "shares the limits of keys, which requires a store; write store, or remove redis",
		"alerts": "wait in the store until they are delivered; write store, or remove alerts",
		"tags":   "says what the ledger records, which requires a store; write store, or remove tags",
		"cache":  "separates responses by key, which requires a store; write store, or remove cache",
	} {
		if at.Has(key) {
			at.Wrong(key, "%s", text)
		}
	}
}

// checkListen checks the settings of the client port, and that the ports differ.
func (c *Config) checkListen(at *settings.At) {
	if c.TLS.Cert != "" && at.Has("acme") {
		at.Wrong("acme", "and tls both set the certificate; remove one of them")
	}
	if p := c.BasePath; p != "" && (p[0] != '/' || strings.HasSuffix(p, "/") || strings.ContainsAny(p, "?#%{} ")) {
		at.Wrong("base_path", "%q is not a path prefix; write one such as \"/llm\", without a slash at its end", at.Written("base_path", p))
	}
	host, ok := at.Address("listen", c.Listen)
	if ok && !safeurl.IsLoopback(host) && len(c.Keys)+len(c.IdentitySettings.Issuers) == 0 && !at.Has("store") {
		at.Wrong("listen", "%q is reachable from other machines without a key; add keys, set ISOGLOSS_KEYS, add a store, or listen on 127.0.0.1", at.Written("listen", c.Listen))
	}
	for _, other := range []struct{ name, address string }{{"admin.listen", c.Admin.Listen}, {"metrics.listen", c.Metrics.Listen}} {
		if c.Listen == other.address && !strings.HasSuffix(c.Listen, ":0") {
			at.Wrong("listen", "is the same address as %s; write another port in one of them", other.name)
		}
	}
	if c.Metrics.Listen == c.Admin.Listen && !strings.HasSuffix(c.Admin.Listen, ":0") {
		at.Wrong("metrics.listen", "is the same address as admin.listen; write another port, or use the metrics of the admin port")
	}
}
