package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// runKills is R8: in every round one of the nodes is killed at a random point of
// its streams and started again, while the others go on.
func runKills(ctx context.Context, s *stage) error {
	rounds, streams := of(s, 50, 6), of(s, 200, 60)
	began := time.Now()
	k, err := s.newKey(ctx, "r8", limits{budget: 100_000_000})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(8, 8))
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range streams {
			w := wish{key: k, model: dear, node: i % nodes, stream: true, other: i%2 == 0, most: 64}
			w.Tag, w.Say, w.Every = tag("r8"), 5+random.IntN(56), time.Duration(2+random.IntN(20))*time.Millisecond
			wg.Go(func() { s.ask(ctx, w) })
		}
		pause(ctx, time.Duration(20+random.IntN(900))*time.Millisecond)
		victim := s.nodes[round%nodes]
		victim.kill()
		if err := victim.start(ctx); err != nil {
			return err
		}
		wg.Wait()
		if round%10 == 9 {
			s.progress("r8: %d kills", round+1)
		}
	}
	rows, err := s.settledFor(ctx, 30*time.Second)
	if err != nil {
		return err
	}
	all := s.clients.history.list()
	var got, billed, sent int
	for _, a := range all {
		got += a.tokens
	}
	for _, r := range rows {
		billed += r.output
	}
	for _, u := range s.up.history.list() {
		sent += u.tokens
	}
	s.check("r8/ledger", fmt.Sprintf("%d kills, %d streams, %d of them cut; %d rows, %d of them lost; tokens: %d delivered, %d in the ledger, %d sent", rounds, len(all),
		count(all, func(a asked) bool { return !a.whole }), len(rows), count(rows, func(r row) bool { return r.outcome == "lost" }), got, billed, sent), began, s.compared(ctx, rows)...)
	return nil
}
