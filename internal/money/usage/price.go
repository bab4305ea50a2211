package usage

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Rate is a price per token: billionths of a dollar per million tokens. Published prices are exact
// in it.
type Rate int64

const million = 1_000_000

// ParseRate parses dollars per million tokens as decimal text, such as "0.0375".
func ParseRate(dollars string) (Rate, error) {
	n, err := parseDecimal(dollars)
	if err == nil && n < 0 {
		return 0, fmt.Errorf("%q is negative; a price is 0 or more", dollars)
	}
	return Rate(n), err
}

// String formats the rate in dollars per million tokens.
func (r Rate) String() string { return Money(r).Decimal() }

// Price is the price of a model by token class.
type Price struct {
	Input, CacheRead, CacheWrite, Output, Reasoning Rate
	Request                                         Money // per request
	Context                                         int64 // context window of the model in tokens; 0: unknown
	// Above is the prompt length up to which these rates apply; 0: any length. A longer prompt has
	// the rates of Long for all of its tokens.
	Above int64
	Long  *Price
	// Ceiling says that the price is the operator's ceiling for models without a price.
	Ceiling bool
}

// Rates are the prices with which the cost of an attempt was computed.
type Rates struct {
	Input, CacheRead, CacheWrite, Output, Reasoning Rate
	Request                                         Money
}

// RatesOf returns the rates for a usage.
func (p *Price) RatesOf(u llm.Usage) Rates {
	if p == nil {
		return Rates{}
	}
	if p.Long != nil && promptLongerThan(u, p.Above) {
		p = p.Long
	}
	return Rates{p.Input, p.CacheRead, p.CacheWrite, p.Output, p.Reasoning, p.Request}
}

// Cost returns the cost of the tokens. It is exact, and rounded up once, to a billionth of a
// dollar. Negative counts or rates and amounts that overflow are errors.
func (p Price) Cost(u llm.Usage) (Money, error) {
	if p.Long != nil && promptLongerThan(u, p.Above) {
		return p.Long.Cost(u)
	}
	classes := [...]struct {
		tokens int64
		rate   Rate
	}{{u.Input, p.Input}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}, {u.Output, p.Output}, {u.Reasoning, p.Reasoning}}
	var hi, lo uint64
	for _, c := range classes {
		if c.tokens < 0 || c.rate < 0 {
			return 0, fmt.Errorf("usage: %d tokens at a rate of %d: neither may be negative", c.tokens, c.rate)
		}
		// Five products of 63 by 63 bits fit into 128 bits.
		h, l := bits.Mul64(uint64(c.tokens), uint64(c.rate))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	lo, carry := bits.Add64(lo, million-1, 0)
	hi += carry
	if hi >= million {
		return 0, ErrOverflow
	}
	sum, _ := bits.Div64(hi, lo, million)
	if sum > math.MaxInt64 || p.Request < 0 {
		return 0, ErrOverflow
	}
	return Money(sum).Add(p.Request)
}

// Most returns the maximum cost of so many tokens, whichever classes the provider assigns: writing
// to a prompt cache may cost more than uncached input.
func (p Price) Most(read, written int64) (Money, error) {
	if p.Long != nil && read > p.Above {
		return p.Long.Most(read, written)
	}
	dear := Price{Input: max(p.Input, p.CacheRead, p.CacheWrite), Output: max(p.Output, p.Reasoning), Request: p.Request}
	return dear.Cost(llm.Usage{Input: read, Output: written})
}

// promptLongerThan reports whether the prompt is longer than n. It does not overflow for any
// reported counts.
func promptLongerThan(u llm.Usage, n int64) bool {
	if n < 0 || u.Input < 0 || u.CacheRead < 0 || u.CacheWrite < 0 {
		return false
	}
	two := uint64(u.Input) + uint64(u.CacheRead)
	return two > uint64(n) || two+uint64(u.CacheWrite) > uint64(n)
}
