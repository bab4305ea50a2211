package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// What a frozen Redis may cost, and the load meanwhile.
const (
	firstSecond  = 60 * time.Millisecond // p99, on a quiet machine
	afterwards   = time.Millisecond      // p99, likewise
	waited       = 40 * time.Millisecond // of a request that waits for Redis: the gateway gives up after 50 ms
	sharedAgain  = 2 * time.Second       // in turns
	logLines     = 10                    // of each node
	loadRate     = 300.0                 // requests a second
	warmUp       = 3 * time.Second
	frozenRate   = 90  // requests in a minute
	frozenBudget = 900 // tokens
)

// freeze is the state of r3.
type freeze struct {
	*stage
	free, plain, rate, money key
	large                    []key
	cpu                      testrig.CPUTime

	from, frozen, thawed time.Time
	tried, quiet         time.Time // the shares were tested between them
}

// runFrozenRedis plays r3: while Redis does not answer, each node enforces its share of the
// limits.
func runFrozenRedis(ctx context.Context, s *stage) {
	f := &freeze{stage: s, cpu: testrig.ReadCPUTime()}
	f.prepare(ctx)
	began := time.Now()
	end := s.background(ctx, of(s, loadRate, loadRate/2), func(i int) (key, string) { return []key{f.free, f.plain}[i%2], cheap })
	testrig.Pause(ctx, warmUp)
	f.from = time.Now()
	testrig.Pause(ctx, of(s, 10*time.Second, 4*time.Second))
	loud := s.warnings()
	s.redis.Freeze()
	f.frozen = time.Now()
	testrig.Pause(ctx, of(s, 20*time.Second, 3*time.Second))
	f.tried = time.Now()
	shares := f.shares(ctx)
	f.quiet = time.Now()
	testrig.Pause(ctx, time.Until(f.frozen.Add(of(s, 60*time.Second, 8*time.Second))))
	s.redis.Thaw()
	f.thawed = time.Now()
	loud = s.warnings() - loud
	f.checkShared(ctx)
	testrig.Pause(ctx, 2*time.Second)
	seen := end()
	f.checkLatency(seen)
	s.Check("r3/no-errors", fmt.Sprintf("%d requests, %d warnings logged", len(seen), loud), began,
		append(bad(seen, exchange.good), testrig.Unless(loud <= logLines*nodes, "%d lines were logged by %d nodes, want at most %d each", loud, nodes, logLines))...)
	s.Check("r3/shares", shares.measured, f.tried, shares.wrong...)
	s.ledgerAgrees(ctx, "r3/ledger", settleTime)
}

// prepare creates the keys: one with limits that are never reached, one without limits
// so that Redis is not needed, and some whose limits are reached.
func (f *freeze) prepare(ctx context.Context) {
	for _, k := range []struct {
		to *key
		limits
	}{
		{&f.free, limits{requests: 10_000_000, tokens: 1_000_000_000, budget: 10_000_000}}, {&f.plain, limits{}},
		{&f.rate, limits{requests: frozenRate}}, {&f.money, limits{budget: frozenBudget}},
	} {
		*k.to = f.newKey(ctx, "r3", k.limits)
	}
	f.large = f.largeKeys(ctx)
	for _, k := range []key{f.free, f.plain, f.money} {
		f.useEverywhere(ctx, k, cheap)
	}
}

// checkShared checks that the limits are shared again.
func (f *freeze) checkShared(ctx context.Context) {
	back, wrong := f.waitForRedis(ctx, f.large)
	left := frozenBudget - f.tokensOf(f.money)
	_, more := f.exactly(ctx, f.money, left, settleTime)
	f.Figures("r3/back", fmt.Sprintf("all nodes admitted more than their share %v after the thaw; of a budget that was used meanwhile, the %d tokens that were left could be spent", back.Round(time.Millisecond), left),
		f.thawed, f.cpu, []string{goal("the return to Redis", back, sharedAgain)}, append(wrong, more...)...)
}

// checkLatency checks what the freeze adds to the latency. Each request that needs Redis is
// compared with the next one that does not.
func (f *freeze) checkLatency(seen []exchange) {
	l := lags{limited: testrig.Pick(seen, func(a exchange) bool { return a.key == f.free.ID }), control: testrig.Pick(seen, func(a exchange) bool { return a.key == f.plain.ID })}
	first := l.measure(span{f.from, f.frozen}, span{f.frozen, f.frozen.Add(time.Second)})
	// The requests that test the shares use the processors as well.
	rest := l.measure(span{f.from, f.frozen}, span{f.frozen.Add(time.Second), f.tried}, span{f.quiet, f.thawed})
	slower, faster, pairs := l.compare(waited, span{f.frozen, f.thawed})
	stuck := testrig.Count(between(seen, f.frozen, f.thawed.Add(-2*time.Second)), func(a exchange) bool { return a.at.Add(a.took).After(f.thawed) })
	f.Figures("r3/latency", fmt.Sprintf("in the first second %s; after it %s, and of %d requests %d took %v more than one without a limit and %d took less", first, rest, pairs, slower, waited, faster), f.from, f.cpu,
		[]string{
			testrig.Unless(first.added() <= firstSecond, "p99 +%v in the first second, want at most %v", first.added(), firstSecond),
			testrig.Unless(rest.added() <= afterwards+rest.noise(), "p99 +%v afterwards, want at most %v beside %v of noise", rest.added(), afterwards, rest.noise()),
		},
		testrig.When((slower-faster)*8 > pairs || pairs == 0, "of %d requests %d took %v more than one without a limit and %d took less: they waited for Redis", pairs, slower, waited, faster),
		testrig.When(stuck > 0, "%d requests were answered only after the thaw", stuck))
}

// shareTokens is the size of each request that tests a share of a budget.
const shareTokens = 10

// finding is a measurement and its problems.
type finding struct {
	measured string
	wrong    []string
}

// shares sends every node more requests than its share.
func (f *freeze) shares(ctx context.Context) (found finding) {
	began := time.Now()
	ask := func(k key, node, say int) exchange {
		return f.send(ctx, request{key: k, model: cheap, node: node, script: script{Tag: tag("share"), Say: say}})
	}
	var requests, tokens [nodes]int
	var seen testrig.History[exchange]
	stayInMinute(ctx, 3*time.Second)
	minute := time.Now().Truncate(time.Minute)
	testrig.Each(nodes, nodes, func(node int) {
		for range frozenRate * 2 / 3 {
			a := ask(f.rate, node, 1)
			seen.Add(a)
			requests[node] += testrig.Count([]exchange{a}, exchange.good)
		}
	})
	answers := seen.List()
	share := frozenRate / nodes * (1 + int(time.Since(minute)/time.Minute)) // a slow machine takes several minutes
	for range frozenBudget / shareTokens {                                  // only the first node: the other shares remain
		a := ask(f.money, 0, shareTokens)
		answers = append(answers, a)
		tokens[0] += testrig.Count([]exchange{a}, exchange.good) * shareTokens
	}
	found.wrong = bad(answers, func(a exchange) bool { return a.good() || a.refused() })
	for node, n := range requests {
		found.wrong = append(found.wrong, testrig.Unless(n <= share, "node %d admitted %d requests, its share is %d", node+1, n, share),
			testrig.Unless(n > 0, "node %d admitted nothing", node+1))
	}
	found.wrong = append(found.wrong, testrig.Unless(tokens[0] <= frozenBudget/nodes, "node 1 admitted %d tokens, its share is %d", tokens[0], frozenBudget/nodes),
		testrig.Unless(tokens[0] > 0, "node 1 admitted no tokens"))
	found.measured = fmt.Sprintf("%v of %d requests a minute, %d of %d tokens on one node, in %v", requests, frozenRate, tokens[0], frozenBudget, time.Since(began).Round(time.Millisecond))
	return found
}
