package spool

import "github.com/isogloss-gateway/isogloss/internal/money/usage"

// totals has what each account has spent in one log.
type totals map[usage.Account]spending

type spending struct {
	org   string
	spent usage.Money
}

// add adds the cost of a row to its accounts and returns their totals.
func (t totals) add(r *usage.Row, cost usage.Money) usage.Totals {
	var sums [3]usage.Money
	for i, a := range usage.AccountsOf(r.Key, r.Team, r.Org) {
		if a.Kind == 0 {
			continue
		}
		sum := t[a].spent
		if cost > 0 {
			sum += cost
			t[a] = spending{r.Org, sum}
		}
		sums[i] = sum
	}
	return usage.Totals{Key: sums[0], Team: sums[1], Org: sums[2]}
}

// raise raises the totals to those in the record of a row. Older releases wrote no totals; for their
// records the cost of the row is added.
func (t totals) raise(r *ended) {
	if r.position == 0 {
		t.add(&r.Row, r.Charged())
		return
	}
	sums := [3]usage.Money{r.totals.Key, r.totals.Team, r.totals.Org}
	for i, a := range usage.AccountsOf(r.Key, r.Team, r.Org) {
		if a.Kind != 0 && sums[i] > t[a].spent {
			t[a] = spending{r.Org, sums[i]}
		}
	}
}

// list returns all totals.
func (t totals) list(log string) []usage.Total {
	all := make([]usage.Total, 0, len(t))
	for a, s := range t {
		all = append(all, usage.Total{Log: log, Org: s.org, Account: a.Name(), Spent: s.spent})
	}
	return all
}
