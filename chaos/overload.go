package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

// The upstream of R18 serves this many requests at a time for this long each and queues
// the rest: it completes 200 a second, and more load only makes it slower.
const (
	workers       = 20
	service       = 100 * time.Millisecond
	capacity      = float64(workers) / 0.1
	clientTimeout = 2 * time.Second // a later answer is worth nothing
)

func limitedWorkers() testrig.Script {
	free := make(chan struct{}, workers)
	reply := testrig.AnswerAfter("good", service)
	return func(c *testrig.Call) bool {
		select {
		case free <- struct{}{}:
		case <-c.Gone():
			return false
		}
		defer func() { <-free }()
		return reply(c)
	}
}

// runOverload is R18: five times the load that the upstream can serve.
func runOverload(ctx context.Context, r *rig) {
	for _, c := range []struct{ name, top string }{
		{"r18/fixed", fmt.Sprintf("overload: { per_target: %d, queue: %d, wait: 1s, adaptive: false }", workers, 2*workers)},
		{"r18/adaptive", "overload: { queue: 40, wait: 1s, adaptive: true }"},
	} {
		if r.Wants(c.name) {
			r.overload(ctx, c.name, c.top)
		}
	}
	r.refusedAtOnce(ctx)
}

// criticality mixes one critical request, three sheddable and six normal ones.
func criticality(i int) string {
	switch i % 10 {
	case 0:
		return "critical"
	case 3, 6, 9:
		return "sheddable"
	}
	return "normal"
}

func (r *rig) overload(ctx context.Context, name, top string) {
	began := time.Now()
	c := &config{top: []string{top}}
	r.target(c, "m", testrig.Chat, limitedWorkers())
	calm, storm := 10*time.Second, 60*time.Second
	if r.short {
		calm, storm = 4*time.Second, 8*time.Second
	}
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		var peak, load testrig.History[testrig.Sample]
		send := func(to *testrig.History[testrig.Sample]) func(int) {
			return func(i int) {
				ctx, cancel := context.WithTimeout(ctx, clientTimeout)
				defer cancel()
				to.Add(g.client.Measure(ctx, criticality(i), testrig.Query{Model: "m", Stream: true}, "Isogloss-Criticality", criticality(i)))
			}
		}
		testrig.Keep(ctx, workers, calm, send(&peak))
		testrig.Offer(ctx, 5*capacity, storm, send(&load))
		measured, problems := judgeOverload(load.List(), float64(len(peak.Pick(testrig.Sample.Good)))/calm.Seconds(), storm)
		r.Timed(name, measured, began, cpu, problems...)
	})
}

// refusalTime is how soon the gateway refuses a request without a free place. Requests
// that wait in the queue first are refused later, so the median is held to it there.
const refusalTime = 5 * time.Millisecond

func judgeOverload(load []testrig.Sample, peak float64, during time.Duration) (string, []string) {
	goodput := float64(testrig.Count(load, testrig.Sample.Good)) / during.Seconds()
	critical := testrig.Pick(load, inClass("critical"))
	served := testrig.Count(critical, testrig.Sample.Good)
	refused := testrig.Pick(load, testrig.Sample.Refused)
	p50, p99 := testrig.Quantile(refused, 0.5, took), testrig.Quantile(refused, 0.99, took)
	odd := testrig.Pick(load, func(s testrig.Sample) bool { return !s.Good() && !s.Refused() })
	measured := fmt.Sprintf("peak %.0f/s, at five times the load %.0f/s (%.0f %%); critical %.2f %% of %d; %d refused, p50 %s, p99 %s", peak, goodput, 100*goodput/peak,
		100*float64(served)/float64(max(len(critical), 1)), len(critical), len(refused), testrig.Millis(p50), testrig.Millis(p99))
	problems := []string{
		testrig.Unless(goodput >= 0.9*peak, "goodput %.0f/s, want at least 90 %% of %.0f/s", goodput, peak),
		testrig.Unless(len(refused) > 0, "nothing was refused"),
		testrig.Unless(p50 < refusalTime, "half of the refusals took more than %s, want less than %s", testrig.Millis(p50), refusalTime),
		example(testrig.Pick(refused, func(s testrig.Sample) bool { return !s.RetryAfter }), "refusals have no Retry-After"),
	}
	if float64(served) < 0.99*float64(len(critical)) {
		problems = append(problems, example(testrig.Pick(critical, bad), "critical requests were not served, want 99 % served"))
	}
	if len(odd)*200 > len(load) {
		problems = append(problems, example(odd, "requests were neither served nor refused"))
	}
	return measured, problems
}

// refusedAtOnce measures refusals without a queue: a full target and a slow stream of
// further requests. Every other request goes to an upstream that refuses by itself:
// what that takes is the machine's.
func (r *rig) refusedAtOnce(ctx context.Context) {
	const name = "r18/refused-at-once"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	c := &config{top: []string{"overload: { per_target: 4, queue: 0, adaptive: false }"}}
	full := r.target(c, "full", testrig.Chat, (*testrig.Call).Hold)
	r.up.Handle("direct", testrig.Status(503, "Retry-After", "1"))
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		holding, release := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { g.client.Measure(holding, "", testrig.Query{Model: "full"}) })
		}
		eventually(ctx, 5*time.Second, func() bool { return full.Open.Load() == 4 })
		var load testrig.History[testrig.Sample]
		direct := r.direct("direct")
		testrig.Offer(ctx, 200, 5*time.Second, func(i int) {
			ctx, cancel := context.WithTimeout(ctx, clientTimeout)
			defer cancel()
			if i%2 == 0 {
				load.Add(g.client.Measure(ctx, "gateway", testrig.Query{Model: "full"}))
			} else {
				load.Add(direct.Measure(ctx, "direct", testrig.Query{Model: "full"}))
			}
		})
		release()
		wg.Wait()
		refused := load.Pick(inClass("gateway"))
		p99, machine := testrig.Quantile(refused, 0.99, took), testrig.Quantile(load.Pick(inClass("direct")), 0.99, took)
		odd := testrig.Pick(refused, func(s testrig.Sample) bool { return !s.Refused() || !s.RetryAfter })
		r.Timed(name, fmt.Sprintf("%d refusals, p50 %s, p99 %s; p99 of a direct upstream %s", len(refused), testrig.Millis(testrig.Quantile(refused, 0.5, took)), testrig.Millis(p99), testrig.Millis(machine)), began, cpu,
			testrig.When(p99-machine >= refusalTime, "p99 of the refusals is %s, of which %s is the machine's, want less than %s", testrig.Millis(p99), testrig.Millis(machine), refusalTime),
			example(odd, "responses are not refusals with Retry-After"))
	})
}
