package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// runLimits holds that limits count on all nodes together. In each part far more is
// asked for than there is, all at once. While a node finds Redis too slow it goes by
// its share, as R3 tries: on a machine that is busy with other things that happens to
// Redis where nobody has touched it, and then the part is tried again.
func runLimits(ctx context.Context, s *stage) error {
	if err := s.warm(ctx); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, *stage) (finding, error)
	}{
		{"requests", limitRequests}, {"tokens", limitTokens}, {"concurrency", limitConcurrency}, {"teams-and-organisations", limitTenants},
	} {
		for tries := 1; ; tries++ {
			began, outages := time.Now(), s.outages()
			f, err := part.run(ctx, s)
			if err != nil {
				return err
			}
			if strings.Join(f.wrong, "") == "" || s.outages() == outages || tries == 3 {
				s.check("limits/"+part.name, f.measured+s.slow(), began, f.wrong...)
				break
			}
			s.progress("limits/%s: Redis was too slow; once more", part.name)
			pause(ctx, 3*time.Second)
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

func limitRequests(ctx context.Context, s *stage) (f finding, err error) {
	const limit, asks = 60, 300
	k, err := s.newKey(ctx, "requests", limits{requests: limit})
	if err != nil {
		return f, err
	}
	answers := s.rush(ctx, asks, script{Say: 1}, k)
	admitted := count(answers, asked.good)
	f.measured = fmt.Sprintf("%d of %d admitted, the limit is %d in a minute", admitted, asks, limit)
	f.wrong = append(bad(answers, goodOrRefused), unless(admitted == limit, "%d were admitted, the limit is %d", admitted, limit))
	return f, nil
}

// limitTokens gives away tokens of prompts too, which the gateway counts its own way:
// so the limit is an upper bound here, and a third of it has to be used.
func limitTokens(ctx context.Context, s *stage) (f finding, err error) {
	const limit, say, asks = 6000, 50, 300
	k, err := s.newKey(ctx, "tokens", limits{tokens: limit})
	if err != nil {
		return f, err
	}
	answers := s.rush(ctx, asks, script{Say: say}, k)
	used := count(answers, asked.good) * (say + promptTokens)
	f.measured = fmt.Sprintf("%d of %d admitted with %d tokens, the limit is %d in a minute", count(answers, asked.good), asks, used, limit)
	f.wrong = append(bad(answers, goodOrRefused), unless(used <= limit, "%d tokens were used, the limit is %d", used, limit), unless(used >= limit/3, "only %d tokens were used of %d", used, limit))
	return f, nil
}

func limitConcurrency(ctx context.Context, s *stage) (f finding, err error) {
	const limit, asks = 12, 200
	k, err := s.newKey(ctx, "concurrency", limits{concurrency: limit})
	if err != nil {
		return f, err
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
	f.measured = fmt.Sprintf("%d of %d admitted, at most %d open at once, the limit is %d", admitted, asks, peak, limit)
	f.wrong = append(bad(answers, goodOrRefused), unless(peak <= limit, "%d were open at once, the limit is %d", peak, limit), unless(admitted >= limit, "%d were admitted, the limit is %d", admitted, limit),
		late, unless(late == "", "%v", last))
	return f, nil
}

// limitTenants has keys of two teams draw on the budget of their organisation, and
// one team on its own.
func limitTenants(ctx context.Context, s *stage) (f finding, err error) {
	const org, team, say = 4000, 1500, 25
	acme := tag("acme")
	operator, err := s.newKey(ctx, "operator", limits{role: "owner"})
	if err != nil {
		return f, err
	}
	for _, o := range []order{
		{0, "/api/v1/orgs", tenant(acme, org)}, {1, "/api/v1/orgs/" + acme + "/teams", tenant("small", team)}, {2, "/api/v1/orgs/" + acme + "/teams", tenant("large", 10*org)},
	} {
		status, said, err := s.api(ctx, operator, o)
		if err != nil {
			return f, err
		}
		if status/100 != 2 {
			return f, fmt.Errorf("POST %s: status %d: %s", o.path, status, clip(string(said), 300))
		}
	}
	small, err := s.newKey(ctx, "small", limits{org: acme, team: "small"})
	if err != nil {
		return f, err
	}
	large, err := s.newKey(ctx, "large", limits{org: acme, team: "large"})
	if err != nil {
		return f, err
	}
	answers := s.rush(ctx, 300, script{Say: say}, small, large)
	wrong := bad(answers, func(a asked) bool { return a.good() || a.refused() })
	// What is left of the team's budget, and then of the organisation's, is to be had.
	pause(ctx, time.Second) // a node that found Redis too slow asks it again meanwhile
	rushed := s.tokensOf(small) + s.tokensOf(large)
	_, more := s.exactly(ctx, small, min(team-s.tokensOf(small), org-rushed), settleTime)
	wrong = append(wrong, more...)
	_, more = s.exactly(ctx, large, org-s.tokensOf(small)-s.tokensOf(large), settleTime)
	wrong = append(wrong, more...)
	f.measured = fmt.Sprintf("%d tokens used in the rush of %d for the organisation and %d for a team; then nothing but the rest could be used", rushed, org, team)
	f.wrong = wrong
	return f, nil
}

// tenant is a team or an organisation with a budget in tokens.
func tenant(id string, budget int) string {
	return fmt.Sprintf(`{"id":%q,"name":%q,"limits":{"budget":%q,"window_seconds":86400}}`, id, id, dollars(budget*outputCost))
}
