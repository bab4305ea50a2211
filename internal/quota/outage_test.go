package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/storetest"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// R2: a node dies with 500 requests open. What it held is free after its lease, and
// what is charged for its requests is counted once.
func TestDeadNodeHoldsNothing(t *testing.T) {
	s := storetest.Redis(t)
	const price = usage.Money(1000)
	account := Account{ID: "key:k", Limit: Limit{Concurrency: 600, Budget: 600 * price}}
	nodes := redisNodes(t, s, 3, Options{Lease: 600 * time.Millisecond, HotRate: -1, Timeout: patient})
	ask := func(n int) Ask { return Ask{ID: fmt.Sprint(n), Org: "o", Accounts: []Account{account}, Cost: price} }
	for n := range 500 {
		reserve(t, nodes[0], ask(n))
	}
	alive := reserve(t, nodes[1], ask(1000))
	if open, held, _ := inRedis(t, nodes[1], "o", account.ID); open != 501 || held != 501*int64(price) {
		t.Fatalf("%d are open for %d", open, held)
	}
	nodes[0].stop() // it renews no more
	// Another process finds its rows, and charges for them, more than once.
	for n := range 500 {
		for range 2 {
			nodes[1+n%2].Charge(ask(n).ID, "o", ask(n).Accounts, 10, price/2)
		}
	}
	eventually(t, 10*time.Second, "the dead node's requests are gone", func() bool {
		reserve(t, nodes[2], Ask{ID: fmt.Sprint(rand.Int()), Org: "o", Accounts: ask(0).Accounts}).Settle(0, 0)
		nodes[2].settled(t)
		open, held, spent := inRedis(t, nodes[1], "o", account.ID)
		return open == 1 && held == int64(price) && spent == 250*int64(price)
	})
	alive.Settle(0, price)
	nodes[1].settled(t)
	if open, held, spent := inRedis(t, nodes[1], "o", account.ID); open != 0 || held != 0 || spent != 251*int64(price) {
		t.Errorf("at the end %d are open for %d, %d is spent", open, held, spent)
	}
}

// A charge for a request that was settled before its process died does nothing.
func TestChargeAfterSettle(t *testing.T) {
	s := storetest.Redis(t)
	nodes := redisNodes(t, s, 2, Options{Timeout: patient})
	a := Ask{ID: "one", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000}}}, Cost: 100}
	reserve(t, nodes[0], a).Settle(0, 70)
	nodes[0].settled(t)
	nodes[1].Charge("one", "o", a.Accounts, 0, 90)
	nodes[1].settled(t)
	if _, _, spent := inRedis(t, nodes[0], "o", "key:k"); spent != 70 {
		t.Errorf("%d is spent, want 70", spent)
	}
}

// A node that was away for longer than its lease, but lives, goes on: what it has open
// is counted again, and settled once.
func TestForgottenNodeIsRemembered(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Lease: 300 * time.Millisecond, HotRate: -1, Timeout: patient})
	a := Ask{ID: "one", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000, Concurrency: 5}}}, Cost: 100}
	h := reserve(t, n, a)
	client := *n.back.(*remote).client.Load()
	// As if it had been swept.
	name := key("o", "a:", "key:k")
	if err := client.Do(context.Background(), client.B().Del().Key(name, name+":n").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "it is counted again", func() bool {
		open, held, _ := inRedis(t, n, "o", "key:k")
		return open == 1 && held == 100
	})
	h.Settle(0, 60)
	n.settled(t)
	if open, held, spent := inRedis(t, n, "o", "key:k"); open != 0 || held != 0 || spent != 60 {
		t.Errorf("%d are open for %d, %d is spent", open, held, spent)
	}
}

func reserve(t testing.TB, n *node, a Ask) Hold {
	t.Helper()
	h, refusal := n.Reserve(context.Background(), a)
	if refusal != nil {
		t.Fatalf("%s is refused: %+v", a.ID, refusal)
	}
	return h
}

// load reserves and settles at a steady pace and notes how long that took.
type load struct {
	nodes []*node
	ask   Ask

	mu    sync.Mutex
	began time.Time
	took  []sample
	ids   atomic.Int64
	spent atomic.Int64
	wg    sync.WaitGroup
	stop  chan struct{}
}

type sample struct {
	at, took time.Duration
	refused  bool
}

func startLoad(nodes []*node, ask Ask, rate int) *load {
	l := &load{nodes: nodes, ask: ask, began: time.Now(), stop: make(chan struct{})}
	l.wg.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-ticker.C:
				l.wg.Go(l.one)
			}
		}
	})
	return l
}

func (l *load) one() {
	id := l.ids.Add(1)
	a := l.ask
	a.ID = fmt.Sprintf("load-%d", id)
	began := time.Now()
	h, refusal := l.nodes[id%int64(len(l.nodes))].Reserve(context.Background(), a)
	took := time.Since(began)
	l.mu.Lock()
	l.took = append(l.took, sample{began.Sub(l.began), took, refusal != nil})
	l.mu.Unlock()
	if refusal == nil {
		l.spent.Add(int64(a.Cost / 2))
		h.Settle(a.Tokens/2, a.Cost/2)
	}
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// quantile of those that began in a span.
func (l *load) quantile(q float64, from, to time.Duration) (d time.Duration, n int) {
	var all []time.Duration
	for _, s := range l.took {
		if s.at >= from && s.at < to {
			all = append(all, s.took)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))], len(all)
}

func (l *load) refusals() (n int) {
	for _, s := range l.took {
		if s.refused {
			n++
		}
	}
	return n
}

// R3 and R4: Redis is frozen, killed, and comes back empty, under load. Nobody is
// refused for it, nobody waits for it, and afterwards it has every settlement once.
func TestRedisIsLost(t *testing.T) {
	cases := map[string]struct {
		hot        float64
		lose, back func(t *testing.T, s *storetest.Server)
	}{
		"frozen": {
			20,
			func(_ *testing.T, s *storetest.Server) { s.Freeze() },
			func(_ *testing.T, s *storetest.Server) { s.Thaw() },
		},
		"killed and empty": {
			-1,
			func(_ *testing.T, s *storetest.Server) { s.Kill() },
			func(t *testing.T, s *storetest.Server) {
				if err := s.Wipe(); err != nil {
					t.Fatal(err)
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := storetest.Redis(t)
			nodes := redisNodes(t, s, 3, Options{HotRate: c.hot})
			limit := Limit{Requests: 1e6, Tokens: 1e9, Concurrency: 10000, Budget: 1e9}
			l := startLoad(nodes, Ask{Org: "o", Accounts: []Account{{"key:k", limit}, {"org:o", limit}}, Tokens: 100, Cost: 1000}, 500)
			pauseFor(time.Second)
			open := reserve(t, nodes[0], Ask{ID: "open", Org: "o", Accounts: l.ask.Accounts, Cost: 5000}) // through all of it
			lostAt := time.Since(l.began)
			c.lose(t, s)
			pauseFor(3 * time.Second)
			for _, n := range nodes {
				if !n.Snapshot().Lost {
					t.Error("a node has not seen that Redis is lost")
				}
			}
			inOutage := reserve(t, nodes[1], Ask{ID: "in outage", Org: "o", Accounts: l.ask.Accounts, Cost: 7000})
			c.back(t, s)
			backAt := time.Now()
			eventually(t, 2*time.Second, "all nodes have found Redis again", func() bool {
				return !slices.ContainsFunc(nodes, func(n *node) bool { return n.Snapshot().Lost })
			})
			recovered := time.Since(backAt)
			pauseFor(500 * time.Millisecond)
			l.end()
			for _, n := range nodes {
				n.settled(t)
				if lines := n.log.lines(); lines > 10 {
					t.Errorf("%d lines of log:\n%s", lines, n.log)
				}
			}
			first, count := l.quantile(0.99, lostAt, lostAt+time.Second)
			later, _ := l.quantile(0.99, lostAt+time.Second, lostAt+3*time.Second)
			before, _ := l.quantile(0.99, 0, lostAt)
			worst, _ := l.quantile(1, 0, time.Hour)
			t.Logf("p99: %v before, %v in the first second (%d), %v then; worst %v; back in %v; %d refused", before, first, count, later, worst, recovered, l.refusals())
			if l.refusals() > 0 {
				t.Errorf("%d were refused", l.refusals())
			}
			if first > before+60*time.Millisecond*slow {
				t.Errorf("the first second has a p99 of %v", first)
			}
			if later > time.Millisecond*slow {
				t.Errorf("after that p99 is %v", later)
			}
			for _, account := range []string{"key:k", "org:o"} {
				checkCount(t, nodes[0], account, Count{Open: 2, Reserved: 12000, Spent: usage.Money(l.spent.Load())})
			}
			open.Settle(0, 5000)
			inOutage.Settle(0, 7000)
			checkCount(t, nodes[0], "key:k", Count{Spent: usage.Money(l.spent.Load() + 12000)})
		})
	}
}

// onTheWay is what may be counted twice when Redis is killed and comes back empty: what
// it had done but not yet said. It is never counted too little.
const onTheWay = 20 * 500

// checkCount waits for what is left of slices to be given back.
func checkCount(t *testing.T, n *node, account string, want Count) {
	t.Helper()
	var c Count
	eventually(t, 2*time.Second*slow, fmt.Sprintf("%s has %+v", account, want), func() bool {
		c, _ = n.Count(context.Background(), "o", account)
		return c.Open == want.Open && c.Reserved == want.Reserved && c.Spent >= want.Spent
	})
	if c.Spent > want.Spent+onTheWay {
		t.Errorf("%s: %d is spent, want %d (%+d)", account, c.Spent, want.Spent, c.Spent-want.Spent)
	}
}

// pauseFor lets a load run for a time.
func pauseFor(d time.Duration) { time.Sleep(d) }

// A reservation whose answer did not come is undone once, whether it came before the
// undo, after it, or never.
func TestUndo(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Timeout: patient})
	r := n.back.(*remote)
	a := &Ask{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Requests: 100, Tokens: 1000, Budget: 1000}}}, Tokens: 10, Cost: 100}
	reserve(t, n, Ask{ID: "first", Org: "o", Accounts: a.Accounts, Tokens: 1, Cost: 7})
	tell := func(id string) {
		r.queue.put(undo(a, id, a.take()))
		n.settled(t)
	}
	check := func(when string) {
		t.Helper()
		c, err := n.Count(context.Background(), "o", "key:k")
		if err != nil || c.Open != 1 || c.Reserved != 7 {
			t.Errorf("%s: %+v, %v", when, c, err)
		}
	}
	if got, err := r.take(a, "early", a.take(), 0); err != nil || got.status != taken {
		t.Fatal(got, err)
	}
	tell("early")
	check("after the undo")
	tell("early")
	check("after the second undo")
	tell("late")
	if got, err := r.take(a, "late", a.take(), 0); err != nil || got.status != overtaken {
		t.Fatal(got, err)
	}
	check("after the reservation that came late")
	tell("never")
	check("after the undo of what never came")
}
