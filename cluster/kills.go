package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runKills plays r8: in every round one node is killed at a random point of its streams
// and started again, while the others go on.
func runKills(ctx context.Context, s *stage) {
	rounds, streams := of(s, 50, 6), of(s, 200, 60)
	began := time.Now()
	k := s.newKey(ctx, "r8", limits{budget: 100_000_000})
	random := rand.New(rand.NewPCG(8, 8))
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range streams {
			w := request{key: k, model: dear, node: i % nodes, stream: true, translated: i%2 == 0, maxTokens: 64}
			w.Tag, w.Say, w.Every = tag("r8"), 5+random.IntN(56), time.Duration(2+random.IntN(20))*time.Millisecond
			wg.Go(func() { s.send(ctx, w) })
		}
		testrig.Pause(ctx, time.Duration(20+random.IntN(900))*time.Millisecond)
		victim := s.nodes[round%nodes]
		victim.Kill()
		testrig.NoError(victim.Start(ctx))
		wg.Wait()
		if round%10 == 9 {
			s.Progress("r8: %d kills", round+1)
		}
	}
	rows := s.settledFor(ctx, settleTime)
	all := s.exchanges.List()
	var got, billed, sent int
	for _, a := range all {
		got += a.tokens
	}
	for _, r := range rows {
		billed += r.output
	}
	for _, u := range s.up.attempts.List() {
		sent += u.tokens
	}
	s.Check("r8/ledger", fmt.Sprintf("%d kills, %d streams, %d of them cut; %d rows, %d of them lost; tokens: %d delivered, %d in the ledger, %d sent", rounds, len(all),
		testrig.Count(all, func(a exchange) bool { return !a.complete }), len(rows), testrig.Count(rows, func(r row) bool { return r.outcome == "lost" }), got, billed, sent), began, s.compared(ctx, rows)...)
}
