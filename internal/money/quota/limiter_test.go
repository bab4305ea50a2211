package quota

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// step is one operation on a Limiter. Steps refer to requests by name.
type step struct {
	do     string // reserve, extend, settle, charge
	name   string
	tokens int64
	cost   usage.Money
	reason Reason // of the expected refusal
	never  bool   // the refusal has no RetryAfter
	of     string // the refusing account; default: the key's
}

// table holds steps that have the same results in memory and in Redis.
var table = map[string]struct {
	key, org Limit
	steps    []step
}{
	"requests": {Limit{Requests: 2}, Limit{}, []step{
		{do: "reserve", name: "a"}, {do: "settle", name: "a"}, {do: "reserve", name: "b"}, {do: "reserve", name: "c", reason: Requests},
	}},
	"a refused request takes nothing": {Limit{Requests: 2, Tokens: 100}, Limit{}, []step{
		{do: "reserve", name: "a", tokens: 60}, {do: "reserve", name: "b", tokens: 60, reason: Tokens}, {do: "reserve", name: "c", tokens: 40}, {do: "reserve", name: "d", reason: Requests},
	}},
	"unused tokens are returned": {Limit{Tokens: 100}, Limit{}, []step{
		{do: "reserve", name: "a", tokens: 90}, {do: "reserve", name: "b", tokens: 20, reason: Tokens}, {do: "settle", name: "a", tokens: 10}, {do: "reserve", name: "b", tokens: 90},
		{do: "reserve", name: "c", tokens: 1, reason: Tokens}, {do: "reserve", name: "d", tokens: 101, reason: Tokens, never: true},
	}},
	"concurrency": {Limit{Concurrency: 1}, Limit{}, []step{
		{do: "reserve", name: "a"}, {do: "reserve", name: "b", reason: Concurrency}, {do: "settle", name: "a"}, {do: "settle", name: "a"}, {do: "reserve", name: "b"},
		{do: "reserve", name: "c", reason: Concurrency},
	}},
	"a budget for all time": {Limit{Budget: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 60}, {do: "reserve", name: "b", cost: 60, reason: Budget}, {do: "settle", name: "a", cost: 30}, {do: "reserve", name: "b", cost: 60},
		{do: "settle", name: "b", cost: 60}, {do: "reserve", name: "c", cost: 11, reason: Budget, never: true}, {do: "reserve", name: "d", cost: 10}, {do: "reserve", name: "free"},
	}},
	"a budget in a window": {Limit{Budget: 100, Window: time.Hour}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 60}, {do: "settle", name: "a", cost: 60}, {do: "reserve", name: "b", cost: 41, reason: Budget}, {do: "reserve", name: "c", cost: 101, reason: Budget, never: true},
		{do: "reserve", name: "d", cost: 40},
	}},
	"more than was reserved": {Limit{Budget: 100, Tokens: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 10, tokens: 10}, {do: "settle", name: "a", cost: 90, tokens: 90}, {do: "reserve", name: "b", cost: 1, tokens: 11, reason: Tokens},
		{do: "reserve", name: "c", cost: 11, tokens: 1, reason: Budget, never: true}, {do: "reserve", name: "d", cost: 10, tokens: 10},
	}},
	"all or none": {Limit{Budget: 100}, Limit{Budget: 50}, []step{
		{do: "reserve", name: "a", cost: 60, reason: Budget, never: true, of: "org:o"}, {do: "reserve", name: "b", cost: 50}, {do: "reserve", name: "c", cost: 1, reason: Budget, of: "org:o"},
		{do: "settle", name: "b", cost: 0}, {do: "reserve", name: "d", cost: 50},
	}},
	"the longest wait is reported": {Limit{Concurrency: 1, Requests: 1}, Limit{Budget: 10}, []step{
		{do: "reserve", name: "a", cost: 10}, {do: "reserve", name: "b", reason: Requests}, {do: "settle", name: "a", cost: 10}, {do: "reserve", name: "c", cost: 1, reason: Budget, never: true, of: "org:o"},
	}},
	"an extension is no further request": {Limit{Requests: 2, Concurrency: 2, Budget: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 10}, {do: "extend", name: "a2", cost: 40}, {do: "extend", name: "a3", cost: 60, reason: Budget}, {do: "extend", name: "a4", cost: 50},
		{do: "settle", name: "a", cost: 60}, {do: "settle", name: "a2"}, {do: "settle", name: "a4"},
		{do: "reserve", name: "b", cost: 41, reason: Budget, never: true}, {do: "reserve", name: "c", cost: 40}, {do: "reserve", name: "d", reason: Requests},
	}},
	"a total counts once": {Limit{Budget: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 1}, {do: "total", cost: 60}, {do: "total", cost: 60}, {do: "total", cost: 50}, {do: "reserve", name: "b", cost: 40, reason: Budget},
		{do: "reserve", name: "c", cost: 39},
	}},
}

func TestSteps(t *testing.T) {
	s := storetest.Redis(t)
	r := redisNode(t, s, Options{}, patient)
	for name, c := range table {
		t.Run(name, func(t *testing.T) { steps(t, r, name, c.key, c.org, c.steps) })
	}
}

// TestStepsInMemory needs no Redis.
func TestStepsInMemory(t *testing.T) {
	for name, c := range table {
		t.Run(name, func(t *testing.T) { steps(t, start(t, newMemory(Options{}), nil), name, c.key, c.org, c.steps) })
	}
}

func steps(t *testing.T, n *node, test string, key, org Limit, all []step) {
	// Unique names let all tests share a Redis.
	accounts := []Account{{"key:" + test, key}}
	if !org.IsZero() {
		accounts = append(accounts, Account{"org:" + test, org})
	}
	holds := map[string]Hold{}
	for i, s := range all {
		id := test + s.name
		switch s.do {
		case "reserve", "extend":
			h, refusal := n.Reserve(context.Background(), Request{ID: id, Org: test, Accounts: accounts, Tokens: s.tokens, Cost: s.cost, Extension: s.do == "extend"})
			holds[s.name] = h
			got, of := Reason(""), accounts[0].ID
			if s.of != "" {
				of = accounts[1].ID
			}
			if refusal != nil {
				got = refusal.Reason
			}
			if got != s.reason {
				t.Fatalf("step %d, %s: refused for %q, want %q", i, s.name, got, s.reason)
			}
			if refusal != nil && (refusal.RetryAfter == 0) != s.never {
				t.Errorf("step %d, %s: RetryAfter is %v", i, s.name, refusal.RetryAfter)
			}
			if refusal != nil && refusal.Account != of {
				t.Errorf("step %d, %s: %s refuses, want %s", i, s.name, refusal.Account, of)
			}
		case "settle":
			settle(holds[s.name], s.tokens, s.cost)
			n.settled(t)
		case "total":
			n.SetTotal(usage.Total{Log: "dead", Org: test, Account: accounts[0].ID, Spent: s.cost})
			n.settled(t)
		}
	}
}

func TestZeroHold(*testing.T) { Hold{}.Settle(1, 1, usage.Totals{}) }

// TestRetryAfter checks that a request is refused again shortly before RetryAfter is over, and admitted
// after it.
func TestRetryAfter(t *testing.T) {
	for name, l := range map[string]Limit{
		"requests": {Requests: 6}, "tokens": {Tokens: 60}, "budget": {Budget: 60, Window: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			k := newMemory(Options{Clock: c.now})
			defer k.Close()
			ask := Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", l}}, Tokens: 10, Cost: 10}
			for round := range 200 {
				h, refusal := k.Reserve(context.Background(), ask)
				if refusal == nil {
					settle(h, 10, 10)
					c.add(time.Duration(round%7) * 1300 * time.Millisecond)
					continue
				}
				c.add(refusal.RetryAfter - 2*time.Millisecond)
				if _, again := k.Reserve(context.Background(), ask); again == nil {
					t.Fatalf("round %d: admitted before RetryAfter, %v", round, refusal.RetryAfter)
				}
				c.add(3 * time.Millisecond) // rounding of floating-point sums
				h, again := k.Reserve(context.Background(), ask)
				if again != nil {
					t.Fatalf("round %d: refused again after %v, with RetryAfter %v", round, refusal.RetryAfter, again.RetryAfter)
				}
				settle(h, 10, 10)
			}
		})
	}
}

// TestWindowSlides checks that spending leaves a budget's window bucket by bucket.
func TestWindowSlides(t *testing.T) {
	c := newClock()
	l := &ledger{spent: func(string, time.Time) (usage.Money, error) { return 0, nil }}
	k := newMemory(Options{Clock: c.now, Ledger: l})
	defer k.Close()
	ask := Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 60, Window: time.Hour}}}, Cost: 1}
	for range 60 { // one a minute
		h, refusal := k.Reserve(context.Background(), ask)
		if refusal != nil {
			t.Fatal(refusal)
		}
		settle(h, 0, 1)
		c.add(time.Minute)
	}
	for i := range 10 {
		for n := range 2 {
			h, refusal := k.Reserve(context.Background(), ask)
			if (refusal == nil) != (n == 0) {
				t.Fatalf("minute %d, request %d: %+v", i, n, refusal)
			}
			settle(h, 0, 1)
		}
		c.add(time.Minute)
	}
	c.add(24 * time.Hour)
	l.logs = map[string][]usage.Total{"key:k": {{Log: "memory", Spent: 70}}}
	for range 60 {
		if _, refusal := k.Reserve(context.Background(), ask); refusal != nil {
			t.Fatal(refusal)
		}
	}
}

// TestSeed checks that an account is seeded from the ledger when first used: one query per account, at
// most sixteen at once, and no part leaves the window early.
func TestSeed(t *testing.T) {
	c := newClock()
	began := c.now()
	l := &ledger{spent: func(_ string, since time.Time) (usage.Money, error) {
		runtime.Gosched() // let other requests join the query
		if since.IsZero() {
			return 70, nil
		}
		return usage.Money(began.Sub(since) / time.Minute), nil // one a minute
	}}
	k := newMemory(Options{Clock: c.now, Ledger: l})
	defer k.Close()
	var wg sync.WaitGroup
	for n := range 400 {
		wg.Go(func() {
			a := Request{Org: fmt.Sprint(n % 100), Accounts: []Account{{fmt.Sprint("key:", n%100), Limit{Budget: 100}}}, Cost: 31}
			if _, refusal := k.Reserve(context.Background(), a); refusal == nil {
				t.Error("70 of 100 were spent, and 31 is admitted")
			}
		})
	}
	wg.Wait()
	if l.most > seed.MaxQueries {
		t.Errorf("%d queries at once", l.most)
	}
	if l.asked != 100 {
		t.Errorf("%d queries for 100 accounts", l.asked)
	}
	hour := Request{Org: "o", Accounts: []Account{{"key:w", Limit{Budget: 100, Window: time.Hour}}}, Cost: 41}
	fits := func() bool {
		h, refusal := k.Reserve(context.Background(), hour)
		settle(h, 0, 0)
		return refusal == nil
	}
	if fits() {
		t.Error("60 of 100 were spent, and 41 is admitted")
	}
	c.add(16 * time.Minute) // a quarter has left the window
	if !fits() {
		t.Error("45 of 100 are in the window, and 41 is refused")
	}
	if hour.Cost = 56; fits() {
		t.Error("45 of 100 are in the window, and 56 is admitted")
	}
}

// TestProvisionalBudget checks that a hundredth of the budget is allowed while the ledger fails.
func TestProvisionalBudget(t *testing.T) {
	l := &ledger{}
	fail := errors.New("the store is down")
	l.spent = func(string, time.Time) (usage.Money, error) { return 0, fail }
	k := newMemory(Options{Ledger: l})
	defer k.Close()
	ask := Request{Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 10}
	h, refusal := k.Reserve(context.Background(), ask)
	if refusal != nil {
		t.Fatalf("the first is refused: %+v", refusal)
	}
	if _, refusal := k.Reserve(context.Background(), ask); refusal == nil || refusal.RetryAfter == 0 {
		t.Errorf("more than a hundredth is admitted: %+v", refusal)
	}
	settle(h, 0, 10)
	l.mu.Lock()
	l.spent = func(string, time.Time) (usage.Money, error) { return 500, nil }
	l.mu.Unlock()
	eventually(t, "the account is seeded by a retry", func() bool {
		h, refusal := k.Reserve(context.Background(), ask)
		settle(h, 0, 0)
		return refusal == nil
	})
	ask.Cost = 491
	if _, refusal := k.Reserve(context.Background(), ask); refusal == nil {
		t.Error("510 of 1000 are spent, and 491 is admitted")
	}
}

// TestIdleAccountsAreDeleted checks that memory is bounded by the accounts in use.
func TestIdleAccountsAreDeleted(t *testing.T) {
	c := newClock()
	k := newMemory(Options{Clock: c.now})
	defer k.Close()
	use := func(n int) Hold {
		h, _ := k.Reserve(context.Background(), Request{Org: "o", Accounts: []Account{{fmt.Sprint(n), Limit{Concurrency: 1}}}})
		return h
	}
	for n := range 1000 {
		if h := use(n); n > 0 {
			settle(h, 0, 0)
		}
	}
	c.add(2 * time.Hour)
	use(1)
	if n := k.Snapshot().Accounts; n != 2 { // one with an open request, one just used
		t.Errorf("%d accounts are kept, want 2", n)
	}
}

// TestExtensionAfterLimitsAreLowered extends a request after the operator has set lower limits
// for requests and concurrency than are in use. An extension needs neither.
func TestExtensionAfterLimitsAreLowered(t *testing.T) {
	s := storetest.Redis(t)
	for name, n := range map[string]*node{
		"memory": start(t, newMemory(Options{}), nil), "redis": redisNode(t, s, Options{}, patient),
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(id string, l Limit, part bool) Request {
				return Request{ID: id, Org: "o", Accounts: []Account{{"key:k", l}}, Cost: 1, Extension: part}
			}
			for i := range 3 {
				reserve(t, n, ask(fmt.Sprint(i), Limit{Requests: 10, Concurrency: 10, Budget: 100}, false))
			}
			reserve(t, n, ask("0-1", Limit{Requests: 2, Concurrency: 2, Budget: 100}, true))
		})
	}
}
