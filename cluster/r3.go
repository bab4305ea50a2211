package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// runFrozenRedis is R3.
func runFrozenRedis(ctx context.Context, s *stage) error {
	began := time.Now()
	free, err := s.newKey(ctx, "r3-load", limits{requests: 10_000_000, tokens: 1_000_000_000, budget: 10_000_000})
	if err != nil {
		return err
	}
	plain, err := s.newKey(ctx, "r3-control", limits{}) // no limit, so that Redis is not asked
	if err != nil {
		return err
	}
	rate, err := s.newKey(ctx, "r3-rate", limits{requests: frozenRate})
	if err != nil {
		return err
	}
	money, err := s.newKey(ctx, "r3-budget", limits{budget: frozenBudget})
	if err != nil {
		return err
	}
	large, err := s.largeKeys(ctx)
	if err != nil {
		return err
	}
	for _, k := range []key{free, plain, money} {
		if err := s.useEverywhere(ctx, k, cheap); err != nil {
			return err
		}
	}
	end := s.background(ctx, loadRate, func(i int) (key, string) { return []key{free, plain}[i%2], cheap })
	pause(ctx, warmUp)
	from := time.Now()
	pause(ctx, of(s, 10*time.Second, 4*time.Second))
	loud := s.warnings()
	frozen := time.Now()
	s.redis.Freeze()
	pause(ctx, of(s, 20*time.Second, 3*time.Second))
	tried := time.Now()
	shares := s.frozenShares(ctx, rate, money)
	quiet := time.Now()
	pause(ctx, time.Until(frozen.Add(of(s, 60*time.Second, 8*time.Second))))
	thawed := time.Now()
	s.redis.Thaw()
	loud = s.warnings() - loud
	back, wrong := s.comeBack(ctx, large)
	used := s.tokensOf(money)
	_, more := s.exactly(ctx, money, frozenBudget-used, settleTime)
	s.check("r3/back", fmt.Sprintf("all nodes gave more than their share %v after the thaw; of a budget that was used meanwhile, the %d tokens that were left could be spent", back.Round(time.Millisecond), frozenBudget-used),
		thawed, append(wrong, more...)...)
	pause(ctx, 2*time.Second)
	seen := end()

	l := lags{limited: pickAsked(seen, func(a asked) bool { return a.key == free.ID }), control: pickAsked(seen, func(a asked) bool { return a.key == plain.ID })}
	first := l.added(span{from, frozen}, span{frozen, frozen.Add(time.Second)})
	// The requests that try the shares take the processors' time as well.
	rest := l.added(span{from, frozen}, span{frozen.Add(time.Second), tried}, span{quiet, thawed})
	s.check("r3/latency", fmt.Sprintf("in the first second %s; after it %s", first, rest), began,
		unless(first.added() <= firstSecond, "p99 +%v in the first second, want at most %v", first.added(), firstSecond),
		unless(rest.added() <= afterwards, "p99 +%v afterwards, want at most %v", rest.added(), afterwards))
	s.check("r3/no-errors", fmt.Sprintf("%d requests, %d warnings logged", len(seen), loud), began,
		append(bad(seen, asked.good), unless(loud <= linesOfALog*nodes, "%d lines were logged by %d nodes, want at most %d each", loud, nodes, linesOfALog))...)
	s.check("r3/shares", shares.measured, began, shares.wrong...)
	rows, err := s.settled(ctx, settleTime)
	if err != nil {
		return err
	}
	s.check("r3/ledger", fmt.Sprintf("%d rows", len(rows)), began, s.compared(ctx, rows)...)
	return nil
}

// shareTokens are in each request that tries a share of a budget.
const shareTokens = 10

// largeKeys are a key for each node. Their budgets are larger than what a node gives
// on its own, so that they tell when it has Redis back.
func (s *stage) largeKeys(ctx context.Context) ([]key, error) {
	keys := make([]key, nodes)
	for i := range keys {
		var err error
		if keys[i], err = s.newKey(ctx, fmt.Sprintf("large-%d", i), limits{budget: frozenBudget}); err != nil {
			return nil, err
		}
		if err := s.useEverywhere(ctx, keys[i], cheap); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// comeBack asks each node for nearly all of a budget until it gives it.
func (s *stage) comeBack(ctx context.Context, large []key) (slowest time.Duration, wrong []string) {
	var wg sync.WaitGroup
	took, late := make([]time.Duration, nodes), make([]string, nodes)
	for node, k := range large {
		wg.Go(func() {
			took[node], late[node] = waited(ctx, comesBack, fmt.Sprintf("node %d has not got Redis back", node+1), func() bool { return s.spend(ctx, node, k, frozenBudget-nodes).good() })
		})
	}
	wg.Wait()
	return slices.Max(took), late
}

// tokensOf are those that a key's clients have got.
func (s *stage) tokensOf(k key) (total int) {
	for _, a := range s.clients.history.list() {
		if a.key == k.ID {
			total += a.tokens
		}
	}
	return total
}

type finding struct {
	measured string
	wrong    []string
}

// frozenShares asks every node for more than its share.
func (s *stage) frozenShares(ctx context.Context, rate, money key) (f finding) {
	began := time.Now()
	ask := func(k key, node, say int) asked {
		return s.ask(ctx, wish{key: k, model: cheap, node: node, script: script{Tag: tag("share"), Say: say}})
	}
	var requests, tokens [nodes]int
	var answers []asked
	for node := range nodes {
		for range frozenRate * 2 / 3 {
			a := ask(rate, node, 1)
			answers = append(answers, a)
			requests[node] += count([]asked{a}, asked.good)
		}
	}
	for range frozenBudget / shareTokens { // only the first node: the others' shares are left
		a := ask(money, 0, shareTokens)
		answers = append(answers, a)
		tokens[0] += count([]asked{a}, asked.good) * shareTokens
	}
	f.wrong = bad(answers, func(a asked) bool { return a.good() || a.refused() })
	for node, n := range requests {
		f.wrong = append(f.wrong, unless(n <= frozenRate/nodes, "node %d admitted %d requests, its share is %d", node+1, n, frozenRate/nodes),
			unless(n > 0, "node %d admitted nothing", node+1))
	}
	f.wrong = append(f.wrong, unless(tokens[0] <= frozenBudget/nodes, "node 1 admitted %d tokens, its share is %d", tokens[0], frozenBudget/nodes),
		unless(tokens[0] > 0, "node 1 admitted no tokens"))
	f.measured = fmt.Sprintf("%v of %d requests a minute, %d of %d tokens on one node, in %v", requests, frozenRate, tokens[0], frozenBudget, time.Since(began).Round(time.Millisecond))
	return f
}

// outages says how often a node has found Redis too slow, where nothing was done to
// it: on a machine that is too busy for its timeouts, limits are shares.
func (s *stage) outages() string {
	n := 0
	for _, g := range s.nodes {
		n += strings.Count(g.log(), "redis is lost")
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; Redis was too slow %d times", n)
}

// warnings are the lines that the nodes have logged above the usual.
func (s *stage) warnings() (n int) {
	for _, g := range s.nodes {
		for line := range strings.Lines(g.log()) {
			if up := strings.ToUpper(line); strings.Contains(up, "WARN") || strings.Contains(up, "ERROR") && !strings.Contains(up, "INFO") {
				n++
			}
		}
	}
	return n
}
