package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runKilledReservations plays r2: the reservations of a killed gateway are settled.
func runKilledReservations(ctx context.Context, s *stage) {
	const open, most, said = 500, 40, 10
	// A node that does not reach Redis in time admits up to its share, a third of what is
	// left. That suffices for all streams, whatever part of them Redis has counted before.
	const budget = 4*open*most + 1000
	const lease = 60 * time.Second // until all reservations are settled, on a quiet machine
	began, cpu := time.Now(), testrig.ReadCPUTime()
	k := s.newKey(ctx, "r2", limits{budget: budget})
	done := make(chan struct{})
	go func() {
		defer close(done)
		testrig.Each(open, open, func(i int) {
			w := request{key: k, model: cheap, maxTokens: most, stream: true, translated: i%2 == 0}
			w.Say, w.Every, w.Hold = said, 20*time.Millisecond, true
			for again := true; again && ctx.Err() == nil; testrig.Pause(ctx, 100*time.Millisecond) {
				w.Tag = tag("r2")
				e := s.send(ctx, w)
				// A busy machine is too slow for Redis or for the queue.
				again = e.refused() || e.status == http.StatusServiceUnavailable
			}
		})
	}()
	testrig.NoError(testrig.Until(ctx, waitLimit, "not all streams have sent their words", func() bool { return s.up.held.Load() == open }))
	s.nodes[0].Kill()
	killed := time.Now()
	<-done
	testrig.NoError(s.nodes[0].Start(ctx))
	rows := s.settled(ctx, settleTime)
	wrong := s.compared(ctx, rows)
	inLedger := time.Since(killed)
	lost := testrig.Count(rows, func(r row) bool { return r.outcome == "lost" })
	wrong = append(wrong, testrig.Unless(lost == open, "%d rows have the outcome lost, want %d", lost, open))
	s.Figures("r2/ledger", fmt.Sprintf("%d lost rows, in the ledger %v after the kill", lost, inLedger.Round(10*time.Millisecond)), began, cpu, []string{goal("the rows", inLedger, lease)}, wrong...)

	began = time.Now()
	left := budget - spent(rows, k)/outputCost
	_, wrong = s.exactly(ctx, k, left, 2*lease)
	s.Figures("r2/reservations", fmt.Sprintf("exactly the %d tokens that the ledger leaves could be spent %v after the kill", left, time.Since(killed).Round(10*time.Millisecond)), began, cpu, []string{goal("the settlement", time.Since(killed), lease)}, wrong...)
}
