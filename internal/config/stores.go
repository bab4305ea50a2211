package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/safeurl"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/nats"
)

// Store is the database of keys and ledger. It may be written as its url alone.
type Store struct {
	// `sqlite` is a file in the data folder, `sqlite:/path/to/file.db` another file.
	// Several gateways share a `postgres://` database. The default is sqlite.
	URL secret.String `key:"url" secret:"login" example:"postgres://isogloss:${PASSWORD}@db.internal/isogloss"`
	// Secrets for key digests, at least 32 characters each, oldest first. New keys
	// use the last one; existing keys keep theirs. With sqlite the gateway creates
	// one in the data folder by default. PostgreSQL requires it, because all
	// gateways need the same.
	Peppers []secret.String `key:"peppers" example:"[\"${PEPPER}\"]"`
	// How long known keys work while the store is unreachable.
	Stale time.Duration `key:"stale" default:"24h" example:"1h"`
	// What to do with a request whose usage cannot be recorded because the disk or the
	// spool is full: refuse it, or serve it without a row in the ledger. By default
	// requests of keys with a budget are refused and others are served.
	DiskFull string `key:"disk_full" enum:"refuse,serve" restart:"no" example:"refuse"`
}

// minPepper is the minimum length of a pepper.
const minPepper = 32

// FromText lets a store be written as its address alone.
func (s *Store) FromText(text string) { s.URL = secret.String(text) }

// SQLite reports whether the store is an SQLite file.
func (s *Store) SQLite() bool { return strings.HasPrefix(s.URL.Reveal(), "sqlite:") }

// File returns the path of the SQLite file.
func (s *Store) File() string { return strings.TrimPrefix(s.URL.Reveal(), "sqlite:") }

// Name returns the address of the store without its credentials.
func (s *Store) Name() string {
	text := s.URL.Reveal()
	if s.SQLite() {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return "postgres"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// AbsoluteName is Name with the absolute path of an SQLite file. It is empty if there is no store.
func (s *Store) AbsoluteName() string {
	switch abs, err := filepath.Abs(s.File()); {
	case s.URL == "":
		return ""
	case s.SQLite() && err == nil:
		return "sqlite:" + abs
	}
	return s.Name()
}

// isFile reports whether the store is an SQLite file, as it is written.
func (s *Store) isFile() bool { return s.URL == "" || s.URL == "sqlite" || s.SQLite() }

// Check checks address and peppers.
func (s *Store) Check(at *settings.At) {
	text := s.URL.Reveal()
	switch scheme, _, _ := strings.Cut(text, ":"); {
	case s.isFile() && text != "sqlite:":
	case scheme == "postgres", scheme == "postgresql":
		switch u, err := url.Parse(text); {
		case err != nil || u.Host == "":
			at.Wrong("url", "is not an address of PostgreSQL; write one such as \"postgres://user:${PASSWORD}@host:5432/isogloss\"")
		case !safeurl.IsLoopback(u.Hostname()) && secret.HasKnownPassword(u):
			at.Wrong("url", "has a password of an example, or the name of its user as password, which everybody knows; set one from \"openssl rand -hex 32\" in PostgreSQL and write it here")
		}
	default:
		at.Wrong("url", "is no store; write sqlite, \"sqlite:/path/to/file.db\" or \"postgres://…\"")
	}
	if scheme, _, _ := strings.Cut(text, ":"); len(s.Peppers) == 0 && (scheme == "postgres" || scheme == "postgresql") {
		at.Wrong("peppers", "is required with a shared database, because all gateways need the same; write [\"${PEPPER}\"] with one from \"openssl rand -hex 32\"")
	}
	for i, p := range s.Peppers {
		switch {
		case len(p) < minPepper:
			at.Wrong("peppers", "has a pepper, number %d, of less than %d characters; write one from \"openssl rand -hex 32\"", i+1, minPepper)
		case p.IsKnown():
			at.Wrong("peppers", "has a pepper, number %d, of an example, which everybody knows; write one from \"openssl rand -hex 32\", and rotate the keys that were made with the old one", i+1)
		}
	}
}

// settle replaces the address of an SQLite file by its path. Without a store the address is empty.
func (s *Store) settle(at *settings.At, data string) {
	switch text := s.URL.Reveal(); {
	case !at.On() || !s.isFile():
	case text == "" || text == "sqlite":
		s.URL = secret.String("sqlite:" + filepath.Join(data, "isogloss.db"))
	default:
		s.URL = secret.String("sqlite:" + at.Path(strings.TrimPrefix(text, "sqlite:")))
	}
}

// Usage is where the usage of requests goes at the size of a fleet.
type Usage struct {
	// Log of usage events, instead of rows in the store. `isogloss consume` reads it and
	// adds to the balances in the store, which must be PostgreSQL.
	Sink *Sink `key:"sink"`
	// ClickHouse that has the requests. `isogloss consume` writes it, and the admin API
	// reads from it. It requires sink.
	ClickHouse *clickhouse.Settings `key:"clickhouse"`
}

// Sink is a log of usage events: one of kafka and nats.
type Sink struct {
	// Topic of Kafka.
	Kafka *kafka.Settings `key:"kafka"`
	// Stream of NATS JetStream.
	NATS *nats.Settings `key:"nats"`
	// Disk space for events that are not stored yet. Requests are refused or served
	// without a record if it is exceeded: see store.disk_full. The default is 1GiB.
	Spool int64 `key:"spool" is:"bytes" default:"1GiB" minimum:"64MiB" example:"8GiB"`
}

// Check checks that there is a log of usage events if anything is configured.
func (u *Usage) Check(at *settings.At) {
	switch s := u.Sink; {
	case s == nil:
	case s.Kafka != nil && s.NATS != nil:
		at.Wrong("sink", "has kafka and nats; write one of them")
	case s.Kafka == nil && s.NATS == nil:
		at.Wrong("sink", "has neither kafka nor nats; write one of them")
	}
	if u.ClickHouse != nil && u.Sink == nil {
		at.Wrong("clickhouse", "is written from a log of usage events; write sink, or remove clickhouse")
	}
}

// Spool returns the disk space of events that are not stored yet, 0 without a log.
func (u *Usage) Spool() int64 {
	if u.Sink == nil {
		return 0
	}
	return u.Sink.Spool
}

// Partitions returns the number of partitions of the log.
func (s *Sink) Partitions() int {
	if s.Kafka != nil {
		return s.Kafka.Partitions
	}
	return s.NATS.Partitions
}
