package usage

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Rate is a price: billionths of a dollar per million tokens, or per million pieces. Published prices are exact in it.
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

// OtherRates are the rates of the units without a field in llm.Usage. The rate of a part is what it costs more than its
// parent, or less. Zero is thus the default.
type OtherRates [llm.OtherCount]Rate

// Price is the price of a model by token class.
type Price struct {
	Input, CacheRead, CacheWrite, Output, Reasoning Rate
	Request                                         Money // per request
	Other                                           OtherRates
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
	Other                                           OtherRates
}

// Of returns the rate of a unit, by its index in llm.Units.
func (r *Rates) Of(unit int) Rate {
	switch unit {
	case 0:
		return r.Input
	case 1:
		return r.CacheRead
	case 2:
		return r.CacheWrite
	case 3:
		return r.Output
	case 4:
		return r.Reasoning
	}
	rate := r.Other[unit-llm.FieldCount]
	if parent := llm.ParentOf(unit); parent >= 0 {
		rate += r.Of(parent)
	}
	return rate
}

// Set sets the rate of a unit without a field, by its index in llm.OtherUnits.
func (r *Rates) Set(other int, rate Rate) {
	if parent := llm.ParentOf(llm.FieldCount + other); parent >= 0 {
		rate -= r.Of(parent)
	}
	r.Other[other] = rate
}

// RatesOf returns the rates for a usage, without those of other units that it does not have.
func (p *Price) RatesOf(u llm.Usage) Rates {
	if p == nil {
		return Rates{}
	}
	if p.Long != nil && promptLongerThan(u, p.Above) {
		p = p.Long
	}
	r := p.rates()
	for i, n := range u.Other {
		if n == 0 {
			r.Other[i] = 0
		}
	}
	return r
}

// rates returns the rates up to the length of Above.
func (p *Price) rates() Rates {
	return Rates{p.Input, p.CacheRead, p.CacheWrite, p.Output, p.Reasoning, p.Request, p.Other}
}

// Cost returns the cost of a usage. It is exact, and rounded up once, to a billionth of a
// dollar. Negative counts or rates and amounts that overflow are errors.
func (p *Price) Cost(u llm.Usage) (Money, error) {
	if p.Long != nil && promptLongerThan(u, p.Above) {
		p = p.Long
	}
	r := p.rates()
	return r.cost(&u)
}

func (r *Rates) cost(u *llm.Usage) (Money, error) {
	own := u // the amounts of units without those of their parts
	if u.Other != (llm.Amounts{}) {
		var err error
		if own, err = withoutParts(*u); err != nil {
			return 0, err
		}
	}
	classes := [...]struct {
		tokens int64
		rate   Rate
	}{{own.Input, r.Input}, {own.CacheRead, r.CacheRead}, {own.CacheWrite, r.CacheWrite}, {own.Output, r.Output}, {own.Reasoning, r.Reasoning}}
	var sum product
	for _, c := range classes {
		if c.tokens < 0 || c.rate < 0 {
			return 0, negative(c.tokens, c.rate)
		}
		sum.add(uint64(c.tokens), uint64(c.rate))
	}
	if own != u {
		for i, n := range own.Other {
			rate := r.Of(llm.FieldCount + i)
			if n < 0 || rate < 0 {
				return 0, negative(n, rate)
			}
			sum.add(uint64(n), uint64(rate))
		}
	}
	cost, err := sum.perMillion()
	if err != nil || r.Request < 0 {
		return 0, ErrOverflow
	}
	return cost.Add(r.Request)
}

// withoutParts takes the amount of each part from that of its parent, as far as the parent has it.
func withoutParts(u llm.Usage) (*llm.Usage, error) {
	for i := llm.FieldCount; i < llm.UnitCount; i++ {
		n := u.At(i)
		if *n < 0 {
			return nil, fmt.Errorf("usage: %d of %s: an amount may not be negative", *n, llm.Units()[i].Name)
		}
		if parent := llm.ParentOf(i); parent >= 0 {
			*n = max(0, min(*n, *u.At(parent)))
			*u.At(parent) -= *n
		}
	}
	return &u, nil
}

func negative(n int64, rate Rate) error {
	return fmt.Errorf("usage: %d at a rate of %d: neither may be negative", n, rate)
}

// product is a sum of products of amounts and rates, in 128 bits.
type product struct{ hi, lo, over uint64 }

func (p *product) add(n, rate uint64) {
	h, l := bits.Mul64(n, rate)
	var carry uint64
	p.lo, carry = bits.Add64(p.lo, l, 0)
	p.hi, carry = bits.Add64(p.hi, h, carry)
	p.over |= carry
}

// perMillion returns a millionth, rounded up.
func (p *product) perMillion() (Money, error) {
	lo, carry := bits.Add64(p.lo, million-1, 0)
	hi := p.hi + carry
	if p.over > 0 || hi >= million {
		return 0, ErrOverflow
	}
	sum, _ := bits.Div64(hi, lo, million)
	if sum > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return Money(sum), nil
}

// Most returns the maximum cost of so many tokens and of the amounts of units that are not counted in tokens, whichever
// classes the provider assigns: writing to a prompt cache may cost more than uncached input.
func (p *Price) Most(read, written int64, other llm.Amounts) (Money, error) {
	if p.Long != nil && read > p.Above {
		return p.Long.Most(read, written, other)
	}
	r, dear := p.rates(), Rates{Request: p.Request}
	for i := range llm.UnitCount {
		switch llm.TotalOf(i) {
		case llm.InputTotal:
			dear.Input = max(dear.Input, r.Of(i))
		case llm.OutputTotal:
			dear.Output = max(dear.Output, r.Of(i))
		case llm.NoTotal:
			dear.Other[i-llm.FieldCount] = r.Other[i-llm.FieldCount]
		}
	}
	return dear.cost(new(llm.Usage{Input: read, Output: written, Other: other}))
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
