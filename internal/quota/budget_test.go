package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// R1: a thousand requests at once, through three nodes, against a budget for a hundred
// of them. What was really spent and what is still reserved is never more than the
// budget, and nobody is refused for whom there is room.
func TestBudgetIsNeverOverdrawn(t *testing.T) {
	s := storetest.Redis(t)
	for name, o := range map[string]Options{"plain": {HotRate: -1, Timeout: patient}, "slices": {HotRate: 20, Timeout: patient}} {
		t.Run(name, func(t *testing.T) { testBudget(t, redisNodes(t, s, 3, o), name) })
	}
	t.Run("memory", func(t *testing.T) {
		n := start(t, NewMemory(Options{}), nil)
		testBudget(t, []*node{n, n, n}, "memory")
	})
}

func testBudget(t *testing.T, nodes []*node, org string) {
	const price = usage.Money(1000)
	account := Account{ID: "org:" + org, Limit: Limit{Budget: 100 * price}}
	var spent, out atomic.Int64 // what was used, and with the most that those may use who are open
	var admitted, refused atomic.Int64
	ask := func(n int, cost usage.Money) (Hold, *Refusal) {
		return nodes[n%len(nodes)].Reserve(context.Background(), Ask{ID: fmt.Sprintf("%s-%d", org, n), Org: org, Accounts: []Account{account}, Cost: cost})
	}
	var wg sync.WaitGroup
	for n := range 1000 {
		wg.Go(func() {
			h, refusal := ask(n, price)
			for tries := 0; refusal != nil && refusal.RetryAfter > 0 && tries < 30; tries++ {
				time.Sleep(rand.N(100 * time.Millisecond)) // it is told to come again
				h, refusal = ask(n, price)
			}
			if refusal != nil {
				refused.Add(1)
				if refusal.Reason != Budget || refusal.Account != account.ID {
					t.Errorf("refused for %+v", refusal)
				}
				return
			}
			admitted.Add(1)
			if all := out.Add(int64(price)); all > int64(account.Limit.Budget) {
				t.Errorf("%d of %d are out", all, account.Limit.Budget)
			}
			time.Sleep(rand.N(10 * time.Millisecond)) // the answer takes its time
			cost := rand.N(price + 1)
			if n%5 == 0 {
				cost = 0 // the client went away before the first token
			}
			spent.Add(int64(cost))
			out.Add(int64(cost - price))
			h.Settle(0, cost)
			h.Settle(0, price) // once is enough
		})
	}
	wg.Wait()
	for _, n := range nodes {
		n.settled(t)
	}
	for _, n := range nodes {
		s := n.Snapshot()
		t.Logf("%d reserved, %d from a slice, %d from a share, %d outages", s.Reserved, s.Sliced, s.Fallback, s.Outages)
	}
	t.Logf("%d admitted, %d refused, %d of %d spent", admitted.Load(), refused.Load(), spent.Load(), account.Limit.Budget)
	if spent.Load() <= int64(account.Limit.Budget-price) {
		t.Errorf("%d of %d is spent: there was room for one more", spent.Load(), account.Limit.Budget)
	}
	// Whoever fits now is admitted, to the last unit.
	left := int64(account.Limit.Budget) - spent.Load()
	n := 1000
	eventually(t, 5*time.Second, "there is no slice out", func() bool {
		_, reserved, _ := inRedis(t, nodes[0], org, account.ID)
		return reserved == 0
	})
	for ; left > 0; n++ {
		cost := min(left, int64(price))
		h, refusal := ask(n, usage.Money(cost))
		if refusal != nil {
			t.Fatalf("%d are left, and %d were refused: %+v", left, cost, refusal)
		}
		h.Settle(0, usage.Money(cost))
		nodes[n%len(nodes)].settled(t)
		left -= cost
	}
	if _, refusal := ask(n, 1); refusal == nil || refusal.RetryAfter != 0 {
		t.Errorf("one more than the budget: %+v", refusal)
	}
}

// A key that is hot enough for slices runs into its budget: not one over, and nothing
// is left that a request would fit in.
func TestSlicesEndAtTheBudget(t *testing.T) {
	const price = usage.Money(1000)
	nodes := redisNodes(t, storetest.Redis(t), 2, Options{Timeout: patient, HotRate: 50})
	account := Account{ID: "key:k", Limit: Limit{Budget: 6000 * price}}
	var out, ids atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				h, refusal := nodes[i%2].Reserve(context.Background(), Ask{ID: fmt.Sprint(ids.Add(1)), Org: "o", Accounts: []Account{account}, Cost: price})
				switch {
				case refusal != nil && refusal.RetryAfter == 0:
					return
				case refusal != nil: // others may settle at less
					time.Sleep(rand.N(5 * time.Millisecond))
					continue
				}
				if all := out.Add(int64(price)); all > int64(account.Limit.Budget) {
					t.Errorf("%d of %d are out", all, account.Limit.Budget)
				}
				cost := price/2 + rand.N(price/2+1)
				out.Add(int64(cost - price))
				h.Settle(0, cost)
			}
		})
	}
	wg.Wait()
	sliced := nodes[0].Snapshot().Sliced + nodes[1].Snapshot().Sliced
	t.Logf("%d of %d were from slices, %d of %d is spent", sliced, ids.Load(), out.Load(), account.Limit.Budget)
	if sliced < 100 {
		t.Errorf("%d were from slices, so this says nothing of them", sliced)
	}
	if left := int64(account.Limit.Budget) - out.Load(); left < 0 || left >= int64(price) {
		t.Errorf("%d is left", left)
	}
}
