package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// storm is one way to fail always.
type storm struct {
	name    string
	targets int
	play    script
	during  time.Duration
}

// runBudget is R11: an upstream that fails always is not asked much more often
// than clients ask.
func runBudget(ctx context.Context, b *bench) error {
	for _, s := range []storm{
		{"r11/one-target/500", 1, playStatus(500), 60 * time.Second},
		{"r11/one-target/reset", 1, (*call).reset, 20 * time.Second},
		{"r11/two-targets/503", 2, playStatus(503), 20 * time.Second},
	} {
		if b.short {
			s.during /= 8
		}
		if !b.wants(s.name) {
			continue
		}
		if err := b.storm(ctx, s); err != nil {
			return err
		}
	}
	return b.keptConnections(ctx)
}

// keptConnections is about an upstream that dies with many connections kept open.
// A client library may send a request again where a kept connection is dead; that
// must not go on through all of them.
func (b *bench) keptConnections(ctx context.Context) error {
	const name = "r11/kept-connections"
	if !b.wants(name) {
		return nil
	}
	began := time.Now()
	var dead atomic.Bool
	healthy := playAfter(100 * time.Millisecond)
	t := b.up.add("kept", func(c *call) bool {
		if dead.Load() {
			return c.reset()
		}
		return healthy(c)
	})
	s := &setup{}
	s.model("m", []string{s.provider("kept", chat, b.up.url("kept", chat))})
	g, err := start(ctx, b.bin, s)
	if err != nil {
		return err
	}
	each(40, make([]struct{}, 40), func(struct{}) { g.measure(ctx, query{model: "m"}) })
	dead.Store(true)
	before := t.calls.Load()
	one := g.measure(ctx, query{model: "m"})
	asked := t.calls.Load() - before
	b.check(name, fmt.Sprintf("one request, %d attempts told, %d seen", one.tries, asked), began,
		over(asked > 3, "one request was sent %d times, want at most 3", asked))
	b.up.hangUp()
	_, err = g.stop()
	return err
}

func (b *bench) storm(ctx context.Context, s storm) error {
	const rate = 500
	began := time.Now()
	set := &setup{}
	var names []string
	var targets []*target
	for i := range s.targets {
		tag := fmt.Sprintf("storm%d", i)
		targets = append(targets, b.up.add(tag, s.play))
		names = append(names, set.provider(tag, chat, b.up.url(tag, chat)))
	}
	set.model("m", names)
	g, err := start(ctx, b.bin, set)
	if err != nil {
		return err
	}
	var l load
	offered := offer(ctx, rate, s.during, func(int) { l.add(g.measure(ctx, query{model: "m"})) })
	measured, wrong := judgeStorm(&l, targets, offered)
	b.check(s.name, measured, began, wrong...)
	b.up.hangUp()
	_, err = g.stop()
	return err
}

// judgeStorm compares what each target was asked with what was offered.
func judgeStorm(l *load, targets []*target, offered int) (measured string, wrong []string) {
	const most = 1.2
	told, calls := 0, int64(0)
	for _, s := range l.all {
		told += s.tries
	}
	measured = fmt.Sprintf("%d requests", offered)
	for _, t := range targets {
		calls += t.calls.Load()
		share := float64(t.calls.Load()) / float64(offered)
		measured += fmt.Sprintf(", %s was asked %.3f times each", t.name, share)
		wrong = append(wrong, over(share > most, "%s was asked %.3f times for each request, want at most %.1f", t.name, share, most))
	}
	odd := l.pick(func(s sample) bool { return s.status < 500 })
	wrong = append(wrong, over(len(odd) > 0, "%d answers are no server errors; one has status %d: %s", len(odd), first(odd).status, first(odd).body))
	return measured + fmt.Sprintf("; %d attempts told, %d seen", told, calls), wrong
}
