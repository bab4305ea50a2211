package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

const (
	noisyKey   = "key-of-the-noisy-tenant-0"
	noisyLimit = 2 // concurrent requests
	quietKeys  = 4
	quietRate  = 100 // a second, all quiet keys together
	thinkTime  = 20 * time.Millisecond
	noisyTries = 3
)

func quietKey(i int) string { return fmt.Sprintf("key-of-the-quiet-tenant-%d", i%quietKeys) }

// runNoisyKey is R19: one key offers ten times its limit, and the latency of the other
// keys stays. Quiet and noisy periods alternate, so that other load of the machine
// falls on both.
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
	r.target(c, "m", testrig.Chat, testrig.AnswerAfter("good", thinkTime))
	rounds, period := 10, 3*time.Second
	if r.short {
		rounds = 4
	}
	cpu := testrig.ReadCPUTime()
	r.with(ctx, c, func(g *gateway) {
		direct := r.direct("m")
		// Every other request goes to the upstream itself: what changes there is the
		// machine's, which runs the noise and its sender as well.
		quiet := func(to *testrig.History[testrig.Sample]) {
			testrig.Offer(ctx, 2*quietRate, period, func(i int) {
				if i%2 == 0 {
					to.Add(g.client.Measure(ctx, "gateway", testrig.Query{Model: "m"}, "Authorization", "Bearer "+quietKey(i/2)))
				} else {
					to.Add(direct.Measure(ctx, "direct", testrig.Query{Model: "m"}))
				}
			})
		}
		measure := func() (string, []string) {
			var alone, beside, noise testrig.History[testrig.Sample]
			for range rounds {
				quiet(&alone)
				var wg sync.WaitGroup
				wg.Go(func() {
					testrig.Offer(ctx, 10*noisyLimit/thinkTime.Seconds(), period, func(int) {
						noise.Add(g.client.Measure(ctx, "", testrig.Query{Model: "m"}, "Authorization", "Bearer "+noisyKey))
					})
				})
				quiet(&beside)
				wg.Wait()
			}
			return judgeNoisy(alone.List(), beside.List(), noise.List())
		}
		var warm testrig.History[testrig.Sample]
		quiet(&warm)
		measured, problems := measure()
		// The p99 of two busy cores varies, and other processes only make it longer. A gateway
		// that lets the noisy key through fails every time.
		for again := 1; again < noisyTries && slices.ContainsFunc(problems, func(p string) bool { return p != "" }); again++ {
			measured, problems = measure()
		}
		r.Timed(name, measured, began, cpu, problems...)
	})
}

func judgeNoisy(alone, beside, noise []testrig.Sample) (string, []string) {
	p99 := func(all []testrig.Sample, class string) time.Duration {
		return testrig.Quantile(testrig.Pick(all, inClass(class)), 0.99, took)
	}
	before, after := p99(alone, "gateway"), p99(beside, "gateway")
	directBefore, directAfter := p99(alone, "direct"), p99(beside, "direct")
	refused := testrig.Pick(noise, testrig.Sample.Refused)
	grown := float64(after-before-(directAfter-directBefore)) / float64(before) * 100
	measured := fmt.Sprintf("p99 of the other keys %s alone, %s beside the noisy key (without the gateway %s and %s), so %+.1f %%; %d of the noisy key's %d requests were refused",
		testrig.Millis(before), testrig.Millis(after), testrig.Millis(directBefore), testrig.Millis(directAfter), grown, len(refused), len(noise))
	return measured, []string{
		testrig.When(grown > 10, "p99 of the other keys grew by %.1f %%, want at most 10 %%", grown),
		example(testrig.Pick(append(alone, beside...), bad), "requests of the other keys failed"),
		testrig.Unless(len(refused)*2 > len(noise), "only %d of %d requests of the noisy key were refused", len(refused), len(noise)),
		example(testrig.Pick(refused, func(s testrig.Sample) bool { return s.Status != 429 || !s.RetryAfter }), "refusals are not 429 with Retry-After"),
	}
}
