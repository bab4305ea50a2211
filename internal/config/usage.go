package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
)

// Usage is where the usage of requests goes besides the store. The zero value is nowhere.
type Usage struct {
	Kafka      *Broker
	NATS       *Broker
	Spool      int64       // bytes on disk
	ClickHouse *ClickHouse // nil: none
}

// Sink returns the log of usage events, nil if there is none.
func (u *Usage) Sink() *Broker {
	if u.Kafka != nil {
		return u.Kafka
	}
	return u.NATS
}

// Broker is a log of usage events.
type Broker struct {
	Servers     []string
	Name        string // topic or stream
	Partitions  int
	Replicas    int
	TLS         bool
	CA          string // files
	Cert        string
	Key         string
	Mechanism   string // of SASL
	Username    string
	Password    secret.String
	Credentials string // file
}

// ClickHouse is a database of ClickHouse.
type ClickHouse struct {
	URL, Database, Username string
	Password                secret.String
	CA                      string
}

const (
	maxPartitions = 256
	maxReplicas   = 7
)

var (
	topicForm    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	streamForm   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)
	databaseForm = regexp.MustCompile(`^[A-Za-z0-9_]{0,128}$`)
)

func (f *file) resolveUsage(c *Config, ps *Problems) {
	u := &f.Usage
	s := &u.Sink
	if s.Kafka.node == nil { // its defaults are not in effect
		s.Kafka = kafkaFile{}
	}
	if s.NATS.node == nil {
		s.NATS = natsFile{}
	}
	if !u.has("sink") {
		s.Spool = 0
	}
	if u.node == nil || u.node.kind == null {
		return
	}
	c.Usage.Spool = int64(s.Spool)
	switch {
	case s.Kafka.node != nil && s.NATS.node != nil:
		ps.addKey(&u.at, "sink", "has kafka and nats; write one of them")
	case s.Kafka.node != nil:
		c.Usage.Kafka = s.Kafka.resolve(f.dir, ps)
	case s.NATS.node != nil:
		c.Usage.NATS = s.NATS.resolve(f.dir, ps)
	case u.has("sink"):
		ps.addKey(&u.at, "sink", "has neither kafka nor nats; write one of them")
	}
	if u.has("sink") && (c.Store.URL == "" || c.Store.SQLite()) {
		ps.addKey(&u.at, "sink", "requires a store in PostgreSQL, which has keys and balances; write store, or remove sink")
	}
	if u.has("sink") && s.Spool < 64<<20 {
		ps.addKey(&s.at, "spool", "is less than 64MiB; write a size such as 8GiB")
	}
	if u.ClickHouse.node != nil {
		c.Usage.ClickHouse = u.ClickHouse.resolve(f.dir, ps)
		if !u.has("sink") {
			ps.addKey(&u.at, "clickhouse", "is written from a log of usage events; write sink, or remove clickhouse")
		}
	}
}

func (k *kafkaFile) resolve(dir string, ps *Problems) *Broker {
	b := &Broker{Servers: k.Brokers, Name: k.Topic, Partitions: k.Partitions, Replicas: k.Replicas, TLS: k.TLS, CA: relativeTo(dir, k.CA), Cert: relativeTo(dir, k.Cert), Key: relativeTo(dir, k.Key),
		Username: k.Username, Password: k.Password}
	local := true
	for _, text := range k.Brokers {
		host, port, err := net.SplitHostPort(text)
		if err != nil || host == "" || port == "" {
			ps.addKey(&k.at, "brokers", "has %q, which is no address of a broker; write one such as kafka-1.internal:9092", text)
		}
		local = local && isLoopback(host)
	}
	if len(k.Brokers) == 0 {
		ps.addKey(&k.at, "brokers", "is required; write a list such as [\"kafka-1.internal:9092\"]")
	}
	if !topicForm.MatchString(k.Topic) {
		ps.addKey(&k.at, "topic", "is not a name of letters, digits, \".\", \"-\" and \"_\"; write one such as isogloss-usage")
	}
	if !k.TLS && k.CA+k.Cert+k.Key != "" {
		ps.addKey(&k.at, "tls", "is off, so that ca, cert and key are not used; write tls: true, or remove them")
	}
	if (k.Username == "") != (k.Password == "") {
		ps.addKey(&k.at, "username", "and password belong together; write both or neither")
	}
	if k.Username == "" && k.Mechanism != "" {
		ps.addKey(&k.at, "mechanism", "requires username and password")
	}
	if k.Username != "" && !k.TLS && !local {
		ps.addKey(&k.at, "tls", "is off, so that the password would be sent unencrypted; write tls: true")
	}
	if k.Username != "" {
		k.Mechanism = or(k.Mechanism, "scram-sha-512")
	}
	b.Mechanism = string(k.Mechanism)
	b.check(&k.at, ps)
	return b
}

func (n *natsFile) resolve(dir string, ps *Problems) *Broker {
	b := &Broker{Servers: n.Servers, Name: n.Stream, Partitions: n.Partitions, Replicas: n.Replicas, CA: relativeTo(dir, n.CA), Cert: relativeTo(dir, n.Cert), Key: relativeTo(dir, n.Key),
		Username: n.Username, Password: n.Password, Credentials: relativeTo(dir, n.Credentials)}
	local := true
	for _, text := range n.Servers {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "nats" && u.Scheme != "tls" {
			ps.addKey(&n.at, "servers", "has an entry that is no address of NATS without a user name; write one such as \"tls://nats.internal:4222\"")
			continue
		}
		b.TLS = b.TLS || u.Scheme == "tls"
		local = local && (u.Scheme == "tls" || isLoopback(u.Hostname()))
	}
	if len(n.Servers) == 0 {
		ps.addKey(&n.at, "servers", "is required; write a list such as [\"tls://nats.internal:4222\"]")
	}
	if !streamForm.MatchString(n.Stream) {
		ps.addKey(&n.at, "stream", "is not a name of letters, digits, \"-\" and \"_\"; write one such as isogloss-usage")
	}
	if (n.Username == "") != (n.Password == "") {
		ps.addKey(&n.at, "username", "and password belong together; write both or neither")
	}
	if n.Username != "" && n.Credentials != "" {
		ps.addKey(&n.at, "credentials", "is used instead of username and password; write one of them")
	}
	if n.Username != "" && !local {
		ps.addKey(&n.at, "servers", "has an address without TLS, to which the password would be sent unencrypted; write tls://")
	}
	b.check(&n.at, ps)
	return b
}

// check checks what both kinds have.
func (b *Broker) check(a *at, ps *Problems) {
	if b.Partitions < 1 || b.Partitions > maxPartitions {
		ps.addKey(a, "partitions", "is not a number from 1 to %d", maxPartitions)
	}
	if b.Replicas < 1 || b.Replicas > maxReplicas {
		ps.addKey(a, "replicas", "is not a number from 1 to %d", maxReplicas)
	}
	if (b.Cert == "") != (b.Key == "") {
		ps.addKey(a, "cert", "and key belong together; write both files or neither")
	}
}

func (f *clickhouseFile) resolve(dir string, ps *Problems) *ClickHouse {
	if u, err := url.Parse(f.URL); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || !slices.Contains([]string{"http", "https"}, u.Scheme) || !safeurl.IsSafe(u) {
		ps.addKey(&f.at, "url", "is not an https URL without a user name; write one such as \"https://clickhouse.internal:8443\"")
	}
	if !databaseForm.MatchString(f.Database) {
		ps.addKey(&f.at, "database", "is not a name of letters, digits and \"_\"; write one such as isogloss")
	}
	return &ClickHouse{URL: f.URL, Database: f.Database, Username: f.Username, Password: f.Password, CA: relativeTo(dir, f.CA)}
}
