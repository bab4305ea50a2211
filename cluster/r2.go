package main

import (
	"context"
	"fmt"
	"time"
)

// runKilled is R2.
func runKilled(ctx context.Context, s *stage) error {
	const open, most, said, budget = 500, 40, 10, 600 * 40
	const lease = 60 * time.Second
	began := time.Now()
	k, err := s.newKey(ctx, "r2", limits{budget: budget})
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		each(open, open, func(i int) {
			w := wish{key: k, model: cheap, most: most, stream: true, other: i%2 == 0}
			w.Tag, w.Say, w.Every, w.Hold = tag("r2"), said, 20*time.Millisecond, true
			s.ask(ctx, w)
		})
	}()
	// Half a second after the last has come, their words have been said.
	if err := until(ctx, patience, "not all streams are open", func() bool { return s.up.open.Load() == open }); err != nil {
		return err
	}
	pause(ctx, 500*time.Millisecond)
	s.nodes[0].kill()
	killed := time.Now()
	<-done
	if err := s.nodes[0].start(ctx); err != nil {
		return err
	}
	rows, err := s.settled(ctx, lease)
	if err != nil {
		return err
	}
	wrong := s.compared(ctx, rows)
	inLedger := time.Since(killed)
	lost := count(rows, func(r row) bool { return r.outcome == "lost" })
	wrong = append(wrong, unless(lost == open, "%d rows are lost ones, want %d", lost, open))
	s.check("r2/ledger", fmt.Sprintf("%d lost rows, in the ledger %v after the kill", lost, inLedger.Round(10*time.Millisecond)), began, wrong...)

	began = time.Now()
	left := budget - spent(rows, k)/outputCost
	_, wrong = s.exactly(ctx, k, left, time.Until(killed.Add(lease)))
	s.check("r2/reservations", fmt.Sprintf("exactly the %d tokens that the ledger leaves could be spent %v after the kill", left, time.Since(killed).Round(10*time.Millisecond)), began, wrong...)
	return nil
}
