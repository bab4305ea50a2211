package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runRetryBudget plays r11: an upstream that always fails gets hardly more attempts than
// clients send requests.
func runRetryBudget(ctx context.Context, r *rig) {
	for _, s := range []struct {
		name    string
		targets int
		script  testrig.Script
		during  time.Duration
	}{
		{"r11/one-target/500", 1, testrig.Status(500), 60 * time.Second},
		{"r11/one-target/reset", 1, (*testrig.Call).Reset, 20 * time.Second},
		{"r11/two-targets/503", 2, testrig.Status(503), 20 * time.Second},
	} {
		if r.short {
			s.during /= 8
		}
		if !r.Wants(s.name) {
			continue
		}
		began := time.Now()
		c := &config{}
		var names []string
		var targets []*testrig.Target
		for i := range s.targets {
			name := fmt.Sprintf("target%d", i)
			targets = append(targets, r.up.Handle(name, s.script))
			names = append(names, c.provider(name, testrig.Chat, r.up.URL(name, testrig.Chat)))
		}
		c.model("m", names)
		r.with(ctx, c, func(g *gateway) {
			var load testrig.History[testrig.Sample]
			offered := testrig.Offer(ctx, 500, s.during, func(int) { load.Add(g.client.Measure(ctx, "", testrig.Query{Model: "m"})) })
			measured, problems := judgeAttempts(load.List(), targets, offered)
			r.Check(s.name, measured, began, problems...)
		})
	}
	r.keptConnections(ctx)
}

// judgeAttempts compares the attempts on each target with the requests.
func judgeAttempts(load []testrig.Sample, targets []*testrig.Target, offered int) (measured string, problems []string) {
	const most = 1.2
	reported, seen := 0, int64(0)
	for _, s := range load {
		reported += s.Attempts
	}
	measured = fmt.Sprintf("%d requests", offered)
	for _, t := range targets {
		seen += t.Calls.Load()
		share := float64(t.Calls.Load()) / float64(offered)
		measured += fmt.Sprintf(", %.3f attempts each on %s", share, t.Name)
		problems = append(problems, testrig.When(share > most, "%.3f attempts on %s for each request, want at most %.1f", share, t.Name, most))
	}
	odd := testrig.Pick(load, func(s testrig.Sample) bool { return s.Status < 500 })
	return measured + fmt.Sprintf("; %d attempts reported, %d seen", reported, seen), append(problems, example(odd, "responses are not server errors"))
}

// keptConnections checks an upstream that dies with many connections kept open. A
// client library may send a request again when a kept connection is dead; that must
// not go on through all of them.
func (r *rig) keptConnections(ctx context.Context) {
	const name = "r11/kept-connections"
	if !r.Wants(name) {
		return
	}
	began := time.Now()
	var dead atomic.Bool
	healthy := testrig.AnswerAfter("good", 100*time.Millisecond)
	c := &config{}
	t := r.target(c, "m", testrig.Chat, func(call *testrig.Call) bool {
		if dead.Load() {
			return call.Reset()
		}
		return healthy(call)
	})
	r.with(ctx, c, func(g *gateway) {
		testrig.Each(40, 40, func(int) { g.send(ctx, testrig.Chat, "m", false) })
		dead.Store(true)
		before := t.Calls.Load()
		one := g.client.Measure(ctx, "", testrig.Query{Model: "m"})
		sent := t.Calls.Load() - before
		r.Check(name, fmt.Sprintf("one request, %d attempts reported, %d seen", one.Attempts, sent), began, testrig.When(sent > 3, "one request was sent %d times, want at most 3", sent))
	})
}
