package app

import (
	"runtime"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/kafka"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/nats"
	"github.com/isogloss-gateway/isogloss/internal/money/spool"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// TestUsageIsOptional checks that the store has everything without usage.sink, and that nothing is started.
func TestUsageIsOptional(t *testing.T) {
	s := &stores{store: &store.Store{}}
	before := runtime.NumGoroutine()
	if err := s.openUsage(&config.Config{}); err != nil {
		t.Fatal(err)
	}
	if s.sink != spool.Sink(s.store) || s.requests != s.store || s.spent != s.store || len(s.shut) > 0 || runtime.NumGoroutine() > before {
		t.Errorf("without usage the stores are %+v", s)
	}
}

// TestUsageSink checks that a log and ClickHouse replace the store, and that a start does not wait for them.
func TestUsageSink(t *testing.T) {
	for name, sink := range map[string]config.Sink{
		"kafka": {Kafka: &kafka.Settings{Brokers: []string{"127.0.0.1:1"}, Topic: "t", Partitions: 1}},
		"nats":  {NATS: &nats.Settings{Servers: []string{"nats://127.0.0.1:1"}, Stream: "t", Partitions: 1}},
	} {
		u := config.Usage{Sink: &sink, ClickHouse: &clickhouse.Settings{URL: "http://127.0.0.1:1"}}
		s := &stores{store: &store.Store{}, peppers: peppersOf(t)}
		if err := s.openUsage(&config.Config{Usage: u}); err != nil {
			t.Fatal(err)
		}
		_, follows := s.sink.(spool.Follower)
		_, isSink := s.sink.(*usagelog.Sink)
		if _, ok := s.requests.(*clickhouse.DB); !ok || !isSink || !follows || s.spent == s.store {
			t.Errorf("%s: the stores are %+v", name, s)
		}
		for _, shut := range s.shut {
			shut()
		}
	}
	s := &stores{store: &store.Store{}, peppers: peppersOf(t)}
	if err := s.openUsage(&config.Config{Usage: config.Usage{Sink: &config.Sink{Kafka: &kafka.Settings{Brokers: []string{"127.0.0.1:1"}, TLS: true, CA: "nowhere"}}}}); err == nil {
		t.Error("a missing file of certificates is accepted")
	}
}

// peppersOf returns a pepper.
func peppersOf(t *testing.T) access.Peppers {
	t.Helper()
	p, err := access.NewPeppers([]secret.String{"0123456789abcdef0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
