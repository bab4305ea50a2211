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

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// TestClocksDoNotMatter uses nodes whose clocks are minutes apart: Redis' clock counts.
func TestClocksDoNotMatter(t *testing.T) {
	s := storetest.Redis(t)
	var nodes []*node
	for _, off := range []time.Duration{-5 * time.Minute, 0, 5 * time.Minute} {
		nodes = append(nodes, redisNode(t, s, Options{Node: off.String(), Clock: func() time.Time { return time.Now().Add(off) }}, patient))
	}
	account := Account{"key:k", Limit{Requests: 30, Tokens: 300, Budget: 300, Window: time.Hour}}
	admitted := 0
	for n := range 90 {
		h, refusal := nodes[n%3].Reserve(context.Background(), Request{ID: fmt.Sprint(n), Org: "o", Accounts: []Account{account}, Tokens: 10, Cost: 10})
		if refusal == nil {
			admitted++
			settle(h, 10, 10)
		} else if refusal.RetryAfter <= 0 || refusal.RetryAfter > time.Hour+2*time.Minute {
			t.Errorf("RetryAfter is %v", refusal.RetryAfter)
		}
	}
	if admitted != 30 { // by the budget, also if a minute ends during the test
		t.Errorf("%d were admitted, want 30", admitted)
	}
}

// TestWindowInRedis checks that spending leaves a budget's window no earlier than RetryAfter says.
func TestWindowInRedis(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{}, patient)
	ask := Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 100, Window: 3 * time.Second}}}, Cost: 100}
	settle(reserve(t, n, ask), 0, 100)
	n.settled(t)
	ask.ID = "b"
	began := time.Now() // before the refusal: a pause between them must not shorten the wait
	_, refusal := n.Reserve(context.Background(), ask)
	if refusal == nil || refusal.RetryAfter <= 0 || refusal.RetryAfter > 3100*time.Millisecond {
		t.Fatalf("the refusal is %+v", refusal)
	}
	eventually(t, "the spending has left the window", func() bool {
		_, refusal := n.Reserve(context.Background(), ask)
		return refusal == nil
	})
	if waited := time.Since(began); waited < refusal.RetryAfter-60*time.Millisecond { // 60 ms: one bucket and rounding
		t.Errorf("RetryAfter is %v, but the request was admitted after %v", refusal.RetryAfter, waited)
	}
}

// TestSlices sends requests of a hot key until 500 on each node were admitted from slices. All are
// counted once, and the unused rest is returned.
func TestSlices(t *testing.T) {
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{}, patient)
	account := Account{"key:k", Limit{Requests: 1e8, Tokens: 1e10, Concurrency: 1e7, Budget: 1e12}}
	var sent atomic.Int64
	var wg sync.WaitGroup
	minuteOf := func(t time.Time) time.Time { return t.Truncate(time.Minute) }
	began := minuteOf(time.Now())
	for i, n := range nodes {
		wg.Go(func() {
			for m := 0; n.Snapshot().Sliced < 500; m++ { // it takes a quarter of a second to find that the key is hot
				a := Request{ID: fmt.Sprint(i, "-", m), Org: "o", Accounts: []Account{account}, Tokens: 100, Cost: 1000}
				h, refusal := n.Reserve(context.Background(), a)
				if refusal != nil {
					t.Errorf("%d: %+v", m, refusal)
					return
				}
				sent.Add(1)
				settle(h, 50, 400)
			}
		})
	}
	wg.Wait()
	eventually(t, "the unused rest of the slices is returned", func() bool {
		open, reserved, spent := inRedis(t, nodes[0], "o", account.ID)
		return open == 0 && reserved == 0 && spent == 400*sent.Load()
	})
	c, err := nodes[0].Count(context.Background(), "o", account.ID)
	if err != nil {
		t.Fatal(err)
	}
	sameMinute := minuteOf(time.Now()).Equal(began) // else an earlier minute has a part of the requests
	if n := sent.Load(); c.Requests > n || c.Tokens > 50*n || sameMinute && (c.Requests != n || c.Tokens != 50*n) {
		t.Errorf("%d requests and %d tokens are counted for %d requests", c.Requests, c.Tokens, n)
	}
}

// TestShare checks a node's share of rates and budgets while Redis is lost. A budget with less than a
// tenth left is closed.
func TestShare(t *testing.T) {
	s := storetest.Redis(t)
	l := &ledger{spent: func(account string, _ time.Time) (usage.Money, error) {
		if account == "key:seen by the ledger" {
			return 40000, nil
		}
		return 0, nil
	}}
	nodes := redisNodes(t, s, 4, Options{Ledger: l})
	ask := func(id string, l Limit) Request {
		return Request{ID: id, Org: "o", Accounts: []Account{{"key:" + id, l}}, Tokens: 10, Cost: 10}
	}
	rates := ask("rates", Limit{Requests: 40})
	budget := ask("budget", Limit{Budget: 100000})
	little := ask("little", Limit{Budget: 100000})
	little.Cost = 95000
	once := func(n *node, a Request, cost usage.Money) {
		h := reserve(t, n, a)
		settle(h, 0, cost)
		n.settled(t)
	}
	once(nodes[0], rates, 0)
	budget.Cost = 20000
	once(nodes[0], budget, 20000)
	budget.Cost = 10
	once(nodes[0], little, 95000)
	little.Cost = 10
	s.Freeze()
	eventually(t, "the node has noticed that Redis is lost", func() bool { return nodes[0].Snapshot().Lost })
	// The whole share is allowed after ten seconds; the test moves the outage's start instead of waiting.
	nodes[0].back.(*redisBackend).serverOf("o").shareSince.Add(-10 * second)
	admit := func(a Request) (sum usage.Money, count int) {
		for range 100000 {
			h, refusal := nodes[0].Reserve(context.Background(), a)
			if refusal != nil {
				if refusal.RetryAfter == 0 {
					t.Errorf("%s: the refusal has no RetryAfter", a.ID)
				}
				return sum, count
			}
			settle(h, a.Tokens, a.Cost)
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
		t.Error("no request was admitted under a concurrency of 1")
	}
	s.Thaw()
}

// TestRedisComesLater starts a limiter before Redis. It admits requests from its share and sends the
// settlements when Redis is up.
func TestRedisComesLater(t *testing.T) {
	s := storetest.Redis(t)
	s.Kill()
	n := redisNode(t, s, Options{})
	ask := Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1e9, Requests: 1000}}}, Cost: 10}
	settle(reserve(t, n, ask), 0, 10)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is connected", func() bool { return !n.Snapshot().Lost })
	if log := fmt.Sprint(n.log); !strings.Contains(log, "redis is back") || strings.Contains(log, "outage=0s") {
		t.Errorf("the outage has no length in the log: %s", log)
	}
	n.settled(t)
	if _, _, spent := inRedis(t, n, "o", "key:k"); spent != 10 {
		t.Errorf("%d is spent, want 10", spent)
	}
}

// TestSeedIsCorrected empties Redis, which is then seeded from a ledger without the newest rows. The
// node that has them in its log corrects the seed, once.
func TestSeedIsCorrected(t *testing.T) {
	s := storetest.Redis(t)
	l := &ledger{spent: func(string, time.Time) (usage.Money, error) { return 100, nil }}
	nodes := redisNodes(t, s, 2, Options{Ledger: l}, patient)
	ask := func(id string) Request {
		return Request{ID: id, Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1e9}}}, Cost: 50}
	}
	settle(reserve(t, nodes[0], ask("a")), 0, 50) // 150 with the ledger's
	nodes[0].settled(t)
	client := nodes[0].back.(*redisBackend).servers.Load().all[0].server.Conn()
	if err := client.Do(context.Background(), client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	settle(reserve(t, nodes[1], ask("b")), 0, 7) // it seeds 100
	nodes[1].settled(t)
	for _, id := range []string{"c", "d"} {
		settle(reserve(t, nodes[0], ask(id)), 0, 3)
		nodes[0].settled(t)
	}
	if _, _, spent := inRedis(t, nodes[0], "o", "key:k"); spent != 150+7+6 {
		t.Errorf("%d is spent, want 163", spent)
	}
}

// TestCluster runs the scripts on a Redis cluster, where all keys of a call must be in one slot.
func TestCluster(t *testing.T) {
	s := storetest.Redis(t) // only for a free port: a cluster needs an option of its own
	addr := s.Addr
	s.Kill()
	host, port, _ := strings.Cut(addr, ":")
	bus, err := testrig.Address() // the default is the port plus 10,000, which may be none
	if err != nil {
		t.Fatal(err)
	}
	_, busPort, _ := strings.Cut(bus, ":")
	cmd := exec.Command("redis-server", "--bind", host, "--port", port, "--cluster-port", busPort, "--dir", t.TempDir(), "--save", "", "--cluster-enabled", "yes")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	eventually(t, "the cluster is up", func() bool {
		_ = exec.Command("redis-cli", "-h", host, "-p", port, "cluster", "addslotsrange", "0", "16383").Run()
		out, _ := exec.Command("redis-cli", "-h", host, "-p", port, "cluster", "info").Output()
		return strings.Contains(string(out), "cluster_state:ok")
	})
	n := redisNodes(t, s, 1, Options{}, patient)[0]
	l := Limit{Requests: 100, Budget: 1000}
	for i := range 20 {
		org := fmt.Sprint("org", i)
		a := Request{ID: fmt.Sprint(i), Org: org, Accounts: []Account{{"key:k" + org, l}, {"team:" + org + "/t", l}, {"org:" + org, l}}, Cost: 10}
		settle(reserve(t, n, a), 0, 5)
	}
	n.settled(t)
	if s := n.Snapshot(); s.Fallback > 0 || s.Lost {
		t.Errorf("the cluster was not used: %+v", s)
	}
}

// TestFrozenFromTheStart checks that a Redis that accepts connections but does not respond blocks neither
// start, nor requests, nor shutdown.
func TestFrozenFromTheStart(t *testing.T) {
	s := storetest.Redis(t)
	s.Freeze()
	defer s.Thaw()
	k := NewRedis(Options{Logs: newLog("x"), Redis: connect(t, s)})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { k.Run(ctx) })
	h, refusal := k.Reserve(ctx, Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 1})
	if refusal != nil {
		t.Error(refusal)
	}
	settle(h, 0, 1)
	cancel()
	wg.Wait()
	k.Close()
}

// TestCloseWhileFrozen closes a limiter whose Redis stopped responding. Close gives up on the queue.
func TestCloseWhileFrozen(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{})
	a := Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 1}
	h := reserve(t, n, a)
	s.Freeze()
	defer s.Thaw()
	settle(h, 0, 1)
	n.stop()
	n.Close()
}

// TestLedgerIsDown checks that requests do not wait one after the other for a ledger that does not
// respond: after the first timeout they use the provisional part of their budget.
func TestLedgerIsDown(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Ledger: &ledger{}}, patient)
	r := n.back.(*redisBackend)
	waits := 0
	for i := range 50 {
		if !r.seeder.IsDown() {
			waits++ // this request waits for the ledger until the timeout
		}
		a := Request{ID: fmt.Sprint(i), Org: "o", Accounts: []Account{{fmt.Sprint("key:", i), Limit{Budget: 1e6}}}, Cost: 100}
		settle(reserve(t, n, a), 0, 100)
	}
	if waits > 25 {
		t.Errorf("%d of 50 requests waited for the ledger", waits)
	}
}

// TestDeadNodeHoldsNoSlice checks that the slice of a dead node is released when its lease expires.
func TestDeadNodeHoldsNoSlice(t *testing.T) {
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{HotRate: 1, Slice: time.Minute}, patient)
	ask := func(id int) Request {
		return Request{ID: fmt.Sprint(id), Org: "o", Accounts: []Account{{"key:k", Limit{Concurrency: 1e6, Budget: 1e9}}}, Cost: 1000}
	}
	id := 0
	eventually(t, "the node has a slice", func() bool {
		id++
		settle(reserve(t, nodes[0], ask(id)), 0, 0)
		return nodes[0].Snapshot().Sliced > 0
	})
	nodes[0].settled(t)
	if open, reserved, _ := inRedis(t, nodes[1], "o", "key:k"); open == 0 || reserved == 0 {
		t.Fatalf("the slice holds %d requests for %d", open, reserved)
	}
	nodes[0].stop()
	endLeases(t, s, nodes[0], "o", "key:k")
	eventually(t, "the slice is released", func() bool {
		nodes[1].charge(newLog("touch"), "o", ask(0).Accounts, 1)
		nodes[1].settled(t)
		open, reserved, _ := inRedis(t, nodes[1], "o", "key:k")
		return open == 0 && reserved == 0
	})
}
