// Package bounds makes rows and texts from outside acceptable to both databases of a store.
package bounds

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
	MaxTokens   = 1 << 40
	MaxMoney    = 1_000_000 * usage.Dollar
	MaxAttempts = 64
	maxDuration = 365 * 24 * time.Hour
)

// MaxText is the maximum length of an id or a name in bytes.
const MaxText = 256

// Row returns a row within these limits.
func Row(r usage.Row) usage.Row {
	for _, text := range []*string{&r.ID, &r.Node, &r.Key, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target, &r.Person, &r.Trace, &r.Fidelity} {
		*text = Text(*text)
	}
	r.Outcome = usage.Outcome(Text(string(r.Outcome)))
	r.Took = Clamp(r.Took, maxDuration)
	r.Status = Clamp(r.Status, 999)
	r.Usage, r.Cost = units(r.Usage), money(r.Cost)
	r.Labels = usage.BoundLabels(r.Labels)
	r.Told = usage.BoundTold(r.Told)
	r.Agent, r.MoreLosses = usage.BoundAgent(r.Agent), Clamp(r.MoreLosses, MaxTokens)
	r.Losses = slices.Clone(r.Losses[:min(len(r.Losses), usage.MaxLosses)])
	for i := range r.Losses {
		r.Losses[i] = usage.Loss{Code: Text(r.Losses[i].Code), Path: Text(r.Losses[i].Path)}
	}
	times(&r.Queue, &r.FirstByte, &r.FirstToken)
	r.Attempts = slices.Clone(r.Attempts[:min(len(r.Attempts), MaxAttempts)])
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.Target, a.Fault = Text(a.Target), Text(a.Fault)
		times(&a.Took, &a.Connect, &a.FirstByte, &a.FirstToken)
		a.Status = Clamp(a.Status, 999)
		a.Usage, a.Cost = units(a.Usage), money(a.Cost)
	}
	return r
}

func times(list ...*time.Duration) {
	for _, t := range list {
		*t = Clamp(*t, maxDuration)
	}
}

func units(u llm.Usage) llm.Usage {
	for i := range llm.UnitCount {
		*u.At(i) = Clamp(*u.At(i), MaxTokens)
	}
	return u
}

// money treats a negative amount as unknown.
func money(m *usage.Money) *usage.Money {
	if m == nil || *m < 0 {
		return nil
	}
	return new(min(*m, MaxMoney))
}

// Clamp returns the nearest number between 0 and most.
func Clamp[T ~int | ~int64](n, most T) T { return max(0, min(n, most)) }

// Text makes a text acceptable to both databases: valid UTF-8 without zero bytes, and at most 256
// bytes.
func Text(text string) string { return TextTo(text, MaxText) }

// TextTo is Text with another maximum length in bytes.
func TextTo(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	if db.Storable(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}
