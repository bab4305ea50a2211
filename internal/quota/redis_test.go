package quota

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// R20: clocks that are minutes apart do not matter, because Redis has the time.
func TestClocksDoNotMatter(t *testing.T) {
	s := storetest.Redis(t)
	var nodes []*node
	for _, off := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		nodes = append(nodes, redisNode(t, s, Options{Node: off.String(), Timeout: patient, Clock: func() time.Time { return time.Now().Add(off) }}))
	}
	account := Account{"key:k", Limit{Requests: 30, Tokens: 300, Budget: 300, Window: time.Hour}}
	admitted := 0
	for n := range 90 {
		h, refusal := nodes[n%3].Reserve(context.Background(), Ask{ID: fmt.Sprint(n), Org: "o", Accounts: []Account{account}, Tokens: 10, Cost: 10})
		if refusal == nil {
			admitted++
			h.Settle(10, 10)
		} else if refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Hour+2*time.Minute {
			t.Errorf("it is told to come after %v", refusal.RetryAfter)
		}
	}
	if admitted != 30 { // the budget holds it, also where a minute ends in the midst of it
		t.Errorf("%d were admitted, want 30", admitted)
	}
}

// A budget's window in Redis forgets what has left it.
func TestWindowInRedis(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Timeout: patient})
	ask := Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 100, Window: 3 * time.Second}}}, Cost: 100}
	reserve(t, n, ask).Settle(0, 100)
	n.settled(t)
	ask.ID = "b"
	_, refusal := n.Reserve(context.Background(), ask)
	if refusal == nil || refusal.RetryAfter <= 0 || refusal.RetryAfter > 3100*time.Millisecond {
		t.Fatalf("it is refused as %+v", refusal)
	}
	began := time.Now()
	eventually(t, 5*time.Second, "it has left the window", func() bool {
		_, refusal := n.Reserve(context.Background(), ask)
		return refusal == nil
	})
	if off := time.Since(began) - refusal.RetryAfter; off < -60*time.Millisecond || off > time.Second {
		t.Errorf("it was told to come after %v and could %v later", refusal.RetryAfter, off)
	}
}

// A hot key is admitted from slices. Nothing is overdrawn, what is left is given back,
// and few calls are made.
func TestSlices(t *testing.T) {
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{Timeout: patient})
	account := Account{"key:k", Limit{Requests: 1e6, Tokens: 1e8, Concurrency: 1e5, Budget: 1e7}}
	var out atomic.Int64
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			for m := range 3000 {
				a := Ask{ID: fmt.Sprint(i, "-", m), Org: "o", Accounts: []Account{account}, Tokens: 100, Cost: 1000}
				h, refusal := n.Reserve(context.Background(), a)
				if refusal != nil {
					t.Errorf("%d: %+v", m, refusal)
					return
				}
				out.Add(400)
				h.Settle(50, 400)
				time.Sleep(100 * time.Microsecond) // it is hot, but no more than that
			}
		})
	}
	wg.Wait()
	for _, n := range nodes {
		if sliced := n.Snapshot().Sliced; sliced < 500 { // it takes a quarter of a second to find that it is hot
			t.Errorf("%d of 3000 were from slices", sliced)
		}
	}
	eventually(t, 5*time.Second, "what was left is given back", func() bool {
		open, reserved, spent := inRedis(t, nodes[0], "o", account.ID)
		return open == 0 && reserved == 0 && spent == out.Load()
	})
	c, err := nodes[0].Count(context.Background(), "o", account.ID)
	if err != nil {
		t.Fatal(err)
	}
	// Where a minute has ended in the midst of it, the test says less.
	if c.Requests > 6000 || c.Tokens > 300000 || c.Requests < 6000 && time.Now().Second() > 10 {
		t.Errorf("counted are %d requests and %d tokens", c.Requests, c.Tokens)
	}
}

// While Redis is lost a node admits its share, and those that have little left are
// closed.
func TestShare(t *testing.T) {
	s := storetest.Redis(t)
	l := &ledger{spent: func(account string, _ time.Time) (usage.Money, error) {
		if account == "key:seen by the ledger" {
			return 40000, nil
		}
		return 0, nil
	}}
	nodes := redisNodes(t, s, 4, Options{Ledger: l})
	ask := func(id string, l Limit) Ask {
		return Ask{ID: id, Org: "o", Accounts: []Account{{"key:" + id, l}}, Tokens: 10, Cost: 10}
	}
	rates := ask("rates", Limit{Requests: 40})
	budget := ask("budget", Limit{Budget: 100000})
	little := ask("little", Limit{Budget: 100000})
	little.Cost = 95000
	once := func(n *node, a Ask, cost usage.Money) {
		h := reserve(t, n, a)
		h.Settle(0, cost)
		n.settled(t)
	}
	once(nodes[0], rates, 0)
	budget.Cost = 20000
	once(nodes[0], budget, 20000)
	budget.Cost = 10
	once(nodes[0], little, 95000)
	little.Cost = 10
	s.Freeze()
	eventually(t, 5*time.Second, "the node knows that Redis is lost", func() bool { return nodes[0].Snapshot().Lost })
	// The whole share is there after ten seconds; the test does not wait for them.
	nodes[0].back.(*remote).started.Add(-10 * second)
	admit := func(a Ask) (sum usage.Money, count int) {
		for range 100000 {
			h, refusal := nodes[0].Reserve(context.Background(), a)
			if refusal != nil {
				if refusal.RetryAfter == 0 {
					t.Errorf("%s is told that it need not come again", a.ID)
				}
				return sum, count
			}
			h.Settle(a.Tokens, a.Cost)
			sum, count = sum+a.Cost, count+1
		}
		return sum, count
	}
	if _, n := admit(rates); n != 10 {
		t.Errorf("%d requests of 40 a minute were admitted by one of four nodes", n)
	}
	if sum, _ := admit(budget); sum != 20000 {
		t.Errorf("%d of 80000 were admitted by one of four nodes", sum)
	}
	if sum, _ := admit(little); sum != 0 {
		t.Errorf("%d of 5%% were admitted", sum)
	}
	if sum, _ := admit(ask("seen by the ledger", Limit{Budget: 100000})); sum != 15000 {
		t.Errorf("%d of 60000 were admitted by one of four nodes", sum)
	}
	if _, n := admit(ask("concurrent", Limit{Concurrency: 1})); n == 0 {
		t.Error("none was admitted where one may be open")
	}
	s.Thaw()
}

// NewRedis does not need Redis, and uses it when it is there. A second node that has
// seen more than the one who seeds puts that right.
func TestRedisComesLater(t *testing.T) {
	s := storetest.Redis(t)
	s.Kill()
	n := redisNode(t, s, Options{})
	ask := Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1e9, Requests: 1000}}}, Cost: 10}
	reserve(t, n, ask).Settle(0, 10)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second*slow, "Redis is found", func() bool { return !n.Snapshot().Lost })
	n.settled(t)
	if _, _, spent := inRedis(t, n, "o", "key:k"); spent != 10 {
		t.Errorf("%d is spent, want 10", spent)
	}
}

// Redis is emptied and seeded from a ledger that lacks the newest rows. A node that
// knew more puts it right, once.
func TestSeedIsPutRight(t *testing.T) {
	s := storetest.Redis(t)
	l := &ledger{spent: func(string, time.Time) (usage.Money, error) { return 100, nil }}
	nodes := redisNodes(t, s, 2, Options{Ledger: l, Timeout: patient})
	ask := func(id string) Ask {
		return Ask{ID: id, Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1e9}}}, Cost: 50}
	}
	reserve(t, nodes[0], ask("a")).Settle(0, 50) // 150 with the ledger's
	nodes[0].settled(t)
	client := *nodes[0].back.(*remote).client.Load()
	if err := client.Do(context.Background(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	reserve(t, nodes[1], ask("b")).Settle(0, 7) // it seeds 100
	nodes[1].settled(t)
	for _, id := range []string{"c", "d"} {
		reserve(t, nodes[0], ask(id)).Settle(0, 3)
		nodes[0].settled(t)
	}
	if _, _, spent := inRedis(t, nodes[0], "o", "key:k"); spent != 150+7+6 {
		t.Errorf("%d is spent, want 163", spent)
	}
}

// The scripts run in a cluster, whose keys have to be in one slot.
func TestCluster(t *testing.T) {
	s := storetest.Redis(t) // only for a free port: a cluster needs an option of its own
	addr := s.Addr
	s.Kill()
	host, port, _ := strings.Cut(addr, ":")
	cmd := exec.Command("redis-server", "--bind", host, "--port", port, "--dir", t.TempDir(), "--save", "", "--cluster-enabled", "yes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, 10*time.Second, "the cluster is up", func() bool {
		_ = exec.Command("redis-cli", "-h", host, "-p", port, "cluster", "addslotsrange", "0", "16383").Run()
		out, _ := exec.Command("redis-cli", "-h", host, "-p", port, "cluster", "info").Output()
		return strings.Contains(string(out), "cluster_state:ok")
	})
	n := redisNode(t, s, Options{Timeout: patient})
	l := Limit{Requests: 100, Budget: 1000}
	for i := range 20 {
		org := fmt.Sprint("org", i)
		a := Ask{ID: fmt.Sprint(i), Org: org, Accounts: []Account{{"key:k" + org, l}, {"team:" + org + "/t", l}, {"org:" + org, l}}, Cost: 10}
		reserve(t, n, a).Settle(0, 5)
	}
	n.settled(t)
	if s := n.Snapshot(); s.Fallback > 0 || s.Lost {
		t.Errorf("the cluster was not used: %+v", s)
	}
}

// A Redis that takes connections and does not answer keeps nobody from starting, nor
// from ending.
func TestFrozenFromTheStart(t *testing.T) {
	s := storetest.Redis(t)
	s.Freeze()
	defer s.Thaw()
	began := time.Now()
	k, err := NewRedis(Options{Redis: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Since(began)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	h, refusal := k.Reserve(ctx, Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 1})
	if refusal != nil {
		t.Error(refusal)
	}
	h.Settle(0, 1)
	began = time.Now()
	cancel()
	wg.Wait()
	k.Close()
	ended := time.Since(began)
	t.Logf("it started in %v and ended in %v", started, ended)
	if started > time.Second || ended > 2*time.Second {
		t.Errorf("it started in %v and ended in %v", started, ended)
	}
}

// The same where Redis freezes later.
func TestCloseWhileFrozen(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{})
	a := Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 1}
	h := reserve(t, n, a)
	s.Freeze()
	defer s.Thaw()
	h.Settle(0, 1)
	began := time.Now()
	n.stop()
	n.Close()
	if ended := time.Since(began); ended > 4*time.Second {
		t.Errorf("it ended in %v", ended)
	}
}

// A ledger that does not answer costs a wait once, not for every request.
func TestLedgerIsDown(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Ledger: &ledger{}, Timeout: patient})
	began := time.Now()
	for i := range 50 {
		a := Ask{ID: fmt.Sprint(i), Org: "o", Accounts: []Account{{fmt.Sprint("key:", i), Limit{Budget: 1e6}}}, Cost: 100}
		reserve(t, n, a).Settle(0, 100)
	}
	if took := time.Since(began); took > 2*time.Second*slow {
		t.Errorf("fifty took %v", took)
	}
}

// The slice of a node that dies is free after its lease.
func TestDeadNodeHoldsNoSlice(t *testing.T) {
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{Timeout: patient, Lease: 400 * time.Millisecond, HotRate: 1, Slice: time.Minute})
	ask := func(id int) Ask {
		return Ask{ID: fmt.Sprint(id), Org: "o", Accounts: []Account{{"key:k", Limit{Concurrency: 1e6, Budget: 1e9}}}, Cost: 1000}
	}
	id := 0
	eventually(t, 5*time.Second, "there is a slice", func() bool {
		id++
		reserve(t, nodes[0], ask(id)).Settle(0, 0)
		return nodes[0].Snapshot().Sliced > 0
	})
	nodes[0].settled(t)
	if open, reserved, _ := inRedis(t, nodes[1], "o", "key:k"); open == 0 || reserved == 0 {
		t.Fatalf("the slice holds %d requests for %d", open, reserved)
	}
	nodes[0].stop()
	eventually(t, 5*time.Second, "it is free", func() bool {
		nodes[1].Charge(fmt.Sprint("touch", time.Now()), "o", ask(0).Accounts, 0, 1)
		nodes[1].settled(t)
		open, reserved, _ := inRedis(t, nodes[1], "o", "key:k")
		return open == 0 && reserved == 0
	})
}
