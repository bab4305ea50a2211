package main

import (
	"context"
	"fmt"
	"time"
)

// runLimits holds that limits count on all nodes together. In each part far more is
// asked for than there is, all at once.
func runLimits(ctx context.Context, s *stage) error {
	if err := s.warm(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *stage) error{limitRequests, limitTokens, limitConcurrency, limitTenants} {
		if err := part(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// rush sends many requests at once to all nodes in turn, with keys in turn.
func (s *stage) rush(ctx context.Context, n int, what script, keys ...key) []asked {
	answers := make([]asked, n)
	each(n, n, func(i int) {
		w := wish{key: keys[i%len(keys)], model: cheap, node: i % nodes, stream: true, script: what}
		w.Tag = tag("rush")
		answers[i] = s.ask(ctx, w)
	})
	return answers
}

func goodOrRefused(a asked) bool { return a.good() || a.refused() && a.hint != "" }

func limitRequests(ctx context.Context, s *stage) error {
	const limit, asks = 60, 300
	began := time.Now()
	k, err := s.newKey(ctx, "requests", limits{requests: limit})
	if err != nil {
		return err
	}
	answers := s.rush(ctx, asks, script{Say: 1}, k)
	admitted := count(answers, asked.good)
	s.check("limits/requests", fmt.Sprintf("%d of %d admitted, the limit is %d in a minute%s", admitted, asks, limit, s.outages()), began,
		append(bad(answers, goodOrRefused), unless(admitted == limit, "%d were admitted, the limit is %d", admitted, limit))...)
	return nil
}

// limitTokens gives away tokens of prompts too, which the gateway counts its own way:
// so the limit is an upper bound here, and a third of it has to be used.
func limitTokens(ctx context.Context, s *stage) error {
	const limit, say, asks = 6000, 50, 300
	began := time.Now()
	k, err := s.newKey(ctx, "tokens", limits{tokens: limit})
	if err != nil {
		return err
	}
	answers := s.rush(ctx, asks, script{Say: say}, k)
	used := count(answers, asked.good) * (say + promptTokens)
	s.check("limits/tokens", fmt.Sprintf("%d of %d admitted with %d tokens, the limit is %d in a minute%s", count(answers, asked.good), asks, used, limit, s.outages()), began,
		append(bad(answers, goodOrRefused), unless(used <= limit, "%d tokens were used, the limit is %d", used, limit), unless(used >= limit/3, "only %d tokens were used of %d", used, limit))...)
	return nil
}

func limitConcurrency(ctx context.Context, s *stage) error {
	const limit, asks = 12, 200
	began := time.Now()
	k, err := s.newKey(ctx, "concurrency", limits{concurrency: limit})
	if err != nil {
		return err
	}
	s.up.peak.Store(0)
	answers := s.rush(ctx, asks, script{Say: 10, Every: 100 * time.Millisecond}, k)
	admitted, peak := count(answers, asked.good), s.up.peak.Load()
	var last asked
	_, late := waited(ctx, settleTime, "places are not given back", func() bool {
		again := s.rush(ctx, limit, script{Say: 2, Every: 50 * time.Millisecond}, k)
		last = again[0]
		return count(again, asked.good) == limit
	})
	s.check("limits/concurrency", fmt.Sprintf("%d of %d admitted, at most %d open at once, the limit is %d%s", admitted, asks, peak, limit, s.outages()), began,
		append(bad(answers, goodOrRefused), unless(peak <= limit, "%d were open at once, the limit is %d", peak, limit), unless(admitted >= limit, "%d were admitted, the limit is %d", admitted, limit),
			late, unless(late == "", "%v", last))...)
	return nil
}

// limitTenants has keys of two teams draw on the budget of their organisation, and
// one team on its own.
func limitTenants(ctx context.Context, s *stage) error {
	const org, team, say = 4000, 1500, 25
	began := time.Now()
	operator, err := s.newKey(ctx, "operator", limits{role: "owner"})
	if err != nil {
		return err
	}
	for _, o := range []order{
		{0, "/api/v1/orgs", tenant("acme", org)}, {1, "/api/v1/orgs/acme/teams", tenant("small", team)}, {2, "/api/v1/orgs/acme/teams", tenant("large", 10*org)},
	} {
		status, said, err := s.api(ctx, operator, o)
		if err != nil {
			return err
		}
		if status/100 != 2 {
			return fmt.Errorf("POST %s: status %d: %s", o.path, status, clip(string(said), 300))
		}
	}
	small, err := s.newKey(ctx, "small", limits{org: "acme", team: "small"})
	if err != nil {
		return err
	}
	large, err := s.newKey(ctx, "large", limits{org: "acme", team: "large"})
	if err != nil {
		return err
	}
	answers := s.rush(ctx, 300, script{Say: say}, small, large)
	wrong := bad(answers, func(a asked) bool { return a.good() || a.refused() })
	// What is left of the team's budget, and then of the organisation's, is to be had.
	rushed := s.tokensOf(small) + s.tokensOf(large)
	_, more := s.exactly(ctx, small, min(team-s.tokensOf(small), org-rushed), settleTime)
	wrong = append(wrong, more...)
	_, more = s.exactly(ctx, large, org-s.tokensOf(small)-s.tokensOf(large), settleTime)
	wrong = append(wrong, more...)
	s.check("limits/teams-and-organisations", fmt.Sprintf("%d tokens used in the rush; then the team could use all of %d and the organisation all of %d%s", rushed, team, org, s.outages()), began, wrong...)
	return nil
}

// tenant is a team or an organisation with a budget in tokens.
func tenant(id string, budget int) string {
	return fmt.Sprintf(`{"id":%q,"name":%q,"limits":{"budget":%q,"window_seconds":86400}}`, id, id, dollars(budget*outputCost))
}
