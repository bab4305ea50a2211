package store

import (
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// What a row may say at most. A row that a database refuses would hold up all rows
// behind it for ever, so what cannot be true is cut and the row is kept.
const (
	mostTokens   = 1 << 40
	mostMoney    = 1_000_000 * usage.Dollar
	mostAttempts = 64
	mostTime     = 365 * 24 * time.Hour
)

func bounded(r usage.Row) usage.Row {
	for _, text := range []*string{&r.ID, &r.Node, &r.Key, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target} {
		*text = cut(*text)
	}
	r.Outcome = usage.Outcome(cut(string(r.Outcome)))
	r.Took = within(r.Took, mostTime)
	r.Status = within(r.Status, 999)
	r.Usage, r.Cost = boundedUsage(r.Usage), boundedMoney(r.Cost)
	r.Attempts = slices.Clone(r.Attempts[:min(len(r.Attempts), mostAttempts)])
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Target, a.Fault = cut(a.Target), cut(a.Fault)
		a.Took = within(a.Took, mostTime)
		a.Status = within(a.Status, 999)
		a.Usage, a.Cost = boundedUsage(a.Usage), boundedMoney(a.Cost)
	}
	return r
}

func boundedUsage(u llm.Usage) llm.Usage {
	for _, n := range []*int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning} {
		*n = within(*n, mostTokens)
	}
	return u
}

// boundedMoney turns an amount below zero into one that is not known.
func boundedMoney(m *usage.Money) *usage.Money {
	if m == nil || *m < 0 {
		return nil
	}
	return new(min(*m, mostMoney))
}

func within[T ~int | ~int64](n, most T) T { return max(0, min(n, most)) }

// cut makes a text one that both databases take: valid, without zero bytes, and of at
// most 256 bytes.
func cut(text string) string { return cutTo(text, longest) }

func cutTo(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	if storable(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
