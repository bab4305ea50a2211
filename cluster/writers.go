package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// storeConnections is the most connections that a node has to PostgreSQL.
const storeConnections = 16

// runWriters makes the nodes write to one PostgreSQL at the same time: each sends the rows of an outage, which charge the
// same accounts, while operators create and change keys on all of them.
func runWriters(ctx context.Context, s *stage) {
	began := time.Now()
	proxy, address := s.through(s.postgres)
	with := s.settings()
	with.store = address
	s.restartWith(ctx, with)
	operator := s.newKey(ctx, "operator", limits{role: "owner"})
	keys := s.usedKeys(ctx, 5, "writers", cheap, limits{requests: 10_000_000, budget: 100_000_000})
	asks := of(s, 30_000, 3000)
	proxy.Block()
	answers := make([]exchange, asks)
	testrig.Each(asks, 48, func(i int) { answers[i] = s.spend(ctx, i%nodes, keys[i%len(keys)], 1) })
	wrong := bad(answers, exchange.good)
	waiting := len(s.exchanges.List()) - len(testrig.Must(s.ledger(ctx)))
	before := testrig.Must(s.query(ctx, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))[0][0]

	proxy.Unblock()
	back := time.Now()
	// Each lookup of a new key, each creation and each batch of rows needs a connection.
	const created = 300
	errs := make([]error, created)
	peak := 0
	watching, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for watching.Err() == nil {
			if rows, err := s.query(watching, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'isogloss'"); err == nil {
				peak = max(peak, number(rows[0][0]))
			}
			testrig.Pause(watching, 50*time.Millisecond)
		}
	}()
	testrig.Each(created, nodes*storeConnections, func(i int) {
		_, errs[i] = s.apiKey(ctx, i%nodes, operator, fmt.Sprintf("writer-%d", i))
	})
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	rows := s.settled(ctx, settleTime)
	took := time.Since(back)
	stop()
	<-done
	deadlocks := number(testrig.Must(s.query(ctx, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))[0][0]) - number(before)
	wrong = append(wrong, s.compared(ctx, rows)...)
	s.Check("writers", fmt.Sprintf("%d nodes sent %d rows in %v, %.0f a second, and created %d keys meanwhile, %d of which were refused; at most %d connections; %d deadlocks",
		nodes, waiting, took.Round(10*time.Millisecond), float64(waiting)/took.Seconds(), created, failed, peak, deadlocks), began,
		append(wrong, testrig.Unless(deadlocks == 0, "%d deadlocks", deadlocks), testrig.Unless(waiting >= asks, "only %d rows were waiting", waiting),
			testrig.Unless(peak <= nodes*storeConnections, "%d connections", peak), testrig.Unless(failed == 0, "%d keys could not be created: %v", failed, errs))...)
}
