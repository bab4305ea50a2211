package main

import (
	"context"
	"fmt"
	"time"
)

// runBudget is R11: an upstream that fails always is not asked much more often
// than clients ask.
func runBudget(ctx context.Context, b *bench) error {
	const rate, most = 500, 1.2
	during := 60 * time.Second
	if b.short {
		during = 6 * time.Second
	}
	for _, c := range []struct {
		name    string
		targets int
		play    script
	}{
		{"r11/one-target/500", 1, playStatus(500)},
		{"r11/one-target/reset", 1, (*call).reset},
		{"r11/two-targets/503", 2, playStatus(503)},
	} {
		if !b.wants(c.name) {
			continue
		}
		began := time.Now()
		s := &setup{}
		var names []string
		var targets []*target
		for i := range c.targets {
			tag := fmt.Sprintf("storm%d", i)
			targets = append(targets, b.up.add(tag, c.play))
			names = append(names, s.provider(tag, chat, b.up.url(tag, chat)))
		}
		s.model("m", names)
		g, err := start(ctx, b.bin, s)
		if err != nil {
			return err
		}
		var l load
		offered := offer(ctx, rate, during, func(int) { l.add(g.measure(ctx, query{model: "m"})) })
		measured, wrong := fmt.Sprintf("%d requests", offered), []string(nil)
		told, calls := 0, int64(0)
		for _, s := range l.all {
			told += s.tries
		}
		for _, t := range targets {
			calls += t.calls.Load()
			share := float64(t.calls.Load()) / float64(offered)
			measured += fmt.Sprintf(", %s was asked %.3f times each", t.name, share)
			if share > most {
				wrong = append(wrong, fmt.Sprintf("%s was asked %.3f times for each request, want at most %.1f", t.name, share, most))
			}
		}
		measured += fmt.Sprintf("; %d attempts told, %d seen", told, calls)
		if odd := l.pick(func(s sample) bool { return s.status < 500 }); len(odd) > 0 {
			wrong = append(wrong, fmt.Sprintf("%d answers are no server errors; one has status %d: %s", len(odd), odd[0].status, odd[0].body))
		}
		b.check(c.name, measured, began, wrong...)
		b.up.hangUp()
		if _, err := g.stop(); err != nil {
			return err
		}
		if b.short {
			during = 3 * time.Second
		} else {
			during = 20 * time.Second
		}
	}
	return nil
}
