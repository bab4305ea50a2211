package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// The upstream of r18 serves this many requests at a time for a time each and queues the
// rest: more load only makes it slower.
const (
	workers       = 20
	queueLength   = 10 * workers     // a busy machine sends what was due in seconds at once
	queueWait     = 5 * time.Second  // of the gateway's queue
	clientTimeout = 20 * time.Second // a later answer is worth nothing
	overloadTries = 3
	stormFactor   = 5 // how much more is offered than the upstream can serve
)

// overloadSize is the size of r18.
type overloadSize struct{ service, calm, storm time.Duration }

// capacity returns how many requests the upstream serves in a second.
func (o overloadSize) capacity() float64 { return workers / o.service.Seconds() }

func limitedWorkers(service time.Duration) testrig.Script {
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

// runOverload plays r18: five times the load that the upstream can serve.
func runOverload(ctx context.Context, r *rig) {
	for _, c := range []struct{ name, top string }{
		{"r18/fixed", fmt.Sprintf("overload: { per_target: %d, queue: %d, wait: %v, adaptive: false }", workers, queueLength, queueWait)},
		{"r18/adaptive", fmt.Sprintf("overload: { queue: %d, wait: %v, adaptive: true }", queueLength, queueWait)},
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
	size := overloadSize{service: 100 * time.Millisecond, calm: 10 * time.Second, storm: 60 * time.Second}
	if r.short { // less work for the processors
		size = overloadSize{service: 400 * time.Millisecond, calm: 5 * time.Second, storm: 10 * time.Second}
	}
	c := &config{top: []string{top}}
	t := r.target(c, "m", testrig.Chat, limitedWorkers(size.service))
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		// rate sends a load and returns how many complete answers came in a second, from the
		// first one on.
		rate := func(load func(send func(int))) (all []testrig.Sample, good float64) {
			var seen testrig.History[testrig.Sample]
			var first, last time.Time
			var mu sync.Mutex
			load(func(i int) {
				ctx, cancel := context.WithTimeout(ctx, clientTimeout)
				defer cancel()
				s := g.client.Measure(ctx, criticality(i), testrig.Query{Model: "m", Stream: true}, "Isogloss-Criticality", criticality(i))
				seen.Add(s)
				mu.Lock()
				defer mu.Unlock()
				if now := time.Now(); s.Good() {
					if first.IsZero() {
						first = now
					}
					last = now
				}
			})
			all = seen.List()
			return all, float64(testrig.Count(all, testrig.Sample.Good)) / max(last.Sub(first).Seconds()+size.service.Seconds(), size.service.Seconds())
		}
		measure := func() (measured string, goals, problems []string) {
			_, peak := rate(func(send func(int)) { testrig.Keep(ctx, workers, size.calm, send) })
			before := t.Calls.Load()
			load, goodput := rate(func(send func(int)) { testrig.Offer(ctx, stormFactor*size.capacity(), size.storm, send) })
			return judgeOverload(load, peak, goodput, t.Calls.Load()-before)
		}
		measured, goals, problems := measure()
		// The peak and the storm may meet different loads of the machine. A gateway that serves
		// less in a storm does so every time.
		for again := 1; again < overloadTries && strings.Join(problems, "") != ""; again++ {
			r.Progress("%s: again, because of: %s", name, strings.Join(problems, " "))
			measured, goals, problems = measure()
		}
		r.Figures(name, measured, began, cpu, goals, problems...)
	})
}

// refusalGoal is how soon the gateway refuses a request without a free place. Requests
// that wait in the queue first are refused later, so the median is held to it there.
const refusalGoal = 5 * time.Millisecond

func judgeOverload(load []testrig.Sample, peak, goodput float64, calls int64) (measured string, goals, problems []string) {
	good := testrig.Count(load, testrig.Sample.Good)
	critical := testrig.Pick(load, inClass("critical"))
	served := testrig.Count(critical, testrig.Sample.Good)
	refused := testrig.Pick(load, testrig.Sample.Refused)
	p50, p99 := testrig.Quantile(refused, 0.5, took), testrig.Quantile(refused, 0.99, took)
	odd := testrig.Pick(load, func(s testrig.Sample) bool { return !s.Good() && !s.Refused() })
	measured = fmt.Sprintf("peak %.0f/s, at five times the load %.0f/s (%.0f %%); %d of %d answers of the upstream were in time; critical %.2f %% of %d; %d refused, p50 %s, p99 %s", peak, goodput, 100*goodput/peak,
		good, calls, 100*float64(served)/float64(max(len(critical), 1)), len(critical), len(refused), testrig.Millis(p50), testrig.Millis(p99))
	goals = []string{testrig.Unless(p50 < refusalGoal, "half of the refusals took more than %s, want less than %s", testrig.Millis(p50), refusalGoal)}
	problems = []string{
		testrig.Unless(goodput >= 0.9*peak, "goodput %.0f/s, want at least 90 %% of %.0f/s", goodput, peak),
		testrig.Unless(float64(good) >= 0.9*float64(calls), "of %d requests that the upstream served %d had a client that still waited, want at least 90 %%", calls, good),
		testrig.Unless(len(refused) > 0, "nothing was refused"),
		testrig.Unless(p50 < queueWait, "half of the refusals came after %s, as if they had waited in the queue for %v", testrig.Millis(p50), queueWait),
		example(testrig.Pick(refused, func(s testrig.Sample) bool { return !s.RetryAfter }), "refusals have no Retry-After"),
	}
	if float64(served) < 0.99*float64(len(critical)) {
		problems = append(problems, example(testrig.Pick(critical, bad), "critical requests were not served, want 99 % served"))
	}
	if len(odd)*200 > len(load) {
		problems = append(problems, example(odd, "requests were neither served nor refused"))
	}
	return measured, goals, problems
}

// directDelay is how much later than the gateway a direct upstream refuses. The gateway has
// to be sooner: what delays both is the machine.
const directDelay = 50 * time.Millisecond

// refusedAtOnce sends requests to a full target without a queue. Each is in a race with a
// request to an upstream that refuses by itself, a little later.
func (r *rig) refusedAtOnce(ctx context.Context) {
	const name = "r18/refused-at-once"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	c := &config{top: []string{"overload: { per_target: 4, queue: 0, adaptive: false }"}}
	full := r.target(c, "full", testrig.Chat, (*testrig.Call).Hold)
	r.up.Handle("direct", func(c *testrig.Call) bool {
		return c.Wait(directDelay) && testrig.Status(503, "Retry-After", "1")(c)
	})
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		holding, release := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { g.client.Measure(holding, "", testrig.Query{Model: "full"}) })
		}
		eventually(ctx, patience, func() bool { return full.Open.Load() == 4 })
		var refused testrig.History[testrig.Sample]
		var sooner atomic.Int64
		direct := r.direct("direct")
		races := testrig.Offer(ctx, 100, 5*time.Second, func(int) {
			ctx, cancel := context.WithTimeout(ctx, clientTimeout)
			defer cancel()
			theirs := make(chan struct{})
			go func() {
				defer close(theirs)
				direct.Measure(ctx, "", testrig.Query{Model: "full"})
			}()
			refused.Add(g.client.Measure(ctx, "", testrig.Query{Model: "full"}))
			select {
			case <-theirs:
			default:
				sooner.Add(1)
			}
			<-theirs
		})
		release()
		wg.Wait()
		all := refused.List()
		p99 := testrig.Quantile(all, 0.99, took)
		odd := testrig.Pick(all, func(s testrig.Sample) bool { return !s.Refused() || !s.RetryAfter })
		r.Figures(name, fmt.Sprintf("%d refusals, %d of them before a direct upstream that takes %v; p50 %s, p99 %s", races, sooner.Load(), directDelay, testrig.Millis(testrig.Quantile(all, 0.5, took)), testrig.Millis(p99)), began, cpu,
			[]string{testrig.When(p99 >= refusalGoal, "p99 of the refusals is %s, want less than %s", testrig.Millis(p99), refusalGoal)},
			testrig.When(sooner.Load()*10 < int64(races)*9, "%d of %d refusals came before those of a direct upstream that takes %v, want 90 %%", sooner.Load(), races, directDelay),
			example(odd, "responses are not refusals with Retry-After"))
	})
}
