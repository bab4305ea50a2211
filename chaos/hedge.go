package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	hedgeLate  = 33              // one request in so many is late at the first target
	hedgeDelay = 4 * time.Second // of its first token: a second attempt has answered long before
	hedgeShare = 0.05            // most attempts beside the first ones
)

// runHedge compares a hedged model with a plain one. The first target of both delays the
// first token of three requests in a hundred. A hedge has worked if the gateway cancels
// such an attempt before its first token, because the second target has answered.
func runHedge(ctx context.Context, r *rig) {
	const name = "hedge/bimodal-first-token"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	quick := testrig.AnswerAfter("good", 20*time.Millisecond)
	c := &config{}
	models := []string{"plain", "hedged"}
	var late, cancelled [2]atomic.Int64
	var targets []*testrig.Target // of the hedged model
	for i, m := range models {
		targets = []*testrig.Target{r.up.Handle(m+"-first", func(call *testrig.Call) bool {
			if call.N%hedgeLate != 0 {
				return quick(call)
			}
			late[i].Add(1)
			if !call.Wait(hedgeDelay) {
				cancelled[i].Add(1)
				return false
			}
			return testrig.Answer("good")(call)
		}), r.up.Handle(m+"-second", quick)}
		var more []string
		if m == "hedged" {
			more = []string{fmt.Sprintf("hedge: { percentile: 95, share: %.2f }", hedgeShare)}
		}
		c.model(m, []string{c.provider(m+"-first", testrig.Chat, r.up.URL(m+"-first", testrig.Chat)), c.provider(m+"-second", testrig.Chat, r.up.URL(m+"-second", testrig.Chat))}, more...)
	}
	during := 40 * time.Second
	if r.short {
		during = 10 * time.Second
	}
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		var warm, load testrig.History[testrig.Sample]
		run := func(to *testrig.History[testrig.Sample], during time.Duration) int {
			return testrig.Offer(ctx, 200, during, func(i int) {
				to.Add(g.client.Measure(ctx, models[i%2], testrig.Query{Model: models[i%2], Stream: true}))
			})
		}
		sent := run(&warm, 4*time.Second) // the gateway learns the usual latency
		before, cut := late[1].Load(), cancelled[1].Load()
		offered := run(&load, during)
		seen, rescued := late[1].Load()-before, cancelled[1].Load()-cut
		calls := targets[0].Calls.Load() + targets[1].Calls.Load()
		extra := float64(calls)/float64((sent+offered)/2) - 1 // of all that were ever sent
		p := testrig.Quantile(load.Pick(inClass("plain")), 0.99, first)
		h := testrig.Quantile(load.Pick(inClass("hedged")), 0.99, first)
		r.Figures(name, fmt.Sprintf("%d of %d late attempts were overtaken by a second one; p99 of the first token: plain %s, hedged %s; %.2f %% more attempts, %d requests each",
			rescued, seen, testrig.Millis(p), testrig.Millis(h), extra*100, offered/2), began, cpu,
			[]string{testrig.When(h > p/2, "p99 of the first token is %s hedged and %s plain, want half", testrig.Millis(h), testrig.Millis(p))},
			example(load.Pick(bad), "requests failed"),
			testrig.When(rescued*2 < seen || seen == 0, "%d of %d late attempts were overtaken by a second one, want at least half", rescued, seen),
			testrig.When(cancelled[0].Load() > 0, "%d attempts of the plain model were cancelled", cancelled[0].Load()),
			testrig.When(extra > hedgeShare, "%.2f %% more attempts, want at most %.0f %%", extra*100, hedgeShare*100))
	})
}
