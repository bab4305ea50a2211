package billing

import (
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// parts holds the parts of a continued response. Each was sent by a target that broke off. The
// client pays for each part at its target's price.
type parts struct {
	attempts  []usage.Attempt
	sent      int64      // tokens of all parts, counted by the gateway
	reported  *llm.Usage // usage of all parts together, reported by the providers
	estimated bool
}

// EndPart closes the part of a response that an attempt sent before it broke off.
func (a *Account) EndPart(t Attempt) {
	if a == nil {
		return
	}
	row := t.row()
	row.Charged = true
	var estimated bool
	facts := a.facts(&t, usage.Failed)
	row.Usage, estimated, row.Cost = usage.Charge(facts)
	row.Rates = facts.Price.RatesOf(row.Usage)
	a.parts.attempts = append(a.parts.attempts, row)
	a.parts.estimated = a.parts.estimated || estimated
	a.parts.sent, a.parts.reported = a.sent, t.Reported
}

// include reports whether the attempt that started at began is one of the parts.
func (p *parts) include(began time.Time) bool {
	return slices.ContainsFunc(p.attempts, func(t usage.Attempt) bool { return t.Began.Equal(began) })
}

// since returns the usage that was reported after the parts. sum is the usage of the
// whole stream.
func (p *parts) since(sum *llm.Usage) *llm.Usage {
	if sum == nil || sum == p.reported {
		return nil // none was reported since
	}
	if p.reported == nil {
		return sum
	}
	u := sum.Sub(*p.reported)
	return &u
}

// addTo adds the parts to the row of the stream's last attempt.
func (p *parts) addTo(row *usage.Row) {
	for _, t := range p.attempts {
		row.Usage = row.Usage.Add(t.Usage)
		row.Cost = addCost(row.Cost, t.Cost)
	}
	row.Estimated = row.Estimated || p.estimated
}

// addCost returns the sum of two costs, or nil if one of them is unknown.
func addCost(a, b *usage.Money) *usage.Money {
	if a == nil || b == nil {
		return nil
	}
	sum, err := a.Add(*b)
	if err != nil {
		return nil
	}
	return &sum
}
