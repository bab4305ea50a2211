package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestDeadNodeHoldsNothing stops a node with 500 open requests. Its reservations are released when
// its lease expires, and charges for its requests are counted once.
func TestDeadNodeHoldsNothing(t *testing.T) {
	s := storetest.Redis(t)
	const price = usage.Money(1000)
	account := Account{ID: "key:k", Limit: Limit{Concurrency: 600, Budget: 600 * price}}
	nodes := redisNodes(t, s, 3, Options{HotRate: -1}, patient)
	ask := func(n int) Request {
		return Request{ID: fmt.Sprint(n), Org: "o", Accounts: []Account{account}, Cost: price}
	}
	for n := range 500 {
		reserve(t, nodes[0], ask(n))
	}
	alive := reserve(t, nodes[1], ask(1000))
	if open, held, _ := inRedis(t, nodes[1], "o", account.ID); open != 501 || held != 501*int64(price) {
		t.Fatalf("%d are open for %d", open, held)
	}
	nodes[0].stop() // it no longer renews its lease
	// Other processes find its log and count it, more than once.
	dead := logOf(nodes[0].Limiter)
	dead.add(ask(0).Accounts, 250*price)
	for n := range 4 {
		nodes[1+n%2].charge(dead, "o", ask(0).Accounts, 0)
	}
	endLeases(t, s, nodes[0], "o", account.ID)
	eventually(t, "the dead node's reservations are released", func() bool {
		settle(reserve(t, nodes[2], Request{ID: fmt.Sprint(rand.Int()), Org: "o", Accounts: ask(0).Accounts}), 0, 0)
		nodes[2].settled(t)
		open, held, spent := inRedis(t, nodes[1], "o", account.ID)
		return open == 1 && held == int64(price) && spent == 250*int64(price)
	})
	settle(alive, 0, price)
	nodes[1].settled(t)
	if open, held, spent := inRedis(t, nodes[1], "o", account.ID); open != 0 || held != 0 || spent != 251*int64(price) {
		t.Errorf("at the end %d are open for %d, %d is spent", open, held, spent)
	}
}

// TestLostLeaseIsRegisteredAgain deletes the lease of a live node, as if it had expired. The node's open
// requests are counted again and settled once.
func TestLostLeaseIsRegisteredAgain(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Lease: 2 * time.Second, HotRate: -1}, patient)
	a := Request{ID: "one", Org: "o", Accounts: []Account{{"key:k", Limit{Budget: 1000, Concurrency: 5}}}, Cost: 100}
	h := reserve(t, n, a)
	client := n.back.(*redisBackend).servers.Load().all[0].server.Conn()
	name := script.Key("o", "a:", "key:k")
	if err := client.Do(context.Background(), client.B().Del().Key(name, name+":n").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the open request is counted again", func() bool {
		open, held, _ := inRedis(t, n, "o", "key:k")
		return open == 1 && held == 100
	})
	settle(h, 0, 60)
	n.settled(t)
	if open, held, spent := inRedis(t, n, "o", "key:k"); open != 0 || held != 0 || spent != 60 {
		t.Errorf("%d are open for %d, %d is spent", open, held, spent)
	}
}

func reserve(t testing.TB, n *node, a Request) Hold {
	t.Helper()
	h, refusal := n.Reserve(context.Background(), a)
	if refusal != nil {
		t.Fatalf("%s is refused: %+v", a.ID, refusal)
	}
	return h
}

// load reserves and settles at a steady rate.
type load struct {
	nodes   []*node
	request Request

	sent, refused atomic.Int64
	spent         atomic.Int64
	wg            sync.WaitGroup
	stop          chan struct{}
}

func startLoad(nodes []*node, request Request, rate int) *load {
	l := &load{nodes: nodes, request: request, stop: make(chan struct{})}
	l.wg.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-l.stop:
				return
			case <-ticker.C:
				l.wg.Go(func() { l.send(n) })
			}
		}
	})
	return l
}

func (l *load) send(n int) {
	req := l.request
	req.ID = fmt.Sprintf("load-%d", n)
	h, refusal := l.nodes[n%len(l.nodes)].Reserve(context.Background(), req)
	if refusal != nil {
		l.refused.Add(1)
	} else {
		l.spent.Add(int64(req.Cost / 2))
		settle(h, req.Tokens/2, req.Cost/2)
	}
	l.sent.Add(1)
}

// wait waits until n more requests were sent.
func (l *load) wait(t *testing.T, n int64) {
	t.Helper()
	until := l.sent.Load() + n
	eventually(t, fmt.Sprintf("%d more requests are sent", n), func() bool { return l.sent.Load() >= until })
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// TestRedisIsLost freezes Redis, or kills it and restarts it empty, under load. No request is
// refused, requests do not call Redis while it is known to be lost, and afterwards Redis has every
// settlement once.
func TestRedisIsLost(t *testing.T) {
	cases := map[string]struct {
		hotRate       float64
		lose, restore func(t *testing.T, s *storetest.Server)
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
			nodes := redisNodes(t, s, 3, Options{HotRate: c.hotRate})
			lost := func(n *node) bool { return n.Snapshot().Lost }
			limit := Limit{Requests: 1e6, Tokens: 1e9, Concurrency: 10000, Budget: 1e9}
			l := startLoad(nodes, Request{Org: "o", Accounts: []Account{{"key:k", limit}, {"org:o", limit}}, Tokens: 100, Cost: 1000}, 500)
			l.wait(t, 500)
			before := reserve(t, nodes[0], Request{ID: "before", Org: "o", Accounts: l.request.Accounts, Cost: 5000})
			c.lose(t, s)
			eventually(t, "all nodes have noticed that Redis is lost", func() bool { return !slices.ContainsFunc(nodes, func(n *node) bool { return !lost(n) }) })
			l.wait(t, 500)
			during := reserve(t, nodes[1], Request{ID: "during", Org: "o", Accounts: l.request.Accounts, Cost: 7000})
			if nodes[1].Snapshot().Fallback == 0 {
				t.Error("a request during the outage was not admitted from the node's share")
			}
			c.restore(t, s)
			eventually(t, "all nodes have found Redis again", func() bool { return !slices.ContainsFunc(nodes, lost) })
			l.wait(t, 250)
			l.end()
			for _, n := range nodes {
				n.settled(t)
				if s := n.Snapshot(); int64(n.log.lines()) > 2*s.Outages { // lost and back
					t.Errorf("%d log lines for %d outages:\n%s", n.log.lines(), s.Outages, n.log)
				}
			}
			if n := l.refused.Load(); n > 0 {
				t.Errorf("%d of %d requests were refused", n, l.sent.Load())
			}
			for _, account := range []string{"key:k", "org:o"} {
				checkCount(t, nodes[0], account, Count{Open: 2, Reserved: 12000, Spent: usage.Money(l.spent.Load())})
			}
			settle(before, 0, 5000)
			settle(during, 0, 7000)
			checkCount(t, nodes[0], "key:k", Count{Spent: usage.Money(l.spent.Load() + 12000)})
		})
	}
}

// TestLostRedisIsNotCalled checks that requests make no call while Redis is known to be lost: every
// reservation comes from the node's share.
func TestLostRedisIsNotCalled(t *testing.T) {
	s := storetest.Redis(t)
	k := NewRedis(Options{Logs: newLog("x"), Redis: connect(t, s, patient)}) // Run is not started: nothing ends the outage
	defer k.Close()
	r := k.back.(*redisBackend)
	r.serverOf("o").enterFallback(errors.New("test"))
	calls := evaluations(t, s)
	var first time.Time // after the first settlement
	for i := range 100 {
		h, refusal := k.Reserve(context.Background(), Request{ID: fmt.Sprint(i), Org: "o", Accounts: []Account{{"key:k", Limit{Requests: 1000}}}})
		if refusal != nil {
			t.Fatal(refusal)
		}
		settle(h, 0, 0)
		if i == 0 {
			first = time.Now()
		}
	}
	if until := k.CountedUntil(); until.After(first) {
		t.Errorf("all is counted until %v, but what was settled at %v is not", until, first)
	}
	if s := k.Snapshot(); s.Fallback != 100 || s.Queued != 100 {
		t.Errorf("%d of 100 requests were admitted from the node's share, %d settlements are queued", s.Fallback, s.Queued)
	}
	if now := evaluations(t, s); now != calls {
		t.Errorf("Redis was called: %q, before %q", now, calls)
	}
}

// TestUnreachableRedisIsNotAnother checks that a node that cannot reach Redis does not take it for another one, of
// which it would know nothing.
func TestUnreachableRedisIsNotAnother(t *testing.T) {
	s := storetest.Redis(t)
	k := NewRedis(Options{Logs: newLog("x"), Redis: connect(t, s, patient)}) // Run is not started
	defer k.Close()
	s.Kill()
	r := k.back.(*redisBackend).serverOf("o")
	r.born.Store(7)
	if r.recover(false) || r.born.Load() != 7 {
		t.Errorf("it was taken for the data of %d", r.born.Load())
	}
}

// evaluations returns the statistics of script calls.
func evaluations(t *testing.T, s *storetest.Server) string {
	_, text, _ := strings.Cut(redisCLI(t, s, "INFO", "commandstats"), "cmdstat_evalsha:")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// checkCount waits until an account has the wanted counts: unused slices are returned after a while.
func checkCount(t *testing.T, n *node, account string, want Count) {
	t.Helper()
	var c Count
	if !poll(func() bool {
		c, _ = n.Count(context.Background(), "o", account)
		return c.Open == want.Open && c.Reserved == want.Reserved && c.Spent == want.Spent
	}) {
		t.Fatalf("%s has %+v, want %+v", account, c, want)
	}
}

// TestUndo checks that a reservation without a reply is undone once, whether Redis executed it before the
// undo, after it, or never.
func TestUndo(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{}, patient)
	r := n.back.(*redisBackend).serverOf("o")
	a := &Request{ID: "a", Org: "o", Accounts: []Account{{"key:k", Limit{Requests: 100, Tokens: 1000, Budget: 1000}}}, Tokens: 10, Cost: 100}
	reserve(t, n, Request{ID: "first", Org: "o", Accounts: a.Accounts, Tokens: 1, Cost: 7})
	tell := func(id string) {
		r.put(undo(a, id, a.amounts()))
		n.settled(t)
	}
	check := func(when string) {
		t.Helper()
		c, err := n.Count(context.Background(), "o", "key:k")
		if err != nil || c.Open != 1 || c.Reserved != 7 {
			t.Errorf("%s: %+v, %v", when, c, err)
		}
	}
	h := &reservation{}
	if got, err := r.take(a, "early", a.amounts(), 0, h); err != nil || got.Status != script.Granted || h.minute != got.Now/minute {
		t.Fatalf("%+v in minute %d, %v", got, h.minute, err)
	}
	tell("early")
	check("after the undo")
	tell("early")
	check("after the second undo")
	tell("late")
	if got, err := r.take(a, "late", a.amounts(), 0, &reservation{}); err != nil || got.Status != script.AlreadyUndone {
		t.Fatal(got, err)
	}
	check("after the late reservation")
	tell("never")
	check("after the undo of a reservation that never arrived")
}

// TestExtensionsDuringOutageReleaseTheirSlot extends requests while Redis is lost and settles
// them before or after Redis is back. No extension may leave an open request behind: a leaked
// one would be written to Redis and renewed until the process ends.
func TestExtensionsDuringOutageReleaseTheirSlot(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{HotRate: -1}, patient)
	account := Account{"key:k", Limit{Concurrency: 4, Budget: 1e6}}
	ask := func(id string, part bool) Request {
		return Request{ID: id, Org: "o", Accounts: []Account{account}, Cost: 100, Extension: part}
	}
	settle(reserve(t, n, ask("first", false)), 0, 1) // seeds the account
	n.settled(t)
	s.Kill()
	eventually(t, "the node has noticed that Redis is lost", func() bool {
		settle(reserve(t, n, ask(fmt.Sprint(rand.Int()), false)), 0, 0)
		return n.Snapshot().Lost
	})
	ended, extension := reserve(t, n, ask("ended", false)), reserve(t, n, ask("ended-1", true))
	settle(extension, 0, 0)
	settle(ended, 0, 100)
	lasting := []Hold{reserve(t, n, ask("lasting", false)), reserve(t, n, ask("lasting-1", true)), reserve(t, n, ask("lasting-2", true))}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node has found Redis again", func() bool { return !n.Snapshot().Lost })
	if open, held, _ := inRedis(t, n, "o", account.ID); open != 1 || held != 300 {
		t.Errorf("one request with two extensions is open: Redis counts %d open requests and %d reserved, want 1 and 300", open, held)
	}
	for _, h := range lasting {
		settle(h, 0, 0)
	}
	n.settled(t)
	if open, held, _ := inRedis(t, n, "o", account.ID); open != 0 || held != 0 {
		t.Errorf("all are settled: Redis counts %d open requests and %d reserved, want none", open, held)
	}
	for i := range account.Limit.Concurrency { // all slots are free
		reserve(t, n, ask(fmt.Sprint("after-", i), false))
	}
}
