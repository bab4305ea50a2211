package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Query says what is priced.
type Query struct {
	Preset        string // of the provider
	Target        string // provider/model
	Cloud, Region string // that serve it; empty: unknown
	Tier          string // as the response names it; empty: none
}

// tierOf returns the tier that a response names in its protocol's words. A word that is not known
// here stays as it is, and has the price of all tiers.
func tierOf(word string) string {
	switch word = strings.ToLower(word); word {
	case "", "auto", "default", "on_demand", "traffic_type_unspecified":
		return "standard"
	case "on_demand_flex":
		return "flex"
	case "on_demand_priority":
		return "priority"
	case "reserved", "scale", "provisioned_throughput":
		return "provisioned"
	}
	return word
}

func (q Query) provider() string {
	name, _, _ := strings.Cut(q.Target, "/")
	return name
}

func (q Query) model() string {
	_, model, _ := strings.Cut(q.Target, "/")
	return model
}

// list is a PriceList with its prices parsed.
type list struct {
	PriceList
	prices rules
}

// holds reports whether the list is for the place of a query.
func (l *list) holds(q Query) bool {
	return (l.Provider == "" || l.Provider == q.provider()) && (l.Cloud == "" || l.Cloud == q.Cloud) && (l.Region == "" || l.Region == q.Region)
}

// weight orders lists: by provider, then by region, then by cloud.
func (l *list) weight() int {
	w := 0
	for _, name := range []string{l.Provider, l.Region, l.Cloud} {
		if w *= 2; name != "" {
			w++
		}
	}
	return w
}

func (b *Book) addLists(all []PriceList, wrong *[]error) {
	for i, one := range all {
		l := list{PriceList: one}
		for pattern, t := range one.Models {
			if err := l.prices.add(pattern, t); err != nil {
				*wrong = append(*wrong, fmt.Errorf("list %d: %w", i+1, err))
			}
		}
		l.prices.sort()
		b.lists = append(b.lists, l)
	}
	slices.SortStableFunc(b.lists, func(x, y list) int { return cmp.Compare(y.weight(), x.weight()) })
	for _, l := range b.lists {
		if l.Tier != "" && !slices.Contains(b.tiers, l.Tier) {
			b.tiers = append(b.tiers, l.Tier)
		}
	}
}

// fromLists returns the price of the first list of a tier that has the model.
func (b *Book) fromLists(q Query, tier string) (Price, bool) {
	for i := range b.lists {
		if l := &b.lists[i]; l.Tier == tier && l.holds(q) {
			if p, ok := l.prices.find(q.model()); ok {
				return p, true
			}
		}
	}
	return Price{}, false
}

// AppendTiers appends the prices of a query at each tier that has a list.
func (b *Book) AppendTiers(to []Price, q Query) []Price {
	for _, tier := range b.tiers {
		if p, ok := b.fromLists(q, tier); ok {
			to = append(to, p)
		}
	}
	return to
}
