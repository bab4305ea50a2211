package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runWipedRedis plays r4: a Redis that lost its data gets the budgets from the ledger.
func runWipedRedis(ctx context.Context, s *stage) {
	const budget, small = 3000, 10
	began := time.Now()
	free := s.newKey(ctx, "r4-load", limits{requests: 10_000_000, budget: 10_000_000})
	money := s.newKey(ctx, "r4-budget", limits{budget: budget})
	large := s.largeKeys(ctx)
	s.useEverywhere(ctx, free, cheap)
	for i := range 3 * nodes {
		if a := s.spend(ctx, i%nodes, money, 100+i); !a.good() {
			testrig.NoError(fmt.Errorf("a request within its budget: %v", a))
		}
	}
	end := s.background(ctx, of(s, loadRate/2, loadRate/4), func(int) (key, string) { return free, cheap })
	testrig.Pause(ctx, 2*time.Second)
	before := s.tokensOf(money)
	s.redis.Kill()
	testrig.Pause(ctx, of(s, 10*time.Second, 2*time.Second))
	var down []exchange
	for i := range 3 * budget / small { // three times the budget
		down = append(down, s.spend(ctx, i%nodes, money, small))
	}
	testrig.NoError(s.redis.Wipe())
	testrig.NoError(s.redis.Start())
	started := time.Now()
	back, wrong := s.waitForRedis(ctx, large)
	used := s.tokensOf(money) // the ledger is compared with it below
	// While Redis is down each node admits its share of the rest that it knew, and the
	// nodes do not know the same requests: together they may exceed the rest by a share.
	left, slice := budget-used, (budget-before)/nodes
	if left < 0 && -left <= slice {
		left = 0
	}
	_, more := s.exactly(ctx, money, left, settleTime)
	admitted := testrig.Count(down, exchange.good) * small
	wrong = append(append(wrong, more...), bad(down, func(a exchange) bool { return a.good() || a.refused() })...)
	s.Check("r4/budget-from-the-ledger", fmt.Sprintf("%d of %d tokens were spent, %d of them while Redis was down, when a node's share was %d; only the rest could be spent; all nodes admitted more than their share %v after its start",
		used, budget, admitted, slice, back.Round(time.Millisecond)), started, append(wrong, testrig.Unless(admitted > 0, "nothing was admitted while Redis was down, and most of the budget was left"))...)
	testrig.Pause(ctx, 2*time.Second)
	seen := end()
	s.Check("r4/no-errors", fmt.Sprintf("%d requests", len(seen)), began, bad(seen, exchange.good)...)
	s.ledgerAgrees(ctx, "r4/ledger", settleTime)
}
