package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// impatient are the clients that do not wait as long as they are told to. They are
// those who come when the database has just been reached.
const impatient = 500

// inFlight is the most that a node may ask of the database at a time.
const inFlight = 16

// runStampede is R17. A proxy stands between the node and the database, makes it slow
// and counts the queries.
func runStampede(ctx context.Context, s *stage) error {
	n := of(s, 5000, 1000)
	way, err := newProxy(s.postgres.Addr)
	if err != nil {
		return err
	}
	defer way.close()
	way.delay = 5 * time.Millisecond
	cold, err := newGateway(s.bin, s.dir, "gw-cold")
	if err != nil {
		return err
	}
	defer cold.close()
	cold.env = s.nodes[0].env
	set := s.settings()
	set.store = strings.Replace(set.store, s.postgres.Addr, way.addr, 1)
	if err := cold.configure(set, s.up); err != nil {
		return err
	}
	if err := s.leaveSnapshot(ctx, cold); err != nil {
		return err
	}
	keys, err := s.manyKeys(ctx, n)
	if err != nil {
		return err
	}
	s.progress("r17: %d keys made", n)
	if err := s.returnsToAll(ctx, cold, way, keys); err != nil {
		return err
	}
	cold.kill()
	if err := os.RemoveAll(cold.data); err != nil {
		return err
	}
	if err := os.MkdirAll(cold.data, 0o700); err != nil {
		return err
	}
	return s.meetsAll(ctx, cold, way, keys)
}

// leaveSnapshot has the node write down what there is now, which is nearly nothing.
func (s *stage) leaveSnapshot(ctx context.Context, cold *gateway) error {
	if _, err := s.newKey(ctx, "early", limits{}); err != nil {
		return err
	}
	if err := cold.start(ctx); err != nil {
		return err
	}
	defer cold.kill()
	return until(ctx, patience, "keys.snapshot is not written", func() bool {
		i, err := os.Stat(filepath.Join(cold.data, "keys.snapshot"))
		return err == nil && i.Size() > 0
	})
}

// returnsToAll starts the node from its old snapshot while the database cannot be
// reached and has all keys come, then lets it through to the database and has all of
// them come again at that moment.
func (s *stage) returnsToAll(ctx context.Context, cold *gateway, way *proxy, keys []key) error {
	began := time.Now()
	way.cut()
	if err := cold.start(ctx); err != nil {
		return err
	}
	ask := func(i int) asked {
		return s.clients.ask(ctx, cold.url, wish{key: keys[i], model: dear, script: script{Tag: tag("r17"), Say: 1}})
	}
	unsure := func(a asked) bool { return a.status == http.StatusServiceUnavailable && a.hint != "" }
	early, answers := make([]asked, len(keys)), make([]asked, len(keys))
	each(len(keys), len(keys), func(i int) { early[i] = ask(i) })
	way.peak.Store(0)
	before := way.queries.Load()
	way.mend()
	mended := time.Now()
	each(len(keys), len(keys), func(i int) {
		for answers[i] = ask(i); unsure(answers[i]) && time.Since(mended) < 20*time.Second; answers[i] = ask(i) {
			if i < impatient {
				pause(ctx, 100*time.Millisecond)
			} else {
				pause(ctx, time.Duration(number(answers[i].hint))*time.Second)
			}
		}
	})
	peak := way.peak.Load()
	s.check("r17/after-an-outage", fmt.Sprintf("%d keys were told 503 while the database was away, and all served %v after it was back; %d queries, at most %d in flight", count(early, unsure),
		time.Since(mended).Round(time.Millisecond), way.queries.Load()-before, peak), began,
		append(append(bad(early, unsure), bad(answers, asked.good)...), unless(peak <= inFlight, "%d queries in flight, want at most %d", peak, inFlight))...)
	return nil
}

// meetsAll starts the node with nothing and has all keys come at once.
func (s *stage) meetsAll(ctx context.Context, cold *gateway, way *proxy, keys []key) error {
	began := time.Now()
	if err := cold.start(ctx); err != nil {
		return err
	}
	way.peak.Store(0)
	before := way.queries.Load()
	answers := make([]asked, len(keys))
	each(len(keys), len(keys), func(i int) {
		answers[i] = s.clients.ask(ctx, cold.url, wish{key: keys[i], model: dear, script: script{Tag: tag("r17"), Say: 1}})
	})
	asks, peak := way.queries.Load()-before, way.peak.Load()
	s.check("r17/cold", fmt.Sprintf("%d keys: %d queries, at most %d in flight; p99 %v; %d answered with 401", len(keys), asks, peak, p99(answers).Round(time.Millisecond),
		count(answers, func(a asked) bool { return a.status == http.StatusUnauthorized })), began,
		append(bad(answers, asked.good), unless(peak <= inFlight, "%d queries in flight, want at most %d", peak, inFlight),
			unless(asks <= int64(len(keys))+100, "%d queries for %d keys", asks, len(keys)))...) // a hundred for its other work
	return nil
}
