package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// runLimits checks that limits count on all nodes together. Each part sends far more
// than its limit at once. A node that finds Redis too slow, even for one call, enforces its
// share, as r3 checks; on a busy machine that happens without a cause, and the part is run again.
func runLimits(ctx context.Context, s *stage) {
	s.warm(ctx)
	for _, part := range []struct {
		name string
		run  func(context.Context, *stage) finding
	}{
		{"requests", limitRequests}, {"tokens", limitTokens}, {"concurrency", limitConcurrency}, {"teams-and-organisations", limitTenants},
	} {
		for tries := 1; ; tries++ {
			testrig.NoError(testrig.Until(ctx, waitLimit, "a node does not use Redis again", s.redisShared))
			stayInMinute(ctx, 15*time.Second)
			began, shared := time.Now(), s.fromShare(ctx)
			f := part.run(ctx, s)
			if strings.Join(f.wrong, "") == "" || s.fromShare(ctx) == shared || tries == 5 {
				s.Check("limits/"+part.name, f.measured+s.slow(), began, f.wrong...)
				break
			}
			s.Progress("limits/%s: Redis was too slow; again", part.name)
			testrig.Pause(ctx, 3*time.Second)
		}
	}
}

// stayInMinute waits for the next minute of the clock if this one ends before a rush of this time. A
// limit per minute is estimated from the counts of two such minutes, and a rush in both may exceed it.
func stayInMinute(ctx context.Context, rush time.Duration) {
	if left := time.Minute - time.Since(time.Now().Truncate(time.Minute)); left < rush {
		testrig.Pause(ctx, left)
	}
}

// rush sends many requests at once, to the nodes and with the keys in turn.
func (s *stage) rush(ctx context.Context, n int, todo script, keys ...key) []exchange {
	answers := make([]exchange, n)
	testrig.Each(n, n, func(i int) {
		w := request{key: keys[i%len(keys)], model: cheap, node: i % nodes, stream: true, script: todo}
		w.Tag = tag("rush")
		answers[i] = s.send(ctx, w)
	})
	return answers
}

func goodOrRefused(a exchange) bool { return a.good() || a.refused() && a.hint != "" }

func limitRequests(ctx context.Context, s *stage) (f finding) {
	const limit, asks = 60, 300
	k := s.newKey(ctx, "requests", limits{requests: limit})
	answers := s.rush(ctx, asks, script{Say: 1}, k)
	admitted := testrig.Count(answers, exchange.good)
	f.measured = fmt.Sprintf("%d of %d admitted, the limit is %d in a minute", admitted, asks, limit)
	f.wrong = append(bad(answers, goodOrRefused), testrig.Unless(admitted == limit, "%d were admitted, the limit is %d", admitted, limit))
	return f
}

// limitTokens uses tokens of prompts too, which the gateway estimates: the limit is an
// upper bound, and a third of it has to be used.
func limitTokens(ctx context.Context, s *stage) (f finding) {
	const limit, say, asks = 6000, 50, 300
	k := s.newKey(ctx, "tokens", limits{tokens: limit})
	answers := s.rush(ctx, asks, script{Say: say}, k)
	used := testrig.Count(answers, exchange.good) * (say + promptTokens)
	f.measured = fmt.Sprintf("%d of %d admitted with %d tokens, the limit is %d in a minute", testrig.Count(answers, exchange.good), asks, used, limit)
	f.wrong = append(bad(answers, goodOrRefused), testrig.Unless(used <= limit, "%d tokens were used, the limit is %d", used, limit), testrig.Unless(used >= limit/3, "only %d tokens were used of %d", used, limit))
	return f
}

func limitConcurrency(ctx context.Context, s *stage) (f finding) {
	const limit, asks = 12, 200
	k := s.newKey(ctx, "concurrency", limits{concurrency: limit})
	s.up.Peak.Store(0)
	answers := s.rush(ctx, asks, script{Say: 10, Every: 100 * time.Millisecond}, k)
	admitted, peak := testrig.Count(answers, exchange.good), s.up.Peak.Load()
	var last exchange
	_, late := waitFor(ctx, settleTime, "slots are not released", func() bool {
		again := s.rush(ctx, limit, script{Say: 2, Every: 50 * time.Millisecond}, k)
		last = again[0]
		return testrig.Count(again, exchange.good) == limit
	})
	f.measured = fmt.Sprintf("%d of %d admitted, at most %d open at once, the limit is %d", admitted, asks, peak, limit)
	f.wrong = append(bad(answers, goodOrRefused), testrig.Unless(peak <= limit, "%d were open at once, the limit is %d", peak, limit), testrig.Unless(admitted >= limit, "%d were admitted, the limit is %d", admitted, limit),
		late, testrig.Unless(late == "", "%v", last))
	return f
}

// limitTenants uses keys of two teams on the budget of their organisation, and one team
// on its own.
func limitTenants(ctx context.Context, s *stage) (f finding) {
	const org, team, say = 4000, 1500, 25
	acme := tag("acme")
	operator := s.newKey(ctx, "operator", limits{role: "owner"})
	for _, o := range []apiCall{
		{0, "/api/v1/orgs", tenant(acme, org)}, {1, "/api/v1/orgs/" + acme + "/teams", tenant("small", team)}, {2, "/api/v1/orgs/" + acme + "/teams", tenant("large", 10*org)},
	} {
		status, body, err := s.api(ctx, operator, o)
		testrig.NoError(err)
		if status/100 != 2 {
			testrig.NoError(fmt.Errorf("POST %s: status %d: %s", o.path, status, testrig.Clip(string(body), 300)))
		}
	}
	small := s.newKey(ctx, "small", limits{org: acme, team: "small"})
	large := s.newKey(ctx, "large", limits{org: acme, team: "large"})
	answers := s.rush(ctx, 300, script{Say: say}, small, large)
	wrong := bad(answers, func(a exchange) bool { return a.good() || a.refused() })
	// The rest of the team's budget, and then of the organisation's, can be used.
	testrig.Pause(ctx, time.Second) // a node that found Redis too slow uses it again by then
	rushed := s.tokensOf(small) + s.tokensOf(large)
	_, more := s.exactly(ctx, small, min(team-s.tokensOf(small), org-rushed), settleTime)
	wrong = append(wrong, more...)
	_, more = s.exactly(ctx, large, org-s.tokensOf(small)-s.tokensOf(large), settleTime)
	wrong = append(wrong, more...)
	f.measured = fmt.Sprintf("%d tokens used in the rush of %d for the organisation and %d for a team; then only the rest could be used", rushed, org, team)
	f.wrong = wrong
	return f
}

// tenant returns a team or an organisation with a budget in tokens.
func tenant(id string, budget int) string {
	return fmt.Sprintf(`{"id":%q,"name":%q,"limits":{"budget":%q,"window_seconds":86400}}`, id, id, dollars(budget*outputCost))
}
