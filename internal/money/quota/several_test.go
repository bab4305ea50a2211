package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

const day = 24 * time.Hour

// several returns the accounts of an owner with budgets.
func several(t *testing.T, owner string, all ...budget.Budget) []Account {
	t.Helper()
	var l Limit
	if err := l.SetBudgets(all); err != nil {
		t.Fatal(err)
	}
	return l.Accounts(nil, owner)
}

func TestBudgetsOfALimit(t *testing.T) {
	all := []budget.Budget{{Amount: 100, Window: day}, {Amount: 2000, Window: 30 * day}, {Amount: 5000}}
	var l Limit
	if err := l.SetBudgets(all); err != nil || l.Budget != 100 || l.Window != day || !slices.Equal(l.Budgets(), all) {
		t.Errorf("%+v, %v", l, err)
	}
	accounts := l.Accounts(nil, "team:o/t#2")
	if len(accounts) != 3 || accounts[1].ID != "team#2:o/t#2" || accounts[2].ID != "team#3:o/t#2" || accounts[0].Limit.More != "" {
		t.Errorf("%+v", accounts)
	}
	for _, a := range accounts {
		if budget.Owner(a.ID) != "team:o/t#2" {
			t.Errorf("the owner of %s is %s", a.ID, budget.Owner(a.ID))
		}
	}
	before := l
	for name, wrong := range map[string][]budget.Budget{
		"none":        {{Amount: 0}},
		"negative":    {{Amount: 1}, {Amount: -1, Window: day}},
		"window":      {{Amount: 1, Window: -1}},
		"same window": {{Amount: 1, Window: day}, {Amount: 2, Window: day}},
		"five":        {{Amount: 1}, {Amount: 1, Window: 1}, {Amount: 1, Window: 2}, {Amount: 1, Window: 3}, {Amount: 1, Window: 4}},
	} {
		if err := l.SetBudgets(wrong); err == nil || l != before {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	if err := l.SetBudgets(nil); err != nil || !l.IsZero() || l.Accounts(nil, "key:k") != nil {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestNamesOfBudgets(t *testing.T) {
	for window, want := range map[time.Duration]string{
		0: "budget", time.Hour: "hourly budget", day: "daily budget", 7 * day: "weekly budget", 30 * day: "monthly budget",
		365 * day: "yearly budget", 90 * day: "budget per 90 days", 90 * time.Minute: "budget per 1h30m", 6 * time.Hour: "budget per 6h",
	} {
		if got := (budget.Budget{Amount: 1, Window: window}).Name(); got != want {
			t.Errorf("%v: %q, want %q", window, got, want)
		}
	}
}

// TestEitherBudgetRefuses spends the smaller budget of two, moves on until it is free again, and then
// spends the other.
func TestEitherBudgetRefuses(t *testing.T) {
	c := newClock()
	n := start(t, newMemory(Options{Clock: c.now}), nil)
	accounts := several(t, "key:k", budget.Budget{Amount: 100, Window: day}, budget.Budget{Amount: 250, Window: 30 * day})
	spend := func(cost usage.Money) *Refusal {
		h, refusal := n.Reserve(t.Context(), Request{ID: "r", Org: "o", Accounts: accounts, Cost: cost})
		settle(h, 0, cost)
		return refusal
	}
	refused := func(window, least, most time.Duration) {
		t.Helper()
		r := spend(10)
		if r == nil || r.Reason != Budget || r.Account != "key:k" || r.Budget.Window != window || r.RetryAfter < least || r.RetryAfter > most {
			t.Fatalf("%+v, want that of the window %v", r, window)
		}
	}
	for range 2 {
		if r := spend(100); r != nil {
			t.Fatalf("%+v", r)
		}
		refused(day, 23*time.Hour, day)
		for range 5 { // an account that is idle for a day is deleted
			c.add(5 * time.Hour)
			spend(0)
		}
	}
	if r := spend(50); r != nil {
		t.Fatalf("%+v", r)
	}
	refused(30*day, 27*day, 28*day)
	// An extension takes from all budgets, too.
	_, r := n.Reserve(t.Context(), Request{ID: "x", Org: "o", Accounts: accounts, Cost: 10, Extension: true})
	if r == nil || r.Budget.Window != 30*day {
		t.Errorf("an extension: %+v", r)
	}
}

// TestSeveralBudgetsOnManyNodes sends concurrent requests of a key, a team and an organisation with
// twelve budgets through several nodes. Whichever budget is the smallest, exactly it is spent.
func TestSeveralBudgetsOnManyNodes(t *testing.T) {
	const price = usage.Money(100)
	fleets := map[string][]*node{
		"redis":  redisNodes(t, storetest.Redis(t), 3, Options{HotRate: -1}, patient),
		"slices": redisNodes(t, storetest.Redis(t), 3, Options{HotRate: 20}, patient),
		"memory": {start(t, newMemory(Options{}), nil)},
	}
	for smallest := range 3 * budget.Max {
		for name, nodes := range fleets {
			org := fmt.Sprint(name, smallest)
			var accounts []Account
			for _, owner := range []string{"key:" + org, "team:" + org + "/t", "org:" + org} {
				accounts = append(accounts, several(t, owner, budget.Budget{Amount: 100 * price}, budget.Budget{Amount: 101 * price, Window: day},
					budget.Budget{Amount: 102 * price, Window: 30 * day}, budget.Budget{Amount: 103 * price, Window: time.Hour})...)
			}
			accounts[smallest].Limit.Budget = 20 * price
			var admitted, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range 60 {
				wg.Go(func() {
					var h Hold
					var r *Refusal
					poll(func() bool {
						h, r = nodes[i%len(nodes)].Reserve(context.Background(), Request{ID: fmt.Sprint(org, i), Org: org, Accounts: accounts, Cost: price})
						return r == nil || r.RetryAfter == 0 || r.RetryAfter > time.Second
					})
					if r != nil {
						refused.Add(1)
						if r.Reason != Budget || r.Budget != (budget.Budget{Amount: 20 * price, Window: accounts[smallest].Limit.Window}) || r.Account != budget.Owner(accounts[smallest].ID) {
							t.Errorf("%s: %+v", accounts[smallest].ID, r)
						}
						return
					}
					admitted.Add(1)
					settle(h, 0, price)
				})
			}
			wg.Wait()
			for _, n := range nodes {
				n.settled(t)
			}
			if admitted.Load() != 20 || refused.Load() != 40 {
				t.Errorf("%s: %d admitted and %d refused, want 20 and 40", accounts[smallest].ID, admitted.Load(), refused.Load())
			}
			for _, a := range accounts {
				if open, held, spent := inRedis(t, nodes[0], org, a.ID); open != 0 || held != 0 || spent != int64(20*price) {
					t.Errorf("%s has %d open, %d reserved and %d spent, want 0, 0, %d", a.ID, open, held, spent, 20*price)
				}
			}
		}
	}
}

// TestSeedsOfSeveralBudgets restarts with spending in the ledger, with spending in a log that the
// ledger does not have, and with the log of a dead process that another machine has found.
func TestSeedsOfSeveralBudgets(t *testing.T) {
	s := storetest.Redis(t)
	l := &ledger{spent: func(account string, since time.Time) (usage.Money, error) {
		switch {
		case account != "key:k":
			return 0, fmt.Errorf("the ledger does not know %s", account)
		case time.Since(since) < 2*day:
			return 30, nil
		}
		return 300, nil
	}, logs: map[string][]usage.Total{}}
	daily, monthly := budget.Budget{Amount: 100, Window: day}, budget.Budget{Amount: 1000, Window: 30 * day}
	for name, nodes := range map[string][]*node{
		"redis":  redisNodes(t, s, 2, Options{HotRate: -1, Ledger: l}, patient),
		"memory": {start(t, newMemory(Options{Ledger: l}), nil)},
	} {
		t.Run(name, func(t *testing.T) {
			accounts := several(t, "key:k", daily, monthly)
			first, last := nodes[0], nodes[len(nodes)-1]
			own := logOf(first.Limiter)
			own.spent["key:k"] = 5 // not in the ledger
			dead := newLog("dead")
			first.charge(dead, "o", accounts[:1], 7) // before the accounts exist
			first.settled(t)
			known := int64(7)
			if name == "memory" { // the log of a dead process is a log of the machine there, which this test has not
				known = 0
			}
			settle(reserve(t, first, Request{ID: "1", Org: "o", Accounts: accounts, Cost: 10}), 0, 10)
			first.settled(t)
			check := func(day, month int64) {
				t.Helper()
				for i, want := range []int64{day, month} {
					if _, held, spent := inRedis(t, last, "o", accounts[i].ID); spent != want || held != 0 {
						t.Errorf("%s has spent %d and reserved %d, want %d and 0", accounts[i].ID, spent, held, want)
					}
				}
			}
			check(30+5+10+known, 300+5+10+known)
			first.charge(dead, "o", accounts[:1], 3) // after they exist
			first.settled(t)
			check(30+5+10+10, 300+5+10+10)
			if _, r := last.Reserve(t.Context(), Request{ID: "2", Org: "o", Accounts: accounts, Cost: 50}); r == nil || r.Budget != daily {
				t.Errorf("%+v, want that of the daily budget", r)
			}
		})
	}
}
