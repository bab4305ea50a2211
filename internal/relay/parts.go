package relay

import (
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// parts are what was said of an answer by targets that broke off, where another one
// has taken it up. The client has them, so it pays for each at its own price.
type parts struct {
	all       []usage.Attempt
	told      int64      // tokens in all of them, counted here
	reported  *llm.Usage // of all of them together, as the providers told
	estimated bool
}

// brokeOff closes the part of an answer that its target has said.
func (x *exchange) brokeOff(err *llm.Error) {
	if x.account == nil {
		return
	}
	p := &x.account.parts
	a := usage.Attempt{Target: x.target.String(), Began: x.asked, Took: time.Since(x.asked), Status: x.seen.UpstreamStatus, Fault: faultOf(err), Charged: true}
	var estimated bool
	a.Usage, estimated, a.Cost = usage.Charge(x.facts(usage.Failed))
	p.all, p.estimated = append(p.all, a), p.estimated || estimated
	p.told, p.reported = x.account.told, x.summary().Usage
}

// has reports whether the attempt that began then is one of the parts.
func (p *parts) has(began time.Time) bool {
	return slices.ContainsFunc(p.all, func(a usage.Attempt) bool { return a.Began.Equal(began) })
}

// since is what was reported after the parts: what is told of a stream is told of
// all of it.
func (p *parts) since(sum *llm.Usage) *llm.Usage {
	if sum == p.reported {
		return nil // nobody has said anything since
	}
	if p.reported == nil {
		return sum
	}
	u, less := *sum, p.reported
	u.Input -= less.Input
	u.CacheRead -= less.CacheRead
	u.CacheWrite -= less.CacheWrite
	u.Output -= less.Output
	u.Reasoning -= less.Reasoning
	return &u
}

// addTo adds the parts to a row that has what was said after them.
func (p *parts) addTo(row *usage.Row) {
	for _, a := range p.all {
		row.Usage = addUsage(row.Usage, &a.Usage)
		row.Cost = addCost(row.Cost, a.Cost)
	}
	row.Estimated = row.Estimated || p.estimated
}

// addCost is the sum of two costs; what is added to one that is not known is not
// known.
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
