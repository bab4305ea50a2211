package redis

import (
	"net/url"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is the Redis that shares limits. It may be written as its url alone.
type Settings struct {
	// Address, `redis://`, or `rediss://` for TLS. A cluster needs one address of its
	// own; `?addr=HOST:PORT` adds further ones. With `?master_set=NAME` the addresses
	// are Sentinels.
	URL secret.String `key:"url" secret:"login" example:"redis://127.0.0.1:6379/0"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/redis-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" is:"file" example:"/etc/isogloss/redis.crt"`
	// PEM file with its private key.
	Key string `key:"key" is:"file" example:"/etc/isogloss/redis.key"`
}

// FromText reads the short form of the section, which is the address alone.
func (s *Settings) FromText(text string) { s.URL = secret.String(text) }

// Check checks the address, and that the files are used.
func (s *Settings) Check(at *settings.At) {
	u, err := url.Parse(s.URL.Reveal())
	if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		at.Wrong("url", "is not an address of Redis; write one such as \"redis://127.0.0.1:6379/0\", or rediss:// for TLS")
	}
	at.Together("cert", s.Cert, "key", s.Key)
	if err == nil && u.Scheme == "redis" && s.CA+s.Cert+s.Key != "" {
		at.Wrong("url", "is without TLS, so that ca, cert and key are not used; write rediss://, or remove them")
	}
}
