package usage

import (
	"math"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestCharge(t *testing.T) {
	price := &Price{Input: 1e9, CacheRead: 1e8, Output: 1e10, Reasoning: 1e10} // $1 and $10 a million: 1,000 and 10,000 a token
	fee := &Price{Request: Dollar}
	said := func(u llm.Usage) *llm.Usage { return &u }
	money := func(m Money) *Money { return &m }
	for _, c := range []struct {
		name      string
		facts     Facts
		use       llm.Usage
		estimated bool
		cost      *Money
	}{
		{"answered, as the provider says", Facts{Answered, said(llm.Usage{Input: 10, CacheRead: 10, Output: 5, Reasoning: 2}), 99, 99, true, price},
			llm.Usage{Input: 10, CacheRead: 10, Output: 5, Reasoning: 2}, false, money(10_000 + 1000 + 70_000)},
		{"answered, and the provider says zero", Facts{Answered, said(llm.Usage{}), 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"an empty answer, and the provider says zero", Facts{Answered, said(llm.Usage{}), 99, 99, false, price}, llm.Usage{}, false, money(0)},
		{"answered, and the provider says zero for the output", Facts{Answered, said(llm.Usage{Input: 7}), 10, 3, true, price}, llm.Usage{Input: 7, Output: 3}, true, money(37_000)},
		{"answered, and the provider says zero for the prompt", Facts{Answered, said(llm.Usage{Output: 2}), 10, 3, true, price}, llm.Usage{Output: 2}, false, money(20_000)},
		{"answered, nothing is generated", Facts{Answered, said(llm.Usage{Input: 7}), 10, 0, true, price}, llm.Usage{Input: 7}, false, money(7000)},
		{"nothing is generated, and the provider says zero", Facts{Answered, said(llm.Usage{}), 10, 0, true, price}, llm.Usage{Input: 10}, true, money(10_000)},
		{"answered, and the provider says nothing", Facts{Answered, nil, 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"answered, and the provider says nonsense", Facts{Answered, said(llm.Usage{Output: -4}), 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"answered, no price", Facts{Answered, said(llm.Usage{Input: 10}), 0, 0, true, nil}, llm.Usage{Input: 10}, false, nil},
		{"answered, and the provider says more than exists", Facts{Answered, said(llm.Usage{Output: math.MaxInt64}), 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"left in mid-answer", Facts{Left, nil, 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"left before the first token", Facts{Left, nil, 10, 0, true, price}, llm.Usage{Input: 10}, true, money(10_000)},
		{"left before anyone was asked", Facts{Left, nil, 0, 0, true, fee}, llm.Usage{}, false, money(0)},
		{"left before anyone was asked, no price", Facts{Left, nil, 0, 0, true, nil}, llm.Usage{}, false, money(0)},
		{"left, with a fee", Facts{Left, nil, 10, 0, true, fee}, llm.Usage{Input: 10}, true, money(Dollar)},
		{"failed before the first token, with a fee", Facts{Failed, nil, 10, 0, true, fee}, llm.Usage{}, false, money(0)},
		{"left after the provider told the prompt", Facts{Left, said(llm.Usage{Input: 4, CacheRead: 20, Output: 1}), 10, 3, true, price},
			llm.Usage{Input: 4, CacheRead: 20, Output: 3}, true, money(4000 + 2000 + 30_000)},
		{"left, and the provider counts more than passed", Facts{Left, said(llm.Usage{Input: 4, Output: 9}), 10, 3, true, price}, llm.Usage{Input: 4, Output: 9}, true, money(94_000)},
		{"left, reasoning told", Facts{Left, said(llm.Usage{Input: 4, Reasoning: 2}), 10, 3, true, price}, llm.Usage{Input: 4, Output: 1, Reasoning: 2}, true, money(34_000)},
		{"left, output told alone", Facts{Left, said(llm.Usage{Output: 9}), 10, 3, true, price}, llm.Usage{Input: 10, Output: 9}, true, money(100_000)},
		{"left, no price", Facts{Left, nil, 10, 3, true, nil}, llm.Usage{Input: 10, Output: 3}, true, nil},
		{"failed before the first token", Facts{Failed, nil, 10, 0, true, price}, llm.Usage{}, false, money(0)},
		{"failed before the first token, prompt told", Facts{Failed, said(llm.Usage{Input: 10}), 10, 0, true, price}, llm.Usage{}, false, money(0)},
		{"failed before the first token, no price", Facts{Failed, nil, 10, 0, true, nil}, llm.Usage{}, false, money(0)},
		{"failed in mid-answer", Facts{Failed, nil, 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"refused", Facts{Refused, nil, 10, 0, true, price}, llm.Usage{}, false, money(0)},
		{"cached", Facts{Cached, said(llm.Usage{Input: 10, Output: 3}), 10, 3, true, price}, llm.Usage{}, false, money(0)},
		{"lost in mid-answer", Facts{Lost, nil, 10, 3, true, price}, llm.Usage{Input: 10, Output: 3}, true, money(40_000)},
		{"lost before the first token", Facts{Lost, nil, 10, 0, true, price}, llm.Usage{}, true, money(0)},
		{"lost, no price", Facts{Lost, nil, 10, 3, true, nil}, llm.Usage{Input: 10, Output: 3}, true, nil},
	} {
		u, estimated, cost := Charge(c.facts)
		if u != c.use || estimated != c.estimated {
			t.Errorf("%s: %+v, estimated %v; want %+v, %v", c.name, u, estimated, c.use, c.estimated)
		}
		if (cost == nil) != (c.cost == nil) || cost != nil && *cost != *c.cost {
			t.Errorf("%s: cost %v, want %v", c.name, cost, c.cost)
		}
	}
}
