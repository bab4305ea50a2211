package store

import (
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Limits of a row's values. A row that the database rejects would block all later rows, so
// implausible values are reduced and the row is kept.
const (
	maxTokens   = 1 << 40
	maxMoney    = 1_000_000 * usage.Dollar
	maxAttempts = 64
	maxDuration = 365 * 24 * time.Hour
)

func boundRow(r usage.Row) usage.Row {
	for _, text := range []*string{&r.ID, &r.Node, &r.Key, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target, &r.Person, &r.Trace, &r.Fidelity} {
		*text = bound(*text)
	}
	r.Outcome = usage.Outcome(bound(string(r.Outcome)))
	r.Took = clamp(r.Took, maxDuration)
	r.Status = clamp(r.Status, 999)
	r.Usage, r.Cost = boundUsage(r.Usage), boundMoney(r.Cost)
	r.Labels = usage.BoundLabels(r.Labels)
	r.Told = usage.BoundTold(r.Told)
	r.Agent, r.MoreLosses = usage.BoundAgent(r.Agent), clamp(r.MoreLosses, maxTokens)
	r.Losses = slices.Clone(r.Losses[:min(len(r.Losses), usage.MaxLosses)])
	for i := range r.Losses {
		r.Losses[i] = usage.Loss{Code: bound(r.Losses[i].Code), Path: bound(r.Losses[i].Path)}
	}
	boundTimes(&r.Queue, &r.FirstByte, &r.FirstToken)
	r.Attempts = slices.Clone(r.Attempts[:min(len(r.Attempts), maxAttempts)])
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Target, a.Fault = bound(a.Target), bound(a.Fault)
		boundTimes(&a.Took, &a.Connect, &a.FirstByte, &a.FirstToken)
		a.Status = clamp(a.Status, 999)
		a.Usage, a.Cost = boundUsage(a.Usage), boundMoney(a.Cost)
	}
	return r
}

func boundTimes(times ...*time.Duration) {
	for _, t := range times {
		*t = clamp(*t, maxDuration)
	}
}

func boundUsage(u llm.Usage) llm.Usage {
	for i := range llm.UnitCount {
		*u.At(i) = clamp(*u.At(i), maxTokens)
	}
	return u
}

// boundMoney treats a negative amount as unknown.
func boundMoney(m *usage.Money) *usage.Money {
	if m == nil || *m < 0 {
		return nil
	}
	return new(min(*m, maxMoney))
}

func clamp[T ~int | ~int64](n, most T) T { return max(0, min(n, most)) }

// bound makes a text acceptable to both databases: valid UTF-8 without zero bytes, and at most 256
// bytes.
func bound(text string) string { return boundTo(text, maxText) }

func boundTo(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	if db.Storable(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
