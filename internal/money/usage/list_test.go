package usage

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

// TestPriceLists holds which of several prices is chosen.
func TestPriceLists(t *testing.T) {
	flat := func(dollars string) map[string]Tariff {
		return map[string]Tariff{"claude-*": {Input: dollars, Output: dollars}}
	}
	book, err := NewBook(BookOptions{
		Rules: map[string]Tariff{"ours/claude-a": {Input: "50", Output: "50"}},
		Lists: []PriceList{
			{Cloud: "aws", Models: flat("1")},
			{Cloud: "aws", Region: "eu", Models: flat("2")},
			{Cloud: "aws", Tier: "priority", Models: flat("3")},
			{Cloud: "aws", Region: "eu", Tier: "priority", Models: flat("4")},
			{Provider: "ours", Tier: "priority", Models: flat("5")},
			{Cloud: "aws", Region: "eu", Tier: "provisioned", Models: flat("0")},
			{Cloud: "google", Tier: "standard", Models: flat("6")},
			{Cloud: "google", Tier: "flex", Models: flat("7")},
		},
		Ceiling: &Tariff{Input: "99", Output: "99"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "us"}, "1"},
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "eu"}, "2"},
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "eu", Tier: "default"}, "2"},
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "us", Tier: "priority"}, "3"},
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "eu", Tier: "priority"}, "4"},
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "eu", Tier: "flex"}, "2"}, // no list of its own
		{Query{Target: "b/claude-b", Cloud: "aws", Region: "eu", Tier: "reserved"}, "0"},
		{Query{Target: "ours/claude-a", Cloud: "aws", Region: "eu"}, "50"}, // the rule of the target
		{Query{Target: "ours/claude-a", Cloud: "aws", Region: "eu", Tier: "priority"}, "5"},
		{Query{Target: "g/claude-b", Cloud: "google", Region: "global", Tier: "ON_DEMAND"}, "6"},
		{Query{Target: "g/claude-b", Cloud: "google", Tier: "ON_DEMAND_FLEX"}, "7"},
		{Query{Target: "g/claude-b", Cloud: "google", Tier: "priority"}, "99"},
		{Query{Target: "b/nova", Cloud: "aws", Region: "eu"}, "99"},
		{Query{Target: "x/claude-b"}, "99"},
	} {
		if p, ok := book.Lookup(c.q); !ok || p.Input.String() != c.want {
			t.Errorf("%+v: %s, want %s", c.q, p.Input, c.want)
		}
	}
	var all []string
	for _, p := range book.AppendTiers(nil, Query{Target: "b/claude-b", Cloud: "aws", Region: "eu"}) {
		all = append(all, p.Input.String())
	}
	if len(all) != 2 || all[0] != "4" || all[1] != "0" {
		t.Errorf("prices of tiers %v, want 4 and 0", all)
	}
	p, _ := book.Lookup(Query{Target: "b/claude-b", Cloud: "aws", Region: "eu", Tier: "priority"})
	if cost, err := p.Cost(llm.Usage{Input: 1000, Output: 500}); err != nil || cost.Decimal() != "0.006" {
		t.Errorf("1500 tokens at 4 dollars per million cost %s %v", cost.Decimal(), err)
	}
}

// TestPriceListsWrong reports a price that cannot be read.
func TestPriceListsWrong(t *testing.T) {
	if _, err := NewBook(BookOptions{Lists: []PriceList{{Cloud: "aws", Models: map[string]Tariff{"a": {Input: "x", Output: "1"}}}}}); err == nil {
		t.Error("no error")
	}
}
