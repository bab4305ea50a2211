package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// impatient is the number of clients that retry sooner than Retry-After says. They meet
// the database just after it is back.
const impatient = 500

// inFlight is the most queries that a node may have open at a time.
const inFlight = 16

// runKeyStampede plays r17: thousands of unknown keys do not flood the database. A proxy
// before the database delays and counts the queries.
func runKeyStampede(ctx context.Context, s *stage) {
	n := of(s, 5000, 1000)
	db := testrig.Must(newQueryProxy(s.postgres.Addr, 5*time.Millisecond))
	defer db.Close()
	set := s.settings()
	set.store = strings.Replace(set.store, s.postgres.Addr, db.Addr, 1)
	cold := testrig.Must(s.newNode("gw-cold", set))
	defer cold.Close()
	s.leaveSnapshot(ctx, cold)
	keys := s.manyKeys(ctx, n)
	s.Progress("r17: %d keys created", n)
	s.afterOutage(ctx, cold, db, keys)
	cold.Kill()
	testrig.NoError(os.RemoveAll(cold.Data))
	testrig.NoError(os.MkdirAll(cold.Data, 0o700))
	s.coldKeys(ctx, cold, db, keys)
}

// leaveSnapshot lets the node write a snapshot with nearly no keys.
func (s *stage) leaveSnapshot(ctx context.Context, cold *testrig.Gateway) {
	s.newKey(ctx, "early", limits{})
	testrig.NoError(cold.Start(ctx))
	defer cold.Kill()
	testrig.NoError(testrig.Until(ctx, waitLimit, "keys.snapshot is not written", func() bool {
		i, err := os.Stat(filepath.Join(cold.Data, "keys.snapshot"))
		return err == nil && i.Size() > 0
	}))
}

// afterOutage starts the node from its old snapshot without the database, uses all keys,
// then connects it to the database and uses all keys again at that moment.
func (s *stage) afterOutage(ctx context.Context, cold *testrig.Gateway, db *queryProxy, keys []key) {
	began := time.Now()
	db.Block()
	testrig.NoError(cold.Start(ctx))
	send := func(i int) exchange {
		return s.sendTo(ctx, cold.URL, request{key: keys[i], model: dear, script: script{Tag: tag("r17"), Say: 1}})
	}
	unsure := func(a exchange) bool { return a.status == http.StatusServiceUnavailable && a.hint != "" }
	early, answers := make([]exchange, len(keys)), make([]exchange, len(keys))
	testrig.Each(len(keys), len(keys), func(i int) { early[i] = send(i) })
	db.peak.Store(0)
	before := db.queries.Load()
	db.Unblock()
	back := time.Now()
	testrig.Each(len(keys), len(keys), func(i int) {
		for answers[i] = send(i); unsure(answers[i]) && time.Since(back) < waitLimit; answers[i] = send(i) {
			if i < impatient {
				testrig.Pause(ctx, 100*time.Millisecond)
			} else {
				testrig.Pause(ctx, time.Duration(number(answers[i].hint))*time.Second)
			}
		}
	})
	peak := db.peak.Load()
	s.Check("r17/after-an-outage", fmt.Sprintf("%d keys got 503 while the database was down, and all were served %v after it was back; %d queries, at most %d in flight", testrig.Count(early, unsure),
		time.Since(back).Round(time.Millisecond), db.queries.Load()-before, peak), began,
		append(append(bad(early, unsure), bad(answers, exchange.good)...), testrig.Unless(peak <= inFlight, "%d queries in flight, want at most %d", peak, inFlight))...)
}

// coldKeys starts the node without a snapshot and uses all keys at once.
func (s *stage) coldKeys(ctx context.Context, cold *testrig.Gateway, db *queryProxy, keys []key) {
	began := time.Now()
	testrig.NoError(cold.Start(ctx))
	db.peak.Store(0)
	before, asked := db.queries.Load(), time.Now()
	answers := make([]exchange, len(keys))
	testrig.Each(len(keys), len(keys), func(i int) {
		answers[i] = s.sendTo(ctx, cold.URL, request{key: keys[i], model: dear, script: script{Tag: tag("r17"), Say: 1}})
	})
	queries, peak := db.queries.Load()-before, db.peak.Load()
	other := 100 + 20*int64(time.Since(asked).Seconds()) // queries that are not for keys
	s.Check("r17/cold", fmt.Sprintf("%d keys: %d queries, at most %d in flight; p99 %v; %d answered with 401", len(keys), queries, peak, p99(answers).Round(time.Millisecond),
		testrig.Count(answers, func(a exchange) bool { return a.status == http.StatusUnauthorized })), began,
		append(bad(answers, exchange.good), testrig.Unless(peak <= inFlight, "%d queries in flight, want at most %d", peak, inFlight),
			testrig.Unless(queries <= int64(len(keys))+other, "%d queries for %d keys", queries, len(keys)))...)
}
