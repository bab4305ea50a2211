package main

import (
	"slices"
	"strings"
	"testing"
)

// honest are three histories that agree: a whole stream, one that was left, one that
// the gateway died under, one that was refused, one that failed over.
func honest() books {
	return books{
		asked: []asked{
			{tag: "whole", id: "1", key: "k", status: 200, bytes: 9, tokens: 8, whole: true, stream: true},
			{tag: "left", id: "2", key: "k", status: 200, bytes: 9, tokens: 3, left: true, stream: true},
			{tag: "died", id: "3", key: "k", status: 200, bytes: 9, tokens: 4, broken: errTest, stream: true},
			{tag: "refused", id: "4", key: "k", status: 429},
			{tag: "unheard", key: "k", broken: errTest},
		},
		served: []served{
			{tag: "whole", try: 1, fault: "500"}, {tag: "whole", try: 2, tokens: 8, whole: true, told: true},
			{tag: "left", try: 1, tokens: 5, gone: true},
			{tag: "died", try: 1, tokens: 5, gone: true},
			{tag: "unheard", try: 1, tokens: 1, gone: true},
		},
		rows: []row{
			{id: "1", key: "k", status: 200, outcome: "answered", input: 7, output: 8, cost: 8*outputCost + 7*inputCost, attempts: 2, charged: 1},
			{id: "2", key: "k", status: 200, outcome: "left", input: 7, output: 4, cost: 4*outputCost + 7*inputCost, estimated: true},
			{id: "3", key: "k", status: 200, outcome: "lost", input: 7, output: 4, cost: 4 * outputCost, estimated: true},
			{id: "4", key: "k", status: 429, outcome: "refused", cost: -1},
			{id: "5", key: "k", outcome: "lost", cost: 0},
		},
	}
}

var errTest = &testError{}

type testError struct{}

func (*testError) Error() string { return "broken" }

func TestHonestHistoriesAgree(t *testing.T) {
	if wrong := honest().compare(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

func TestLiesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(*books)
		want string
	}{
		"no row":          {func(b *books) { b.rows = slices.Delete(b.rows, 1, 2) }, "no row"},
		"two rows":        {func(b *books) { b.rows = append(b.rows, b.rows[0]) }, "two rows"},
		"a stranger":      {func(b *books) { b.rows = append(b.rows, row{id: "6"}) }, "no client was told of"},
		"too few tokens":  {func(b *books) { b.rows[1].output, b.rows[1].cost = 2, 2*outputCost }, "has got 3"},
		"too many tokens": {func(b *books) { b.rows[2].output, b.rows[2].cost = 6, 6*outputCost }, "has sent 5"},
		"other usage":     {func(b *books) { b.rows[0].input = 9; b.rows[0].cost += 2 * inputCost }, "the upstream told"},
		"a guess":         {func(b *books) { b.rows[0].estimated = true }, "estimated: true"},
		"cost":            {func(b *books) { b.rows[0].cost++ }, "the row has"},
		"no cost":         {func(b *books) { b.rows[0].cost = -1 }, "the row has -1"},
		"a paid refusal":  {func(b *books) { b.rows[3].cost, b.rows[3].output = outputCost, 1 }, "status 429"},
		"another's key":   {func(b *books) { b.rows[0].key = "other" }, "other"},
		"outcome":         {func(b *books) { b.rows[0].outcome = "failed" }, "whole answer"},
		"cut, not told":   {func(b *books) { b.rows[2].outcome = "answered" }, "no whole answer"},
		"no id":           {func(b *books) { b.asked[0].id = "" }, "without an id"},
	} {
		t.Run(name, func(t *testing.T) {
			b := honest()
			c.lie(&b)
			if wrong := strings.Join(b.compare(), "\n"); !strings.Contains(wrong, c.want) {
				t.Errorf("complaints: %q, want one with %q", wrong, c.want)
			}
		})
	}
}
