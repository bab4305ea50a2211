package usage

import "github.com/isogloss-gateway/isogloss/llm"

// Facts is what is known of a request when it has ended.
type Facts struct {
	Outcome Outcome
	// Reported is what the provider said. Nil is that it said nothing; all zeros are
	// its word for zero.
	Reported  *llm.Usage
	Prompt    int64  // tokens of the prompt, counted here; 0 where nobody was asked
	Delivered int64  // tokens of output that were passed on, counted here
	Price     *Price // nil where none is known
}

// Charge is what the client pays, by the policy in DESIGN.md: the usage, whether it was
// counted here, and the cost. The cost is nil where no price is known, or where the sum
// does not fit; it is zero only where nothing is owed.
//
// It is about one request. Failed attempts and hedges that lost are not in the facts,
// because the client does not pay for them.
func Charge(f Facts) (u llm.Usage, estimated bool, cost *Money) {
	switch {
	case f.Outcome == Refused, f.Outcome == Cached, f.Outcome == Failed && f.Delivered <= 0:
		return llm.Usage{}, false, new(Money)
	case f.Outcome == Left && f.Reported == nil && f.Prompt <= 0 && f.Delivered <= 0:
		return llm.Usage{}, false, new(Money)
	case f.Outcome == Lost && f.Delivered <= 0:
		// The gateway died before it said anything. The client has nothing.
		return llm.Usage{}, true, new(Money)
	case f.Outcome == Answered && sound(f.Reported):
		u = *f.Reported
	default:
		u, estimated = counted(f), true
	}
	return u, estimated, costOf(u, f.Price)
}

// counted is the usage of an answer that broke off, or whose provider does not tell.
// What a provider has said until then holds, and what was passed on since is added.
func counted(f Facts) llm.Usage {
	u := llm.Usage{Input: max(f.Prompt, 0)}
	if sound(f.Reported) {
		if f.Reported.Input > 0 || f.Reported.CacheRead > 0 || f.Reported.CacheWrite > 0 {
			u = *f.Reported
		} else {
			u.Output, u.Reasoning = f.Reported.Output, f.Reported.Reasoning
		}
	}
	// Reasoning counts here as passed on, too: it is not told apart while it passes.
	u.Output = max(u.Output, f.Delivered-u.Reasoning)
	return u
}

// sound reports whether a provider's numbers can be numbers of tokens.
func sound(u *llm.Usage) bool {
	return u != nil && min(u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning) >= 0
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
