package config

import "github.com/isogloss-gateway/isogloss/internal/base/secret"

// usageFile is where the usage of requests goes at the size of a fleet.
type usageFile struct {
	at
	// Log of usage events, instead of rows in the store. `isogloss consume` reads it and
	// adds to the balances in the store, which must be PostgreSQL.
	Sink sinkFile `key:"sink"`
	// ClickHouse that has the requests. `isogloss consume` writes it, and the admin API
	// reads from it. It requires sink.
	ClickHouse clickhouseFile `key:"clickhouse"`
}

// sinkFile is a log of usage events: one of kafka and nats.
type sinkFile struct {
	at
	// Topic of Kafka.
	Kafka kafkaFile `key:"kafka"`
	// Stream of NATS JetStream.
	NATS natsFile `key:"nats"`
	// Disk space for events that are not stored yet. Requests are refused or served
	// without a record if it is exceeded: see store.disk_full. The default is 1GiB.
	Spool size `key:"spool" example:"8GiB"`
}

// kafkaFile is a topic of Kafka.
type kafkaFile struct {
	at
	// Addresses of brokers, as host:port.
	Brokers []string `key:"brokers" example:"[\"kafka-1.internal:9092\", \"kafka-2.internal:9092\"]"`
	// Name of the topic. `isogloss consume` creates it if it is not there.
	Topic string `key:"topic" example:"isogloss-usage"`
	// Number of partitions that are used, 256 at most. It belongs to the topic: to change
	// it, use another topic.
	Partitions int `key:"partitions" example:"12"`
	// Replicas of the topic, if it is created.
	Replicas int `key:"replicas" example:"3"`
	// Whether connections use TLS.
	TLS bool `key:"tls" example:"true"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/kafka-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" example:"/etc/isogloss/kafka.crt"`
	// PEM file with its private key.
	Key string `key:"key" example:"/etc/isogloss/kafka.key"`
	// SASL mechanism. The default with a user name is scram-sha-512.
	Mechanism mechanismName `key:"mechanism" example:"scram-sha-512"`
	// User name of SASL.
	Username string `key:"username" example:"isogloss"`
	// Password of SASL.
	Password secret.String `key:"password" example:"${KAFKA_PASSWORD}"`
}

// natsFile is a stream of NATS JetStream.
type natsFile struct {
	at
	// Addresses of servers, `nats://`, or `tls://` for TLS.
	Servers []string `key:"servers" example:"[\"tls://nats.internal:4222\"]"`
	// Name of the stream. Its subjects are the name and the number of a partition, such as
	// isogloss-usage.0. `isogloss consume` creates it if it is not there.
	Stream string `key:"stream" example:"isogloss-usage"`
	// Number of partitions, 256 at most. It belongs to the stream: to change it, use
	// another stream.
	Partitions int `key:"partitions" example:"12"`
	// Replicas of the stream, if it is created.
	Replicas int `key:"replicas" example:"3"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/nats-ca.crt"`
	// PEM file with the gateway's client certificate.
	Cert string `key:"cert" example:"/etc/isogloss/nats.crt"`
	// PEM file with its private key.
	Key string `key:"key" example:"/etc/isogloss/nats.key"`
	// User name, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the user.
	Password secret.String `key:"password" example:"${NATS_PASSWORD}"`
	// File with the JWT and the seed of a user, instead of a password.
	Credentials string `key:"credentials" example:"/etc/isogloss/nats.creds"`
}

// clickhouseFile is a database of ClickHouse.
type clickhouseFile struct {
	at
	// Address of the HTTP interface, https or on this machine.
	URL string `key:"url" example:"https://clickhouse.internal:8443"`
	// Name of the database. `isogloss consume` creates the table requests in it if it is
	// not there.
	Database string `key:"database" example:"isogloss"`
	// User name, if required.
	Username string `key:"username" example:"isogloss"`
	// Password of the user.
	Password secret.String `key:"password" example:"${CLICKHOUSE_PASSWORD}"`
	// PEM file with the trusted certificates. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/clickhouse-ca.crt"`
}

type mechanismName string

func (mechanismName) options() []string { return []string{"plain", "scram-sha-256", "scram-sha-512"} }
