package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

const (
	noisyKey   = "key-of-the-noisy-tenant-0"
	noisyLimit = 2 // concurrent requests
	quietKeys  = 4
	noisyGoal  = 10.0 // percent by which p99 of the other keys grows at most
	// A direct upstream answers this many times later than the gateway's. The gateway has
	// to be sooner: what delays both is the machine.
	directFactor = 3
)

// noisySize is how long the upstream thinks, and how many requests the quiet keys and
// their races send in a second.
type noisySize struct {
	rounds    int
	period    time.Duration
	think     time.Duration
	quietRate float64
}

func quietKey(i int) string { return fmt.Sprintf("key-of-the-quiet-tenant-%d", i%quietKeys) }

// runNoisyKey plays r19: one key offers ten times its limit, and the other keys do not notice.
// Each request of theirs is in a race with one to an upstream that answers later. Quiet and
// noisy periods alternate, so that other load of the machine falls on both.
func runNoisyKey(ctx context.Context, r *rig) {
	const name = "r19/noisy-key"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	c := &config{top: []string{"keys:", fmt.Sprintf("  - { key: %s, concurrency: %d }", noisyKey, noisyLimit)}}
	for i := range quietKeys {
		c.top = append(c.top, "  - "+quietKey(i))
	}
	size := noisySize{rounds: 10, period: 3 * time.Second, think: 20 * time.Millisecond, quietRate: 100}
	if r.short { // less work for the processors
		size = noisySize{rounds: 3, period: 2 * time.Second, think: 100 * time.Millisecond, quietRate: 40}
	}
	r.target(c, "m", testrig.Chat, testrig.AnswerAfter("good", size.think))
	r.up.Handle("same", testrig.AnswerAfter("good", size.think))
	r.up.Handle("later", testrig.AnswerAfter("good", directFactor*size.think))
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		same, later := r.direct("same"), r.direct("later")
		quiet := func(to *testrig.History[testrig.Sample]) {
			testrig.Offer(ctx, size.quietRate, size.period, func(i int) {
				lost := make(chan struct{})
				go func() {
					defer close(lost)
					later.Measure(ctx, "", testrig.Query{Model: "m"})
				}()
				s := g.client.Measure(ctx, "sooner", testrig.Query{Model: "m"}, "Authorization", "Bearer "+quietKey(i))
				select {
				case <-lost:
					s.Class = "later"
				default:
				}
				to.Add(s)
				<-lost
				to.Add(same.Measure(ctx, "direct", testrig.Query{Model: "m"}))
			})
		}
		var warm, alone, beside, noise testrig.History[testrig.Sample]
		quiet(&warm)
		for range size.rounds {
			quiet(&alone)
			var wg sync.WaitGroup
			wg.Go(func() {
				testrig.Offer(ctx, 10*noisyLimit/size.think.Seconds(), size.period, func(int) {
					noise.Add(g.client.Measure(ctx, "", testrig.Query{Model: "m"}, "Authorization", "Bearer "+noisyKey))
				})
			})
			quiet(&beside)
			wg.Wait()
		}
		measured, goals, problems := judgeNoisy(alone.List(), beside.List(), noise.List())
		r.Figures(name, measured, began, cpu, goals, problems...)
	})
}

func judgeNoisy(alone, beside, noise []testrig.Sample) (measured string, goals, problems []string) {
	isDirect := inClass("direct")
	ours := func(all []testrig.Sample) []testrig.Sample {
		return testrig.Pick(all, func(s testrig.Sample) bool { return !isDirect(s) })
	}
	p99 := func(all []testrig.Sample) time.Duration { return testrig.Quantile(all, 0.99, took) }
	before, after := p99(ours(alone)), p99(ours(beside))
	directBefore, directAfter := p99(testrig.Pick(alone, isDirect)), p99(testrig.Pick(beside, isDirect))
	refused := testrig.Pick(noise, testrig.Sample.Refused)
	sooner := testrig.Count(beside, inClass("sooner"))
	soonerAlone := testrig.Count(alone, inClass("sooner"))
	grown := float64(after-before-(directAfter-directBefore)) / float64(before) * 100
	measured = fmt.Sprintf("%d of %d requests of the other keys won their race, %d of %d alone; p99 %s alone, %s beside the noisy key (without the gateway %s and %s), so %+.1f %%; %d of the noisy key's %d requests were refused",
		sooner, len(ours(beside)), soonerAlone, len(ours(alone)), testrig.Millis(before), testrig.Millis(after), testrig.Millis(directBefore), testrig.Millis(directAfter), grown, len(refused), len(noise))
	goals = []string{testrig.When(grown > noisyGoal, "p99 of the other keys grew by %.1f %%, want at most %.0f %%", grown, noisyGoal)}
	return measured, goals, []string{
		testrig.When(sooner*len(ours(alone))*10 < soonerAlone*len(ours(beside))*9, "%d of %d requests of the other keys were answered before those of a direct upstream that takes %d times as long, want 90 %% of the share without the noise, which is %d of %d",
			sooner, len(ours(beside)), directFactor, soonerAlone, len(ours(alone))),
		example(testrig.Pick(append(alone, beside...), bad), "requests of the other keys failed"),
		testrig.Unless(len(refused)*2 > len(noise), "only %d of %d requests of the noisy key were refused", len(refused), len(noise)),
		example(testrig.Pick(refused, func(s testrig.Sample) bool { return s.Status != 429 || !s.RetryAfter }), "refusals are not 429 with Retry-After"),
	}
}
