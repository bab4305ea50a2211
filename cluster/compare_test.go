package main

import (
	"slices"
	"strings"
	"testing"
)

// consistent returns histories that agree: a complete stream after a failover, one
// that the client left, one that ended with the gateway, and a refused request.
func consistent() histories {
	return histories{
		exchanges: []exchange{
			{tag: "complete", id: "1", key: "k", status: 200, bytes: 9, tokens: 8, complete: true},
			{tag: "left", id: "2", key: "k", status: 200, bytes: 9, tokens: 3, left: true},
			{tag: "died", id: "3", key: "k", status: 200, bytes: 9, tokens: 4, broken: errTest},
			{tag: "refused", id: "4", key: "k", status: 429},
			{tag: "unheard", key: "k", broken: errTest},
		},
		attempts: []attempt{
			{tag: "complete", try: 1, fault: "500"}, {tag: "complete", try: 2, tokens: 8, complete: true, usage: true},
			{tag: "left", try: 1, tokens: 5},
			{tag: "died", try: 1, tokens: 5},
			{tag: "unheard", try: 1, tokens: 1},
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

func TestConsistentHistoriesAgree(t *testing.T) {
	if wrong := consistent().compare(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

func TestDisagreementsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*histories)
		want   string
	}{
		"no row":            {func(b *histories) { b.rows = slices.Delete(b.rows, 1, 2) }, "no row"},
		"two rows":          {func(b *histories) { b.rows = append(b.rows, b.rows[0]) }, "two rows"},
		"unknown row":       {func(b *histories) { b.rows = append(b.rows, row{id: "6"}) }, "no client knows"},
		"too few tokens":    {func(b *histories) { b.rows[1].output, b.rows[1].cost = 2, 2*outputCost }, "received 3"},
		"too many tokens":   {func(b *histories) { b.rows[2].output, b.rows[2].cost = 6, 6*outputCost }, "sent 5"},
		"other usage":       {func(b *histories) { b.rows[0].input = 9; b.rows[0].cost += 2 * inputCost }, "the upstream reported"},
		"an estimate":       {func(b *histories) { b.rows[0].estimated = true }, "estimated: true"},
		"cost":              {func(b *histories) { b.rows[0].cost++ }, "the row has"},
		"no cost":           {func(b *histories) { b.rows[0].cost = -1 }, "the row has -1"},
		"a paid refusal":    {func(b *histories) { b.rows[3].cost, b.rows[3].output = outputCost, 1 }, "status 429"},
		"another's key":     {func(b *histories) { b.rows[0].key = "other" }, "other"},
		"outcome":           {func(b *histories) { b.rows[0].outcome = "failed" }, "complete answer"},
		"cut, not reported": {func(b *histories) { b.rows[2].outcome = "answered" }, "no complete answer"},
		"no id":             {func(b *histories) { b.exchanges[0].id = "" }, "without a request id"},
	} {
		t.Run(name, func(t *testing.T) {
			b := consistent()
			c.change(&b)
			if wrong := strings.Join(b.compare(), "\n"); !strings.Contains(wrong, c.want) {
				t.Errorf("problems: %q, want one with %q", wrong, c.want)
			}
		})
	}
}
