package kafka

import (
	"cmp"
	"net"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is a topic of Kafka.
type Settings struct {
	// Addresses of brokers, as host:port.
	Brokers []string `key:"brokers" required:"yes" example:"[\"kafka-1.internal:9092\", \"kafka-2.internal:9092\"]"`
	// Name of the topic. `isogloss consume` creates it if it is not there.
	Topic string `key:"topic" default:"isogloss-usage" pattern:"^[A-Za-z0-9._-]{1,200}$" form:"a name of letters, digits, \".\", \"-\" and \"_\"" example:"isogloss-usage"`
	// Number of partitions that are used, 256 at most. It belongs to the topic: to change
	// it, use another topic.
	Partitions int `key:"partitions" default:"12" minimum:"1" maximum:"256" example:"12"`
	// Replicas of the topic, if it is created.
	Replicas int `key:"replicas" default:"3" minimum:"1" maximum:"7" example:"3"`
	// Whether connections use TLS.
	TLS bool `key:"tls" example:"true"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" is:"file" example:"/etc/isogloss/kafka-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" is:"file" example:"/etc/isogloss/kafka.crt"`
	// PEM file with its private key.
	Key string `key:"key" is:"file" example:"/etc/isogloss/kafka.key"`
	// SASL mechanism. The default with a user name is scram-sha-512.
	Mechanism string `key:"mechanism" enum:"plain,scram-sha-256,scram-sha-512" example:"scram-sha-512"`
	// User name of SASL.
	Username string `key:"username" example:"isogloss"`
	// Password of SASL.
	Password secret.String `key:"password" example:"${KAFKA_PASSWORD}"`
}

// Check checks the brokers, and that secrets are sent over TLS.
func (s *Settings) Check(at *settings.At) {
	local := true
	for _, text := range s.Brokers {
		host, port, err := net.SplitHostPort(text)
		if err != nil || host == "" || port == "" {
			at.Wrong("brokers", "has %q, which is no address of a broker; write one such as kafka-1.internal:9092", text)
		}
		local = local && safeurl.IsLoopback(host)
	}
	if !s.TLS && s.CA+s.Cert+s.Key != "" {
		at.Wrong("tls", "is off, so that ca, cert and key are not used; write tls: true, or remove them")
	}
	if (s.Username == "") != (s.Password == "") {
		at.Wrong("username", "and password belong together; write both or neither")
	}
	if s.Username == "" && s.Mechanism != "" {
		at.Wrong("mechanism", "requires username and password")
	}
	if s.Username != "" && !s.TLS && !local {
		at.Wrong("tls", "is off, so that the password would be sent unencrypted; write tls: true")
	}
	if s.Username != "" {
		s.Mechanism = cmp.Or(s.Mechanism, "scram-sha-512")
	}
	at.Together("cert", s.Cert, "key", s.Key)
}
