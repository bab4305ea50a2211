package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	noisyKey   = "key-of-the-noisy-tenant-0"
	noisyLimit = 2 // requests at a time
	quietKeys  = 4
	quietRate  = 100 // a second, all together
	think      = 20 * time.Millisecond
)

func quietKey(i int) string { return fmt.Sprintf("key-of-the-quiet-tenant-%d", i%quietKeys) }

// runNoisy is R19: one key offers ten times what it may, and the others do not
// notice. Quiet and noisy seconds take turns, so that what the machine does
// besides falls on both.
func runNoisy(ctx context.Context, b *bench) error {
	const name = "r19/noisy-key"
	if !b.wants(name) {
		return nil
	}
	if !b.can["keys"] {
		b.failed(name, "the binary knows no limit of a key", 0)
		return nil
	}
	began := time.Now()
	s := &setup{top: []string{"keys:", fmt.Sprintf("  - { key: %s, concurrency: %d }", noisyKey, noisyLimit)}}
	for i := range quietKeys {
		s.top = append(s.top, "  - "+quietKey(i))
	}
	b.up.add("noisy", playAfter(think))
	s.model("m", []string{s.provider("noisy", chat, b.up.url("noisy", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	rounds := 10
	if b.short {
		rounds = 4
	}
	var warm, calm, beside, noise load
	b.quiet(ctx, g, &warm)
	for range rounds {
		b.quiet(ctx, g, &calm)
		var wg sync.WaitGroup
		wg.Go(func() {
			rate := 10 * noisyLimit / think.Seconds()
			offer(ctx, rate, 3*time.Second, func(int) {
				noise.add(g.measure(ctx, query{model: "m", headers: []string{"Authorization", "Bearer " + noisyKey}}))
			})
		})
		b.quiet(ctx, g, &beside)
		wg.Wait()
	}
	measured, wrong := judgeNoisy(&calm, &beside, &noise)
	b.check(name, measured, began, wrong...)
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// quiet sends what the others ask for, and as much to the upstream itself: what
// moves there is the machine's, which serves the noise and its sender as well.
func (b *bench) quiet(ctx context.Context, g *gateway, to *load) {
	bare := g.direct(b.up, "noisy")
	offer(ctx, 2*quietRate, 3*time.Second, func(i int) {
		if i%2 == 0 {
			to.add(g.measure(ctx, query{model: "m", class: "gateway", headers: []string{"Authorization", "Bearer " + quietKey(i/2)}}))
		} else {
			to.add(bare.measure(ctx, query{model: "m", class: "direct"}))
		}
	})
}

func p99Of(l *load, class string) time.Duration {
	return quantile(tooks(l.pick(func(s sample) bool { return s.class == class })), 0.99)
}

func judgeNoisy(calm, beside, noise *load) (string, []string) {
	before, after := p99Of(calm, "gateway"), p99Of(beside, "gateway")
	bareBefore, bareAfter := p99Of(calm, "direct"), p99Of(beside, "direct")
	refused := noise.pick(isRefused)
	moved := float64(after-before-(bareAfter-bareBefore)) / float64(before) * 100
	measured := fmt.Sprintf("p99 of the others %s alone, %s beside it (without the gateway %s and %s), so %+.1f %%; %d of its %d requests were refused", ms(before), ms(after),
		ms(bareBefore), ms(bareAfter), moved, len(refused), len(noise.all))
	var wrong []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	say(moved <= 10, "p99 of the others moved by %.1f %%, want at most 10 %%", moved)
	bad := append(calm.pick(func(s sample) bool { return !isGood(s) }), beside.pick(func(s sample) bool { return !isGood(s) })...)
	say(len(bad) == 0, "%d requests of the others failed; one with status %d: %s", len(bad), first(bad).status, first(bad).body)
	say(len(refused)*2 > len(noise.all), "only %d of %d requests of the noisy key were refused", len(refused), len(noise.all))
	wrongStatus := noise.pick(func(s sample) bool { return isRefused(s) && (s.status != 429 || !s.hint) })
	say(len(wrongStatus) == 0, "%d refusals are no 429 with Retry-After; one has status %d", len(wrongStatus), first(wrongStatus).status)
	return measured, wrong
}
