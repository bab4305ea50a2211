package usage

import "github.com/isogloss-gateway/isogloss/llm"

// Facts is what is known of a request at its end.
type Facts struct {
	Outcome Outcome
	// Reported is the usage that the provider reported. Nil: none was reported.
	Reported  *llm.Usage
	Prompt    int64  // estimated tokens of the prompt; 0 if no upstream was called
	Delivered int64  // estimated output tokens that were delivered
	Content   bool   // the response is not empty: a provider that reports zero has not counted it
	Price     *Price // nil: unknown
}

// Charge computes what the client pays, by the policy in DESIGN.md: the usage, whether it is
// estimated, and the cost. The cost is nil if the price is unknown or the sum overflows. Failed
// attempts and hedges that lost are not charged.
func Charge(f Facts) (u llm.Usage, estimated bool, cost *Money) {
	switch {
	case f.Outcome == Refused, f.Outcome == Cached, f.Outcome == Failed && f.Delivered <= 0:
		return llm.Usage{}, false, new(Money)
	case f.Outcome == Left && f.Reported == nil && f.Prompt <= 0 && f.Delivered <= 0:
		return llm.Usage{}, false, new(Money)
	case f.Outcome == Lost && f.Delivered <= 0:
		// The gateway died before it delivered anything.
		return llm.Usage{}, true, new(Money)
	case f.Outcome == Answered && isValid(f.Reported) && !f.uncounted():
		u = *f.Reported
	default:
		u, estimated = estimate(f), true
	}
	return u, estimated, costOf(u, f.Price)
}

// uncounted reports whether the provider reports zero for an output that is not empty, or for
// everything.
func (f *Facts) uncounted() bool {
	return f.Content && f.Reported.TotalOutput() == 0 && (f.Delivered > 0 || f.Reported.TotalInput() == 0)
}

// estimate returns the usage of a response that broke off or whose provider has not counted all of
// it. What was reported until then counts; the rest is estimated.
func estimate(f Facts) llm.Usage {
	var u llm.Usage
	if isValid(f.Reported) {
		u = *f.Reported
	}
	if u.TotalInput() == 0 {
		u.Input = max(f.Prompt, 0)
	}
	// Delivered includes reasoning, which is not counted separately.
	u.Output = max(u.Output, f.Delivered-u.Reasoning)
	return u
}

// maxTokens is more than any response has.
const maxTokens = 1 << 40

// isValid reports whether reported amounts are plausible.
func isValid(u *llm.Usage) bool {
	if u == nil {
		return false
	}
	for i := range llm.UnitCount {
		if n := *u.At(i); n < 0 || n > maxTokens {
			return false
		}
	}
	return true
}

func costOf(u llm.Usage, p *Price) *Money {
	if p == nil {
		return nil
	}
	cost, err := p.Cost(u)
	if err != nil {
		return nil
	}
	return &cost
}
