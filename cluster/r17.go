package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// runStampede is R17: a node with nothing in its memory meets all keys at once, and
// the database takes its time. A proxy counts the queries.
func runStampede(ctx context.Context, s *stage) error {
	const inFlight = 16
	n := of(s, 5000, 1000)
	began := time.Now()
	keys, err := s.manyKeys(ctx, n)
	if err != nil {
		return err
	}
	s.progress("r17: %d keys made", n)
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
	cold.env = s.nodes[0].env
	set := s.settings()
	set.store = strings.Replace(set.store, s.postgres.Addr, way.addr, 1)
	if err := cold.configure(set, s.up); err != nil {
		return err
	}
	defer cold.close()
	if err := cold.start(ctx); err != nil {
		return err
	}
	way.peak.Store(0)
	before := way.queries.Load()
	answers := make([]asked, n)
	each(n, n, func(i int) {
		answers[i] = s.clients.ask(ctx, cold.url, wish{key: keys[i], model: dear, script: script{Tag: tag("r17"), Say: 1}})
	})
	asks, peak := way.queries.Load()-before, way.peak.Load()
	s.check("r17/stampede", fmt.Sprintf("%d keys: %d queries, at most %d in flight; p99 %v; %d answered with 401", n, asks, peak, p99(answers).Round(time.Millisecond),
		count(answers, func(a asked) bool { return a.status == http.StatusUnauthorized })), began,
		append(bad(answers, asked.good), unless(peak <= inFlight, "%d queries in flight, want at most %d", peak, inFlight),
			unless(asks <= int64(n)+100, "%d queries for %d keys", asks, n))...) // a hundred for its other work
	return nil
}
