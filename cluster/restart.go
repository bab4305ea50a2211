package main

import (
	"context"
	"fmt"
	"time"
)

// runRestarts replaces every node by SIGHUP while streams and whole answers are
// under way.
func runRestarts(ctx context.Context, s *stage) error {
	began := time.Now()
	k, err := s.newKey(ctx, "restart", limits{requests: 10_000_000, budget: 100_000_000})
	if err != nil {
		return err
	}
	if err := s.useEverywhere(ctx, k, dear); err != nil {
		return err
	}
	end := s.background(ctx, of(s, 100, 60), func(int) (key, string) { return k, dear })
	streaming, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		offer(streaming, 30, func(i int) {
			w := wish{key: k, model: dear, node: i % nodes, stream: true, other: i%2 == 0}
			w.Tag, w.Say, w.Every = tag("restart"), 60, 30*time.Millisecond
			if i%5 == 0 {
				w.leave = 20
			}
			s.ask(ctx, w)
		})
	}()
	pause(ctx, 2*time.Second)
	rounds := of(s, 3, 1)
	var slowest time.Duration
	for range rounds {
		for _, g := range s.nodes {
			took, err := g.replace(ctx)
			if err != nil {
				return err
			}
			slowest = max(slowest, took)
		}
	}
	stop()
	<-done
	end()
	all := s.clients.history.list()
	s.check("restart/no-errors", fmt.Sprintf("%d nodes replaced %d times, the old one was gone after %v at most; %d requests", nodes, rounds, slowest.Round(10*time.Millisecond), len(all)), began, bad(all, asked.good)...)
	return s.ledgerAgrees(ctx, "restart/ledger", settleTime)
}
