package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runBudget plays r1: concurrent requests never exceed a budget. All requests reserve the
// same amount, so the requests that are open at the upstream are the reservations.
func runBudget(ctx context.Context, s *stage) {
	const total, fit, most = 1000, 100, 32
	s.warm(ctx)
	began := time.Now()
	k := s.newKey(ctx, "r1", limits{budget: fit * most})
	random := rand.New(rand.NewPCG(1, 1))
	requests := make([]request, total)
	for i := range requests {
		w := request{key: k, model: cheap, node: i % nodes, maxTokens: most, stream: true, translated: i%4 == 0}
		w.Tag, w.Say, w.Every = tag("r1"), 1+random.IntN(most), time.Millisecond
		if random.IntN(5) == 0 {
			w.leave = 1 + random.IntN(w.Say)
		}
		requests[i] = w
	}
	answers := make([]exchange, total)
	testrig.Each(total, total, func(i int) { answers[i] = s.send(ctx, requests[i]) })
	wrong := bad(answers, func(a exchange) bool { return a.good() || a.refused() })

	rows := s.settled(ctx, settleTime)
	wrong = append(wrong, s.compared(ctx, rows)...)
	admitted, left := testrig.Count(answers, exchange.good), testrig.Count(answers, func(a exchange) bool { return a.left })
	used := spent(rows, k) / outputCost
	peak := s.up.Peak.Load()
	wrong = append(wrong, testrig.Unless(peak <= fit, "%d requests were open at the same time, the budget holds %d", peak, fit),
		testrig.Unless(used <= fit*most, "%d tokens were spent of %d", used, fit*most),
		testrig.Unless(admitted >= fit, "only %d were admitted, the budget holds %d", admitted, fit))
	s.Check("r1/not-one-over", fmt.Sprintf("%d of %d admitted, %d of them disconnected; at most %d open at once; %d of %d tokens spent%s", admitted, total, left, peak, used, fit*most, s.slow()), began, wrong...)

	began, cpu := time.Now(), testrig.ReadCPUTime()
	took, wrong := s.exactly(ctx, k, fit*most-used, settleTime)
	s.Figures("r1/what-fits-is-admitted", fmt.Sprintf("%d tokens were left: as many were admitted after %v, one more was refused", fit*most-used, took.Round(time.Millisecond)), began, cpu, []string{goal("the return of what was left", took, settleGoal)}, wrong...)
}
