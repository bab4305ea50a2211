package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	outlierRate = 50 // requests a second, to two targets of the same weight
	// flakyCalls is the most requests that a target gets before it is ejected. The gateway
	// needs 20 results.
	flakyCalls = 60
	// ejectedFor is far more than the first ejection, 30 s.
	ejectedFor = patience

	warmSlice  = 5 * time.Second
	warmSlices = 8    // the gateway takes six
	coldShare  = 0.28 // most requests in the first slice; the gateway means 15 %
	warmShare  = 0.38 // least requests in the last slice; the gateway means 50 %
)

// runOutlier checks a target that fails every second request. It is ejected, although it
// never fails five times in a row. When it returns, its load grows slowly.
func runOutlier(ctx context.Context, r *rig) {
	const ejection, slowStart = "outlier/every-second", "outlier/slow-start"
	slow := !r.short && r.Wants(slowStart)
	if !r.Wants(ejection) && !slow {
		return
	}
	began := time.Now()
	c := &config{}
	var healed atomic.Bool
	flaky := r.up.Handle("flaky", func(c *testrig.Call) bool {
		if c.N%2 == 0 && !healed.Load() {
			return c.Error(500, "every second request")
		}
		return testrig.Answer("good")(c)
	})
	steady := r.up.Handle("steady", testrig.Answer("good"))
	c.model("m", []string{c.provider("flaky", testrig.Chat, r.up.URL("flaky", testrig.Chat)), c.provider("steady", testrig.Chat, r.up.URL("steady", testrig.Chat))}, "balance: weight")
	r.with(ctx, c, func(g *gateway) {
		sending, stop := context.WithCancel(ctx)
		var load testrig.History[testrig.Sample]
		var wg sync.WaitGroup
		wg.Go(func() {
			testrig.Offer(sending, outlierRate, 0, func(int) { load.Add(g.client.Measure(ctx, "", testrig.Query{Model: "m"})) })
		})
		ejected := waitForEjection(ctx, flaky, steady)
		calls := flaky.Calls.Load()
		sent := len(load.List())
		if r.Wants(ejection) {
			r.Check(ejection, fmt.Sprintf("ejected after %d requests to it, of %d", calls, sent), began,
				testrig.Unless(ejected, "the target is not ejected; it got %d requests", calls),
				testrig.When(calls > flakyCalls, "the target got %d requests before it was ejected, want at most %d", calls, flakyCalls),
				example(load.Pick(bad), "requests failed although the other target was healthy"))
		}
		if slow && ejected {
			healed.Store(true)
			measured, problems := warmUp(ctx, flaky, steady)
			r.Check(slowStart, measured, began, append(problems, example(load.Pick(bad), "requests failed"))...)
		}
		stop()
		wg.Wait()
	})
}

// waitForEjection waits until all requests go to the other target.
func waitForEjection(ctx context.Context, flaky, steady *testrig.Target) bool {
	const alone = 2 * outlierRate // requests in a row
	at, other := int64(-1), int64(0)
	return eventually(ctx, patience, func() bool {
		if n := flaky.Calls.Load(); n != at {
			at, other = n, steady.Calls.Load()
		}
		return at > 0 && steady.Calls.Load()-other >= alone
	})
}

// warmUp waits until the target returns, and measures its share of the requests.
func warmUp(ctx context.Context, flaky, steady *testrig.Target) (string, []string) {
	before, began := flaky.Calls.Load(), time.Now()
	if !eventually(ctx, ejectedFor, func() bool { return flaky.Calls.Load() > before }) {
		return "", []string{fmt.Sprintf("the target did not return within %v", ejectedFor)}
	}
	measured := fmt.Sprintf("back after %.0f s; its share of the requests in steps of %v:", time.Since(began).Seconds(), warmSlice)
	var shares []float64
	for range warmSlices {
		f, s := flaky.Calls.Load(), steady.Calls.Load()
		testrig.Pause(ctx, warmSlice)
		f, s = flaky.Calls.Load()-f, steady.Calls.Load()-s
		shares = append(shares, float64(f)/float64(max(f+s, 1)))
		measured += fmt.Sprintf(" %.0f %%", 100*shares[len(shares)-1])
	}
	return measured, []string{
		testrig.When(shares[0] > coldShare, "at first the target has %.0f %% of the requests, want at most %.0f %%", 100*shares[0], 100*coldShare),
		testrig.When(shares[warmSlices-1] < warmShare, "at last the target has %.0f %% of the requests, want at least %.0f %%", 100*shares[warmSlices-1], 100*warmShare),
	}
}
