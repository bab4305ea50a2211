package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runPostgresOutage plays r5: known keys are served without PostgreSQL.
func runPostgresOutage(ctx context.Context, s *stage) {
	began := time.Now()
	known := s.usedKeys(ctx, 10, "known", dear, limits{})
	unknown := s.foreignKeys(ctx, 20)
	const share = 20 // one request in twenty has an unknown key
	var isDown atomic.Bool
	end := s.background(ctx, of(s, loadRate, loadRate/4), func(i int) (key, string) {
		if i%share == 0 && isDown.Load() { // not before: no node may know that they are unknown
			return unknown[i/share%len(unknown)], dear
		}
		return known[i%len(known)], dear
	})
	half := of(s, 150*time.Second, 5*time.Second)
	testrig.Pause(ctx, time.Second)
	from := time.Now()
	testrig.Pause(ctx, 2*time.Second)
	s.postgres.Freeze()
	frozen := time.Now()
	isDown.Store(true)
	testrig.Pause(ctx, half)
	s.postgres.Kill()
	testrig.Pause(ctx, half)
	down := between(s.exchanges.List(), frozen, time.Now()) // those that have ended
	isDown.Store(false)                                     // an address with too many wrong keys is blocked
	testrig.NoError(s.postgres.Start())
	back := time.Now()
	testrig.Pause(ctx, 3*time.Second)
	seen := end()

	strange := map[string]bool{}
	for _, k := range unknown {
		strange[k.ID] = true
	}
	ours := testrig.Pick(seen, func(a exchange) bool { return !strange[a.key] })
	s.Check("r5/known-keys", fmt.Sprintf("%d requests, p99 %v before and %v while it was down", len(ours), p99(between(ours, from, frozen)).Round(10*time.Microsecond),
		p99(between(ours, frozen, back)).Round(10*time.Microsecond)), began, bad(ours, exchange.good)...)
	theirs := testrig.Pick(down, func(a exchange) bool { return strange[a.key] })
	s.Check("r5/unknown-keys", fmt.Sprintf("%d requests", len(theirs)), began, append(bad(theirs, func(a exchange) bool {
		return a.status == http.StatusServiceUnavailable && a.hint != ""
	}), testrig.Unless(len(theirs) > 0, "there were none"))...)
	rows := s.settled(ctx, settleTime)
	s.Check("r5/ledger", fmt.Sprintf("%d rows, all there %v after its start", len(rows), time.Since(back).Round(10*time.Millisecond)), back, s.compared(ctx, rows)...)
	s.checkKeys(ctx, unknown[0])
}

// checkKeys checks that unknown keys are rejected again.
func (s *stage) checkKeys(ctx context.Context, unknown key) {
	began := time.Now()
	var last exchange
	_, late := waitFor(ctx, waitLimit, "an unknown key is not rejected", func() bool {
		last = s.spend(ctx, 0, unknown, 1)
		return last.status == http.StatusUnauthorized
	})
	s.usedKey(ctx, "new", dear, limits{})
	s.Check("r5/afterwards", "an unknown key gets 401, a new one is served", began, late, testrig.Unless(late == "", "%v", last))
}
