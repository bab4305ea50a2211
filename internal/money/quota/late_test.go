package quota

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestLeaseEndsWithMoney ends the lease of a node that has spent money of its allowance and not reported it. The budget is
// overdrawn only by what the ledger does not know then, and by requests that are still open: at most by what the node had
// reserved.
func TestLeaseEndsWithMoney(t *testing.T) {
	const (
		budget, step = 100_000, 100
		open         = 1_000 // reserved by a request that outlives the lease
	)
	for _, c := range []struct {
		name          string
		late, returns bool
	}{{name: "dead, the ledger knows"}, {name: "dead, the ledger is late", late: true}, {name: "frozen, the ledger knows", returns: true}, {name: "frozen, the ledger is late", late: true, returns: true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var stored atomic.Int64 // of the first node's log
			l := &ledger{logs: map[string][]usage.Total{}}
			l.spent = func(string, time.Time) (usage.Money, error) { return usage.Money(stored.Load()), nil }
			var later atomic.Int64 // added to the clock of the nodes
			s := storetest.Redis(t)
			nodes := redisNodes(t, s, 2, Options{Ledger: l, Clock: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }}, patient)
			first, other := nodes[0], nodes[1]
			account := Account{ID: "org:" + c.name, Limit: Limit{Budget: budget}}
			ids := 0
			spend := func(cost usage.Money) Hold {
				ids++
				return reserve(t, first, Request{ID: fmt.Sprint(c.name, ids), Org: "o", Accounts: []Account{account}, Cost: cost})
			}
			for range 100 {
				settle(spend(step), 0, step)
			}
			if first.Snapshot().Sliced == 0 {
				t.Fatal("the node has no allowance")
			}
			last := spend(open)
			first.stop() // from now on it neither reports nor renews
			_, _, known := inRedis(t, other, "o", account.ID)
			for range 30 {
				settle(spend(step), 0, step)
			}
			_, held, _ := inRedis(t, other, "o", account.ID)
			sum := int64(130 * step)
			if !c.late {
				stored.Store(sum)
				l.mu.Lock()
				l.logs[account.ID] = []usage.Total{{Log: logOf(first.Limiter).name, Spent: usage.Money(sum)}}
				l.mu.Unlock()
			}
			later.Store(int64(time.Minute)) // longer than a lease
			endLeases(t, s, first, "o", account.ID)
			eventually(t, "the other node is alone", func() bool { return other.Snapshot().Nodes == 1 })
			over := int64(0)
			if c.late {
				over = 130*step - known
			}
			spendRest := func() {
				sum += int64(spendAll(t, []*node{other}, account, step))
				other.settled(t)
			}
			eventually(t, "the budget is spent", func() bool { // the ledger may answer late on a busy machine
				spendRest()
				return sum >= budget+over
			})
			spendRest() // no more than that
			if c.returns {
				if _, refusal := first.Reserve(context.Background(), Request{ID: c.name, Org: "o", Accounts: []Account{account}, Cost: step}); refusal == nil {
					t.Error("the node uses an allowance whose lease has ended")
				}
				settle(last, 0, open)
				sum, over = sum+open, over+open
			}
			t.Logf("%d of %d were spent; the node had reserved %d", sum, budget, held)
			if sum != budget+over {
				t.Errorf("%d were spent of %d, want %d more", sum, budget, over)
			}
			if over > held {
				t.Errorf("the budget is overdrawn by %d, and the node had reserved %d", over, held)
			}
			if c.late && over == 0 {
				t.Error("the node has reported everything, so this says nothing")
			}
		})
	}
}

// TestAllowanceIsReturned asks a busy node for all that is left of a budget. The node returns its allowance, so that the
// request is admitted.
func TestAllowanceIsReturned(t *testing.T) {
	const budget, step = 100_000, 100
	n := redisNodes(t, storetest.Redis(t), 1, Options{}, patient)[0]
	account := Account{ID: "org:all", Limit: Limit{Budget: budget}}
	ids := 0
	ask := func(cost usage.Money) (Hold, *Refusal) {
		ids++
		return n.Reserve(context.Background(), Request{ID: fmt.Sprint("all", ids), Org: "o", Accounts: []Account{account}, Cost: cost})
	}
	for range 100 {
		h, refusal := ask(step)
		if refusal != nil {
			t.Fatal(refusal)
		}
		settle(h, 0, step)
	}
	if n.Snapshot().Sliced == 0 {
		t.Fatal("the node has no allowance")
	}
	eventually(t, "the rest of the budget is admitted", func() bool {
		h, refusal := ask(budget - 100*step)
		if refusal == nil {
			settle(h, 0, budget-100*step)
		}
		return refusal == nil
	})
	if _, refusal := ask(1); refusal == nil {
		t.Error("nothing is left, and a request is admitted")
	}
}

// TestAllowanceOfAClosedNode checks that a node reports what was spent from its allowance when it closes.
func TestAllowanceOfAClosedNode(t *testing.T) {
	const step = 100
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{}, patient)
	account := Account{ID: "org:all", Limit: Limit{Budget: 100_000}}
	spent := usage.Money(0)
	for spent == 0 || nodes[0].Snapshot().Sliced == 0 {
		settle(reserve(t, nodes[0], Request{ID: fmt.Sprint("all", spent), Org: "o", Accounts: []Account{account}, Cost: step}), 0, step)
		spent += step
	}
	nodes[0].stop()
	nodes[0].Close()
	checkCount(t, nodes[1], "org:all", Count{Spent: spent})
}
