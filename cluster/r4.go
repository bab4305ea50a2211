package main

import (
	"context"
	"fmt"
	"time"
)

// runWipedRedis is R4.
func runWipedRedis(ctx context.Context, s *stage) error {
	const budget, small = 3000, 10
	began := time.Now()
	free, err := s.newKey(ctx, "r4-load", limits{requests: 10_000_000, budget: 10_000_000})
	if err != nil {
		return err
	}
	money, err := s.newKey(ctx, "r4-budget", limits{budget: budget})
	if err != nil {
		return err
	}
	large, err := s.largeKeys(ctx)
	if err != nil {
		return err
	}
	if err := s.useEverywhere(ctx, free, cheap); err != nil {
		return err
	}
	for i := range 3 * nodes {
		if a := s.spend(ctx, i%nodes, money, 100+i); !a.good() {
			return fmt.Errorf("a request within its budget: %v", a)
		}
	}
	end := s.background(ctx, loadRate/2, func(int) (key, string) { return free, cheap })
	pause(ctx, 2*time.Second)
	before := s.tokensOf(money)
	s.redis.Kill()
	pause(ctx, of(s, 10*time.Second, 2*time.Second))
	var down []asked
	for i := range 3 * budget / small { // three times as much as there was
		down = append(down, s.spend(ctx, i%nodes, money, small))
	}
	if err := s.redis.Wipe(); err != nil {
		return err
	}
	if err := s.redis.Start(); err != nil {
		return err
	}
	started := time.Now()
	back, wrong := s.comeBack(ctx, large)
	used := s.tokensOf(money) // the ledger is compared with it below
	// While Redis is lost each node gives its share of what it knew to be left, and not
	// all know of the same requests: that may be too much by a share.
	left, slice := budget-used, (budget-before)/nodes
	if left < 0 && -left <= slice {
		left = 0
	}
	_, more := s.exactly(ctx, money, left, settleTime)
	admitted := count(down, asked.good) * small
	wrong = append(append(wrong, more...), bad(down, func(a asked) bool { return a.good() || a.refused() })...)
	s.check("r4/budget-from-the-ledger", fmt.Sprintf("%d of %d tokens were spent, %d of them while Redis was down, when a node's share was %d; nothing but the rest could be spent; all nodes gave more than their share %v after its start",
		used, budget, admitted, slice, back.Round(time.Millisecond)), started, append(wrong, unless(admitted > 0, "nothing was admitted while Redis was down, and most of the budget was left"))...)
	pause(ctx, 2*time.Second)
	seen := end()
	s.check("r4/no-errors", fmt.Sprintf("%d requests", len(seen)), began, bad(seen, asked.good)...)
	return s.ledgerAgrees(ctx, "r4/ledger", settleTime)
}
