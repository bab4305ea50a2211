package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestBudgetIsNeverOverdrawn sends a thousand concurrent requests through three nodes against a
// budget for a hundred of them. Charges and reservations together never exceed the budget, and no
// request is refused that fits.
func TestBudgetIsNeverOverdrawn(t *testing.T) {
	s := storetest.Redis(t)
	for name, o := range map[string]Options{"plain": {HotRate: -1}, "slices": {HotRate: 20}} {
		t.Run(name, func(t *testing.T) { testBudget(t, redisNodes(t, s, 3, o, patient), name) })
	}
}

// TestBudgetIsNeverOverdrawnInMemory sends the same requests as TestBudgetIsNeverOverdrawn through one limiter in memory.
func TestBudgetIsNeverOverdrawnInMemory(t *testing.T) {
	n := start(t, newMemory(Options{}), nil)
	testBudget(t, []*node{n, n, n}, "memory")
}

func testBudget(t *testing.T, nodes []*node, org string) {
	const price = usage.Money(1000)
	account := Account{ID: "org:" + org, Limit: Limit{Budget: 100 * price}}
	var spent, out atomic.Int64 // charged; charged and reserved
	var admitted, refused atomic.Int64
	full := make(chan struct{}) // closed when the budget is fully reserved
	ask := func(n int, cost usage.Money) (Hold, *Refusal) {
		return nodes[n%len(nodes)].Reserve(context.Background(), Request{ID: fmt.Sprintf("%s-%d", org, n), Org: org, Accounts: []Account{account}, Cost: cost})
	}
	retry := func(n int, cost usage.Money) (h Hold, refusal *Refusal) { // like a client, while a retry can help
		poll(func() bool {
			h, refusal = ask(n, cost)
			return refusal == nil || refusal.RetryAfter == 0
		})
		return h, refusal
	}
	var wg sync.WaitGroup
	for n := range 1000 {
		wg.Go(func() {
			h, refusal := retry(n, price)
			if refusal != nil {
				refused.Add(1)
				if refusal.Reason != Budget || refusal.Account != account.ID {
					t.Errorf("refused for %+v", refusal)
				}
				return
			}
			if admitted.Add(1) == 100 {
				close(full)
			}
			if all := out.Add(int64(price)); all > int64(account.Limit.Budget) {
				t.Errorf("%d of %d are charged or reserved", all, account.Limit.Budget)
			}
			select { // the first hundred are open together: no further request fits
			case <-full:
			case <-time.After(pollTimeout):
				t.Errorf("only %d requests were admitted together, want 100", admitted.Load())
			}
			cost := rand.N(price + 1)
			if n%5 == 0 {
				cost = 0 // the client disconnected before the first token
			}
			spent.Add(int64(cost))
			out.Add(int64(cost - price))
			settle(h, 0, cost)
			settle(h, 0, price) // ignored
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
		t.Errorf("%d of %d is spent: one more request fits", spent.Load(), account.Limit.Budget)
	}
	// Requests that fit are admitted, down to the last unit.
	left := int64(account.Limit.Budget) - spent.Load()
	n := 1000
	eventually(t, "all slices are returned", func() bool {
		_, reserved, _ := inRedis(t, nodes[0], org, account.ID)
		return reserved == 0
	})
	for ; left > 0; n++ {
		cost := min(left, int64(price))
		h, refusal := retry(n, usage.Money(cost))
		if refusal != nil {
			t.Fatalf("%d are left, and %d were refused: %+v", left, cost, refusal)
		}
		settle(h, 0, usage.Money(cost))
		nodes[n%len(nodes)].settled(t)
		left -= cost
	}
	if _, refusal := retry(n, 1); refusal == nil || refusal.RetryAfter != 0 {
		t.Errorf("one more than the budget: %+v", refusal)
	}
}

// TestSlicesEndAtTheBudget exhausts the budget of a hot key. It is not overdrawn, and less is left
// than a request needs.
func TestSlicesEndAtTheBudget(t *testing.T) {
	const price = usage.Money(1000)
	nodes := redisNodes(t, storetest.Redis(t), 2, Options{HotRate: 50}, patient)
	account := Account{ID: "key:k", Limit: Limit{Budget: 6000 * price}}
	var out, ids atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				h, refusal := nodes[i%2].Reserve(context.Background(), Request{ID: fmt.Sprint(ids.Add(1)), Org: "o", Accounts: []Account{account}, Cost: price})
				switch {
				case refusal != nil && refusal.RetryAfter == 0:
					return
				case refusal != nil: // others may still settle for less than they reserved
					runtime.Gosched()
					continue
				}
				if all := out.Add(int64(price)); all > int64(account.Limit.Budget) {
					t.Errorf("%d of %d are out", all, account.Limit.Budget)
				}
				cost := price/2 + rand.N(price/2+1)
				out.Add(int64(cost - price))
				settle(h, 0, cost)
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
