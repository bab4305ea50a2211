package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The upstream of R18 serves so many requests at a time, for so long each, and
// lets the others wait: it does 200 a second, and past that it only gets slower.
const (
	workers  = 20
	service  = 100 * time.Millisecond
	capacity = float64(workers) / 0.1
	patience = 2 * time.Second // of the clients; a later answer is worth nothing
)

func playWorkers() script {
	free := make(chan struct{}, workers)
	reply := playAfter(service)
	return func(c *call) bool {
		select {
		case free <- struct{}{}:
		case <-c.gone:
			return false
		}
		defer func() { <-free }()
		return reply(c)
	}
}

// runOverload is R18: five times of what the upstream can do.
func runOverload(ctx context.Context, b *bench) error {
	for _, c := range []struct{ name, top string }{
		{"r18/fixed", fmt.Sprintf("overload: { per_target: %d, queue: %d, wait: 1s, adaptive: false }", workers, 2*workers)},
		{"r18/adaptive", "overload: { queue: 40, wait: 1s, adaptive: true }"},
	} {
		if !b.wants(c.name) {
			continue
		}
		if !b.can["overload"] {
			b.failed(c.name, "the binary knows no overload", 0)
			continue
		}
		if err := b.overload(ctx, c.name, c.top); err != nil {
			return err
		}
	}
	return b.refusedAtOnce(ctx)
}

// classOf mixes one critical request, three sheddable ones and six others.
func classOf(i int) string {
	switch i % 10 {
	case 0:
		return "critical"
	case 3, 6, 9:
		return "sheddable"
	}
	return "normal"
}

func (b *bench) overload(ctx context.Context, name, top string) error {
	began := time.Now()
	s := &setup{top: []string{top}}
	b.up.add("workers", playWorkers())
	s.model("m", []string{s.provider("workers", chat, b.up.url("workers", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	calm, storm := 10*time.Second, 60*time.Second
	if b.short {
		calm, storm = 4*time.Second, 8*time.Second
	}
	var peak, l load
	ask := func(to *load) func(int) {
		return func(i int) {
			class := classOf(i)
			to.add(g.measure(ctx, query{model: "m", stream: true, class: class, headers: []string{"Isogloss-Criticality", class}, patience: patience}))
		}
	}
	keep(ctx, workers, calm, ask(&peak))
	atPeak := float64(len(peak.pick(isGood))) / calm.Seconds()
	offer(ctx, 5*capacity, storm, ask(&l))
	b.check(name, describeOverload(&l, atPeak, storm), began, judgeOverload(&l, atPeak, storm)...)
	b.up.hangUp()
	_, err = g.stop()
	return err
}

func describeOverload(l *load, peak float64, during time.Duration) string {
	good := float64(len(l.pick(isGood))) / during.Seconds()
	refused := l.pick(isRefused)
	critical := l.pick(func(s sample) bool { return s.class == "critical" })
	served := l.pick(func(s sample) bool { return s.class == "critical" && isGood(s) })
	return fmt.Sprintf("peak %.0f/s, at five times %.0f/s (%.0f %%); critical %.2f %% of %d; %d refused, p50 %s, p99 %s", peak, good, 100*good/peak,
		100*float64(len(served))/float64(max(len(critical), 1)), len(critical), len(refused), ms(quantile(tooks(refused), 0.5)), ms(quantile(tooks(refused), 0.99)))
}

func isRefused(s sample) bool {
	return s.status == http.StatusTooManyRequests || s.status == http.StatusServiceUnavailable
}

// atOnce is how soon a request is told that there is no room. Those that waited in
// the queue first are told later, so it is the median that is held where there is one.
const atOnce = 5 * time.Millisecond

// refusedAtOnce is about refusals where nothing waits: a full target and a trickle
// of requests beyond it. Every other request goes to an upstream that refuses by
// itself: what that takes is the machine's.
func (b *bench) refusedAtOnce(ctx context.Context) error {
	const name = "r18/refused-at-once"
	if !b.wants(name) || !b.can["overload"] {
		return nil
	}
	began := time.Now()
	s := &setup{top: []string{"overload: { per_target: 4, queue: 0, adaptive: false }"}}
	b.up.add("full", (*call).hold)
	b.up.add("direct", playStatus(503, "Retry-After: 1"))
	s.model("m", []string{s.provider("full", chat, b.up.url("full", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	holding, release := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { g.measure(holding, query{model: "m"}) })
	}
	eventually(5*time.Second, func() bool { return b.up.openNow() == 4 })
	var l, direct load
	bare := g.direct(b.up, "direct")
	offer(ctx, 200, 5*time.Second, func(i int) {
		if i%2 == 0 {
			l.add(g.measure(ctx, query{model: "m", patience: 3 * time.Second}))
		} else {
			direct.add(bare.measure(ctx, query{model: "m"}))
		}
	})
	release()
	wg.Wait()
	p99, machine := quantile(tooks(l.all), 0.99), quantile(tooks(direct.all), 0.99)
	odd := l.pick(func(s sample) bool { return !isRefused(s) || !s.hint })
	b.check(name, fmt.Sprintf("%d refusals, p50 %s, p99 %s; of a bare upstream p99 %s", len(l.all), ms(quantile(tooks(l.all), 0.5)), ms(p99), ms(machine)), began,
		over(p99-machine >= atOnce, "p99 of the refusals is %s, and %s of it the machine's, want less than %s", ms(p99), ms(machine), atOnce),
		over(len(odd) > 0, "%d answers are no refusals with Retry-After; one has status %d: %s", len(odd), first(odd).status, first(odd).body))
	b.up.hangUp()
	_, err = g.stop()
	return err
}

func judgeOverload(l *load, peak float64, during time.Duration) []string {
	var wrong []string
	say := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	good := float64(len(l.pick(isGood))) / during.Seconds()
	say(good >= 0.9*peak, "goodput %.0f/s, want at least 90 %% of %.0f/s", good, peak)
	critical := l.pick(func(s sample) bool { return s.class == "critical" })
	served := l.pick(func(s sample) bool { return s.class == "critical" && isGood(s) })
	unserved := l.pick(func(s sample) bool { return s.class == "critical" && !isGood(s) })
	say(float64(len(served)) >= 0.99*float64(len(critical)), "%d of %d critical requests were served, want 99 %%; one got status %d after %s: %s", len(served), len(critical),
		first(unserved).status, ms(first(unserved).took), first(unserved).body)
	refused := l.pick(isRefused)
	say(len(refused) > 0, "nothing was refused")
	p50 := quantile(tooks(refused), 0.5)
	say(p50 < atOnce, "half of the refusals took more than %s, want less than %s", ms(p50), atOnce)
	silent := l.pick(func(s sample) bool { return isRefused(s) && !s.hint })
	say(len(silent) == 0, "%d refusals have no Retry-After", len(silent))
	odd := l.pick(func(s sample) bool { return !isGood(s) && !isRefused(s) })
	say(len(odd)*200 <= len(l.all), "%d requests were neither served nor refused; one has status %d after %s: %s", len(odd), first(odd).status, ms(first(odd).took), first(odd).body)
	return wrong
}

func first(s []sample) sample {
	if len(s) == 0 {
		return sample{}
	}
	return s[0]
}
