package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runRestarts replaces every node by SIGHUP while streaming and non-streaming requests
// are open.
func runRestarts(ctx context.Context, s *stage) {
	began := time.Now()
	k := s.newKey(ctx, "restart", limits{requests: 10_000_000, budget: 100_000_000})
	s.useEverywhere(ctx, k, dear)
	end := s.background(ctx, of(s, 100.0, 60), func(int) (key, string) { return k, dear })
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		testrig.Offer(streaming, 30, 0, func(i int) {
			w := request{key: k, model: dear, node: i % nodes, stream: true, translated: i%2 == 0}
			w.Tag, w.Say, w.Every = tag("restart"), 60, 30*time.Millisecond
			if i%5 == 0 {
				w.leave = 20
			}
			s.send(ctx, w)
		})
	}()
	testrig.Pause(ctx, 2*time.Second)
	rounds := of(s, 3, 1)
	var slowest time.Duration
	for range rounds {
		for _, g := range s.nodes {
			took := testrig.Must(g.Replace(ctx))
			slowest = max(slowest, took)
		}
	}
	stop()
	<-done
	end()
	all := s.exchanges.List()
	s.Check("restart/no-errors", fmt.Sprintf("%d nodes replaced %d times, the old process ended after %v at most; %d requests", nodes, rounds, slowest.Round(10*time.Millisecond), len(all)), began, bad(all, exchange.good)...)
	s.ledgerAgrees(ctx, "restart/ledger", settleTime)
}
