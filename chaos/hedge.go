package main

import (
	"context"
	"fmt"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// runHedge compares a hedged model with a plain one. The first target of both delays
// the first token of three requests in a hundred by a second.
func runHedge(ctx context.Context, r *rig) {
	const name = "hedge/bimodal-first-token"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	quick, slow := testrig.AnswerAfter("good", 20*time.Millisecond), testrig.AnswerAfter("good", time.Second)
	c := &config{}
	var hedgedTargets []*testrig.Target
	models := []string{"plain", "hedged"}
	for _, m := range models {
		hedgedTargets = []*testrig.Target{r.up.Handle(m+"-first", func(call *testrig.Call) bool {
			if call.N%33 == 0 {
				return slow(call)
			}
			return quick(call)
		}), r.up.Handle(m+"-second", quick)}
		var more []string
		if m == "hedged" {
			more = []string{"hedge: { percentile: 95, share: 0.05 }"}
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
		offered := run(&load, during)
		calls := hedgedTargets[0].Calls.Load() + hedgedTargets[1].Calls.Load()
		extra := float64(calls)/float64((sent+offered)/2) - 1 // of all that were ever sent
		p := testrig.Quantile(load.Pick(inClass("plain")), 0.99, first)
		h := testrig.Quantile(load.Pick(inClass("hedged")), 0.99, first)
		r.Timed(name, fmt.Sprintf("p99 of the first token: plain %s, hedged %s; %.2f %% more attempts, %d requests each", testrig.Millis(p), testrig.Millis(h), extra*100, offered/2), began, cpu,
			example(load.Pick(bad), "requests failed"),
			testrig.When(h > p/2, "p99 of the first token is %s hedged and %s plain, want half", testrig.Millis(h), testrig.Millis(p)),
			testrig.When(extra > 0.05, "%.2f %% more attempts, want at most 5 %%", extra*100))
	})
}
