package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// runBudget is R1. All requests reserve the same, so that the upstream can count
// the reservations: they are the requests that are open with it.
func runBudget(ctx context.Context, s *stage) error {
	const requests, fit, most = 1000, 100, 32
	if err := s.warm(ctx); err != nil {
		return err
	}
	began := time.Now()
	k, err := s.newKey(ctx, "r1", limits{budget: fit * most})
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, 1))
	wishes := make([]wish, requests)
	for i := range wishes {
		w := wish{key: k, model: cheap, node: i % nodes, most: most, stream: true, other: i%4 == 0}
		w.Tag, w.Say, w.Every = tag("r1"), 1+random.IntN(most), time.Millisecond
		if random.IntN(5) == 0 {
			w.leave = 1 + random.IntN(w.Say)
		}
		wishes[i] = w
	}
	answers := make([]asked, requests)
	each(requests, requests, func(i int) { answers[i] = s.ask(ctx, wishes[i]) })
	wrong := bad(answers, func(a asked) bool { return a.good() || a.refused() })

	rows, err := s.settled(ctx, settleTime)
	if err != nil {
		return err
	}
	wrong = append(wrong, s.compared(ctx, rows)...)
	admitted, left := count(answers, asked.good), count(answers, func(a asked) bool { return a.left })
	used := spent(rows, k) / outputCost
	peak := s.up.peak.Load()
	wrong = append(wrong, unless(peak <= fit, "%d requests were open at the same time, the budget holds %d", peak, fit),
		unless(used <= fit*most, "%d tokens were spent of %d", used, fit*most),
		unless(admitted >= fit, "only %d were admitted, the budget holds %d", admitted, fit))
	s.check("r1/not-one-over", fmt.Sprintf("%d of %d admitted, %d of them left; at most %d open at once; %d of %d tokens spent%s", admitted, requests, left, peak, used, fit*most, s.slow()), began, wrong...)

	began = time.Now()
	took, wrong := s.exactly(ctx, k, fit*most-used, settleTime)
	s.check("r1/what-fits-is-admitted", fmt.Sprintf("%d tokens were left: so many were admitted after %v, one more was refused", fit*most-used, took.Round(time.Millisecond)), began, wrong...)
	return nil
}
