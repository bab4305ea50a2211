package nats

import (
	"net/url"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is a stream of NATS JetStream.
type Settings struct {
	// Addresses of servers, `nats://`, or `tls://` for TLS.
	Servers []string `key:"servers" required:"yes" example:"[\"tls://nats.internal:4222\"]"`
	// Name of the stream. Its subjects are the name and the number of a partition, such as
	// isogloss-usage.0. `isogloss consume` creates it if it is not there.
	Stream string `key:"stream" default:"isogloss-usage" pattern:"^[A-Za-z0-9_-]{1,200}$" form:"a name of letters, digits, \"-\" and \"_\"" example:"isogloss-usage"`
	// Number of partitions, 256 at most. It belongs to the stream: to change it, use
	// another stream.
	Partitions int `key:"partitions" default:"12" minimum:"1" maximum:"256" example:"12"`
	// Replicas of the stream, if it is created.
	Replicas int `key:"replicas" default:"3" minimum:"1" maximum:"7" example:"3"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/nats-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" is:"file" example:"/etc/isogloss/nats.crt"`
	// PEM file with its private key.
	Key string `key:"key" is:"file" example:"/etc/isogloss/nats.key"`
	// User name, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the user.
	Password secret.String `key:"password" example:"${NATS_PASSWORD}"`
	// File with the JWT and the seed of a user, instead of a password.
	Credentials string `key:"credentials" is:"file" example:"/etc/isogloss/nats.creds"`
}

// Check checks the servers, and that secrets are sent over TLS.
func (s *Settings) Check(at *settings.At) {
	local := true
	for _, text := range s.Servers {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "nats" && u.Scheme != "tls" {
			at.Wrong("servers", "has an entry that is no address of NATS without a user name; write one such as \"tls://nats.internal:4222\"")
			continue
		}
		local = local && (u.Scheme == "tls" || safeurl.IsLoopback(u.Hostname()))
	}
	if (s.Username == "") != (s.Password == "") {
		at.Wrong("username", "and password belong together; write both or neither")
	}
	if s.Username != "" && s.Credentials != "" {
		at.Wrong("credentials", "is used instead of username and password; write one of them")
	}
	if s.Username != "" && !local {
		at.Wrong("servers", "has an address without TLS, to which the password would be sent unencrypted; write tls://")
	}
	at.Together("cert", s.Cert, "key", s.Key)
}

// TLS reports whether a server is reached over TLS.
func (s *Settings) TLS() bool {
	return slices.ContainsFunc(s.Servers, func(url string) bool { return strings.HasPrefix(url, "tls:") })
}
