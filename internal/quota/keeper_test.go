package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// step is one thing that happens to a Keeper. Steps refer to requests by name.
type step struct {
	do     string // reserve, settle, charge
	name   string
	tokens int64
	cost   usage.Money
	reason Reason // that a reservation is refused for
	never  bool   // waiting does not help
	of     string // the account that is in the way; the key's unless it is told
}

// The same steps do the same in memory and in Redis.
var table = map[string]struct {
	key, org Limit
	steps    []step
}{
	"requests": {Limit{Requests: 2}, Limit{}, []step{
		{do: "reserve", name: "a"}, {do: "settle", name: "a"}, {do: "reserve", name: "b"}, {do: "reserve", name: "c", reason: Requests},
	}},
	"a refused request costs nothing": {Limit{Requests: 2, Tokens: 100}, Limit{}, []step{
		{do: "reserve", name: "a", tokens: 60}, {do: "reserve", name: "b", tokens: 60, reason: Tokens}, {do: "reserve", name: "c", tokens: 40}, {do: "reserve", name: "d", reason: Requests},
	}},
	"tokens are given back": {Limit{Tokens: 100}, Limit{}, []step{
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
	"the longest wait is the cause": {Limit{Concurrency: 1, Requests: 1}, Limit{Budget: 10}, []step{
		{do: "reserve", name: "a", cost: 10}, {do: "reserve", name: "b", reason: Requests}, {do: "settle", name: "a", cost: 10}, {do: "reserve", name: "c", cost: 1, reason: Budget, never: true, of: "org:o"},
	}},
	"more for a request is no further request": {Limit{Requests: 2, Concurrency: 2, Budget: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 10}, {do: "more", name: "a2", cost: 40}, {do: "more", name: "a3", cost: 60, reason: Budget}, {do: "more", name: "a4", cost: 50},
		{do: "settle", name: "a", cost: 60}, {do: "settle", name: "a2"}, {do: "settle", name: "a4"},
		{do: "reserve", name: "b", cost: 41, reason: Budget, never: true}, {do: "reserve", name: "c", cost: 40}, {do: "reserve", name: "d", reason: Requests},
	}},
	"a charge counts once": {Limit{Budget: 100}, Limit{}, []step{
		{do: "reserve", name: "a", cost: 1}, {do: "charge", name: "x", cost: 60}, {do: "charge", name: "x", cost: 60}, {do: "reserve", name: "b", cost: 40, reason: Budget},
		{do: "reserve", name: "c", cost: 39},
	}},
}

func TestSteps(t *testing.T) {
	s := storetest.Redis(t)
	r := redisNode(t, s, Options{Timeout: patient})
	for name, c := range table {
		t.Run("memory/"+name, func(t *testing.T) { steps(t, start(t, NewMemory(Options{}), nil), name, c.key, c.org, c.steps) })
		t.Run("redis/"+name, func(t *testing.T) { steps(t, r, name, c.key, c.org, c.steps) })
	}
}

func steps(t *testing.T, n *node, test string, key, org Limit, all []step) {
	// Names are made unique, so that all tests may share a Redis.
	accounts := []Account{{"key:" + test, key}}
	if !org.IsZero() {
		accounts = append(accounts, Account{"org:" + test, org})
	}
	holds := map[string]Hold{}
	for i, s := range all {
		id := test + s.name
		switch s.do {
		case "reserve", "more":
			h, refusal := n.Reserve(context.Background(), Ask{ID: id, Org: test, Accounts: accounts, Tokens: s.tokens, Cost: s.cost, Part: s.do == "more"})
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
				t.Errorf("step %d, %s: it is told to come after %v", i, s.name, refusal.RetryAfter)
			}
			if refusal != nil && refusal.Account != of {
				t.Errorf("step %d, %s: %s is in the way, want %s", i, s.name, refusal.Account, of)
			}
		case "settle":
			holds[s.name].Settle(s.tokens, s.cost)
			n.settled(t)
		case "charge":
			n.Charge(id, test, accounts, s.tokens, s.cost)
			n.settled(t)
		}
	}
}

func TestZeroHold(*testing.T) { Hold{}.Settle(1, 1) }

// The time that a refusal names is right: a moment before, the request is refused
// again, and then it is not.
func TestRetryAfter(t *testing.T) {
	for name, l := range map[string]Limit{
		"requests": {Requests: 6}, "tokens": {Tokens: 60}, "budget": {Budget: 60, Window: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			k := NewMemory(Options{Clock: c.now})
			defer k.Close()
			ask := Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", l}}, Tokens: 10, Cost: 10}
			for round := range 200 {
				h, refusal := k.Reserve(context.Background(), ask)
				if refusal == nil {
					h.Settle(10, 10)
					c.add(time.Duration(round%7) * 1300 * time.Millisecond)
					continue
				}
				c.add(refusal.RetryAfter - 2*time.Millisecond)
				if _, again := k.Reserve(context.Background(), ask); again == nil {
					t.Fatalf("round %d: it had not to wait for %v", round, refusal.RetryAfter)
				}
				c.add(3 * time.Millisecond) // the sums are of floating point
				h, again := k.Reserve(context.Background(), ask)
				if again != nil {
					t.Fatalf("round %d: it waited for %v and is told to wait for %v", round, refusal.RetryAfter, again.RetryAfter)
				}
				h.Settle(10, 10)
			}
		})
	}
}

// Spending leaves the window step by step.
func TestWindowSlides(t *testing.T) {
	c := newClock()
	k := NewMemory(Options{Clock: c.now})
	defer k.Close()
	ask := Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 60, Window: time.Hour}}}, Cost: 1}
	for range 60 { // one a minute
		h, refusal := k.Reserve(context.Background(), ask)
		if refusal != nil {
			t.Fatal(refusal)
		}
		h.Settle(0, 1)
		c.add(time.Minute)
	}
	for i := range 10 {
		for n := range 2 {
			h, refusal := k.Reserve(context.Background(), ask)
			if (refusal == nil) != (n == 0) {
				t.Fatalf("minute %d, request %d: %+v", i, n, refusal)
			}
			h.Settle(0, 1)
		}
		c.add(time.Minute)
	}
	c.add(24 * time.Hour)
	for range 60 {
		if _, refusal := k.Reserve(context.Background(), ask); refusal != nil {
			t.Fatal(refusal)
		}
	}
}

// An account is seeded from the ledger at first sight: one query however many wait
// for it, sixteen at once, and its parts leave the window no earlier than they should.
func TestSeed(t *testing.T) {
	c := newClock()
	began := c.now()
	l := &ledger{spent: func(_ string, since time.Time) (usage.Money, error) {
		time.Sleep(time.Millisecond) // a store takes its time
		if since.IsZero() {
			return 70, nil
		}
		return usage.Money(began.Sub(since) / time.Minute), nil // one a minute
	}}
	k := NewMemory(Options{Clock: c.now, Ledger: l})
	defer k.Close()
	var wg sync.WaitGroup
	for n := range 400 {
		wg.Go(func() {
			a := Ask{Org: fmt.Sprint(n % 100), Accounts: []Account{{fmt.Sprint("key:", n%100), Limit{Budget: 100}}}, Cost: 31}
			if _, refusal := k.Reserve(context.Background(), a); refusal == nil {
				t.Error("70 of 100 were spent, and 31 is admitted")
			}
		})
	}
	wg.Wait()
	if l.most > seedQueries {
		t.Errorf("%d queries at once", l.most)
	}
	if l.asked != 100 {
		t.Errorf("%d queries for 100 accounts", l.asked)
	}
	hour := Ask{Org: "o", Accounts: []Account{{"key:w", Limit{Budget: 100, Window: time.Hour}}}, Cost: 41}
	fits := func() bool {
		h, refusal := k.Reserve(context.Background(), hour)
		h.Settle(0, 0)
		return refusal == nil
	}
	if fits() {
		t.Error("60 of 100 were spent, and 41 is admitted")
	}
	c.add(16 * time.Minute) // a quarter has left
	if !fits() {
		t.Error("45 of 100 are in the window, and 41 is refused")
	}
	if hour.Cost = 56; fits() {
		t.Error("45 of 100 are in the window, and 56 is admitted")
	}
}

// Where the ledger cannot be asked a hundredth of the budget may be used.
func TestBlind(t *testing.T) {
	l := &ledger{}
	fail := errors.New("the store is down")
	l.spent = func(string, time.Time) (usage.Money, error) { return 0, fail }
	k := NewMemory(Options{Ledger: l})
	defer k.Close()
	ask := Ask{Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 10}
	h, refusal := k.Reserve(context.Background(), ask)
	if refusal != nil {
		t.Fatalf("the first is refused: %+v", refusal)
	}
	if _, refusal := k.Reserve(context.Background(), ask); refusal == nil || refusal.RetryAfter == 0 {
		t.Errorf("more than a hundredth is admitted: %+v", refusal)
	}
	h.Settle(0, 10)
	l.mu.Lock()
	l.spent = func(string, time.Time) (usage.Money, error) { return 500, nil }
	l.mu.Unlock()
	eventually(t, 5*time.Second, "the ledger was asked again", func() bool {
		h, refusal := k.Reserve(context.Background(), ask)
		h.Settle(0, 0)
		return refusal == nil
	})
	ask.Cost = 491
	if _, refusal := k.Reserve(context.Background(), ask); refusal == nil {
		t.Error("510 of 1000 are spent, and 491 is admitted")
	}
}

// Memory is bounded by the accounts in use.
func TestIdleAccountsAreForgotten(t *testing.T) {
	c := newClock()
	k := NewMemory(Options{Clock: c.now})
	defer k.Close()
	use := func(n int) Hold {
		h, _ := k.Reserve(context.Background(), Ask{Org: "o", Accounts: []Account{{fmt.Sprint(n), Limit{Concurrency: 1}}}})
		return h
	}
	for n := range 1000 {
		if h := use(n); n > 0 {
			h.Settle(0, 0)
		}
	}
	c.add(2 * time.Hour)
	use(1)
	if n := k.Snapshot().Accounts; n != 2 { // the one that is open, and the one in use
		t.Errorf("%d accounts are kept, want 2", n)
	}
}
