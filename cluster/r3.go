package main

import (
	"context"
	"fmt"
	"time"
)

// What a frozen Redis may cost.
const (
	firstSecond  = 60 * time.Millisecond
	afterwards   = time.Millisecond
	comesBack    = 2 * time.Second
	linesOfALog  = 10
	loadRate     = 300
	warmUp       = 3 * time.Second
	frozenRate   = 90  // requests in a minute
	frozenBudget = 900 // tokens
)

// freeze is R3 while it runs.
type freeze struct {
	*stage
	free, plain, rate, money key
	large                    []key

	from, frozen, thawed time.Time
	tried, quiet         time.Time // between them the shares were tried
}

// runFrozenRedis is R3.
func runFrozenRedis(ctx context.Context, s *stage) error {
	f := &freeze{stage: s}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	began := time.Now()
	end := s.background(ctx, loadRate, func(i int) (key, string) { return []key{f.free, f.plain}[i%2], cheap })
	pause(ctx, warmUp)
	f.from = time.Now()
	pause(ctx, of(s, 10*time.Second, 4*time.Second))
	loud := s.warnings()
	s.redis.Freeze()
	f.frozen = time.Now()
	pause(ctx, of(s, 20*time.Second, 3*time.Second))
	f.tried = time.Now()
	shares := f.shares(ctx)
	f.quiet = time.Now()
	pause(ctx, time.Until(f.frozen.Add(of(s, 60*time.Second, 8*time.Second))))
	s.redis.Thaw()
	f.thawed = time.Now()
	loud = s.warnings() - loud
	f.back(ctx)
	pause(ctx, 2*time.Second)
	seen := end()
	f.latency(seen)
	s.check("r3/no-errors", fmt.Sprintf("%d requests, %d warnings logged", len(seen), loud), began,
		append(bad(seen, asked.good), unless(loud <= linesOfALog*nodes, "%d lines were logged by %d nodes, want at most %d each", loud, nodes, linesOfALog))...)
	s.check("r3/shares", shares.measured, f.tried, shares.wrong...)
	return s.ledgerAgrees(ctx, "r3/ledger", settleTime)
}

// prepare makes the keys: one that is always asked about and never refused, one
// without limits so that Redis is not asked, and some whose limits are reached.
func (f *freeze) prepare(ctx context.Context) (err error) {
	for _, k := range []struct {
		to *key
		limits
	}{
		{&f.free, limits{requests: 10_000_000, tokens: 1_000_000_000, budget: 10_000_000}}, {&f.plain, limits{}},
		{&f.rate, limits{requests: frozenRate}}, {&f.money, limits{budget: frozenBudget}},
	} {
		if *k.to, err = f.newKey(ctx, "r3", k.limits); err != nil {
			return err
		}
	}
	if f.large, err = f.largeKeys(ctx); err != nil {
		return err
	}
	for _, k := range []key{f.free, f.plain, f.money} {
		if err := f.useEverywhere(ctx, k, cheap); err != nil {
			return err
		}
	}
	return nil
}

// back checks that the limits are shared again.
func (f *freeze) back(ctx context.Context) {
	back, wrong := f.comeBack(ctx, f.large)
	left := frozenBudget - f.tokensOf(f.money)
	_, more := f.exactly(ctx, f.money, left, settleTime)
	f.check("r3/back", fmt.Sprintf("all nodes gave more than their share %v after the thaw; of a budget that was used meanwhile, the %d tokens that were left could be spent", back.Round(time.Millisecond), left),
		f.thawed, append(wrong, more...)...)
}

// latency checks what the freeze has cost those who were served.
func (f *freeze) latency(seen []asked) {
	l := lags{limited: pickAsked(seen, func(a asked) bool { return a.key == f.free.ID }), control: pickAsked(seen, func(a asked) bool { return a.key == f.plain.ID })}
	first := l.added(span{f.from, f.frozen}, span{f.frozen, f.frozen.Add(time.Second)})
	// The requests that try the shares take the processors' time as well.
	rest := l.added(span{f.from, f.frozen}, span{f.frozen.Add(time.Second), f.tried}, span{f.quiet, f.thawed})
	f.check("r3/latency", fmt.Sprintf("in the first second %s; after it %s", first, rest), f.from,
		unless(first.added() <= firstSecond, "p99 +%v in the first second, want at most %v", first.added(), firstSecond),
		unless(rest.added() <= afterwards, "p99 +%v afterwards, want at most %v", rest.added(), afterwards))
}

// shareTokens are in each request that tries a share of a budget.
const shareTokens = 10

type finding struct {
	measured string
	wrong    []string
}

// shares asks every node for more than its share.
func (f *freeze) shares(ctx context.Context) (found finding) {
	began := time.Now()
	ask := func(k key, node, say int) asked {
		return f.ask(ctx, wish{key: k, model: cheap, node: node, script: script{Tag: tag("share"), Say: say}})
	}
	var requests, tokens [nodes]int
	var answers []asked
	for node := range nodes {
		for range frozenRate * 2 / 3 {
			a := ask(f.rate, node, 1)
			answers = append(answers, a)
			requests[node] += count([]asked{a}, asked.good)
		}
	}
	for range frozenBudget / shareTokens { // only the first node: the others' shares are left
		a := ask(f.money, 0, shareTokens)
		answers = append(answers, a)
		tokens[0] += count([]asked{a}, asked.good) * shareTokens
	}
	found.wrong = bad(answers, func(a asked) bool { return a.good() || a.refused() })
	for node, n := range requests {
		found.wrong = append(found.wrong, unless(n <= frozenRate/nodes, "node %d admitted %d requests, its share is %d", node+1, n, frozenRate/nodes),
			unless(n > 0, "node %d admitted nothing", node+1))
	}
	found.wrong = append(found.wrong, unless(tokens[0] <= frozenBudget/nodes, "node 1 admitted %d tokens, its share is %d", tokens[0], frozenBudget/nodes),
		unless(tokens[0] > 0, "node 1 admitted no tokens"))
	found.measured = fmt.Sprintf("%v of %d requests a minute, %d of %d tokens on one node, in %v", requests, frozenRate, tokens[0], frozenBudget, time.Since(began).Round(time.Millisecond))
	return found
}
