package quota

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// redisCLI runs a command on a Redis.
func redisCLI(t *testing.T, s *storetest.Server, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "redis-cli", append([]string{"-u", s.URL}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %v: %v: %s", args, err, out)
	}
	return string(out)
}

// spendAll spends the rest of a budget in small reservations on all nodes. It ends when each node refuses
// while Redis is up and has all settlements. It returns the sum of the admitted reservations.
func spendAll(t *testing.T, nodes []*node, account Account, step usage.Money) usage.Money {
	t.Helper()
	return spendBudget(t, nodes, "o", account, step)
}

// TestRedisGoesBack replaces Redis by an older state of it: it is restarted with a snapshot, or a replica is
// promoted. The nodes know what the server has lost, and exactly the budget is spent.
func TestRedisGoesBack(t *testing.T) {
	const budget, step = 10000, 100
	for name, replace := range map[string]func(t *testing.T, s *storetest.Server) (back func()){
		"snapshot": func(t *testing.T, s *storetest.Server) func() {
			redisCLI(t, s, "SAVE")
			return func() {
				s.Kill()
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
			}
		},
		"flushed": func(t *testing.T, s *storetest.Server) func() {
			return func() { redisCLI(t, s, "FLUSHALL") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := storetest.Redis(t)
			nodes := redisNodes(t, s, 3, Options{HotRate: -1}, patient)
			account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
			spend := func(times int) {
				for i := range times {
					settle(reserve(t, nodes[i%3], Request{ID: fmt.Sprint(time.Now().UnixNano()), Org: "o", Accounts: []Account{account}, Cost: step}), 0, step)
				}
				for _, n := range nodes {
					n.settled(t)
				}
			}
			spend(20)
			back := replace(t, s)
			spend(40)
			back()
			eventually(t, "all nodes know that Redis has lost its data, and use it again", func() bool {
				for _, n := range nodes {
					if x := n.Snapshot(); x.Lost || x.Outages == 0 {
						return false
					}
				}
				return true
			})
			if more := spendAll(t, nodes, account, step); more != budget-60*step {
				t.Errorf("%d was spent of the %d that were left", more, budget-60*step)
			}
			for _, n := range nodes {
				n.settled(t)
			}
			checkCount(t, nodes[0], account.ID, Count{Spent: budget})
		})
	}
}

// TestPromotedReplica leads the nodes to a replica that has lost the newest writes.
func TestPromotedReplica(t *testing.T) {
	const budget, step = 10000, 100
	s, replica := storetest.Redis(t), storetest.Redis(t)
	proxy, err := testrig.NewProxy(s.Addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	through := *s
	through.URL = "redis://" + proxy.Addr + "/0"
	nodes := redisNodes(t, &through, 2, Options{HotRate: -1}, patient)
	account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
	open := reserve(t, nodes[0], Request{ID: "open", Org: "o", Accounts: []Account{account}, Cost: 1000})
	settle(reserve(t, nodes[0], Request{ID: "a", Org: "o", Accounts: []Account{account}, Cost: 500}), 0, 500)
	nodes[0].settled(t)
	host, port, _ := strings.Cut(s.Addr, ":")
	redisCLI(t, replica, "REPLICAOF", host, port)
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(redisCLI(t, replica, "INFO", "replication"), "master_link_status:up")
	})
	redisCLI(t, replica, "REPLICAOF", "NO", "ONE")
	settle(reserve(t, nodes[1], Request{ID: "b", Org: "o", Accounts: []Account{account}, Cost: 5000}), 0, 5000)
	nodes[1].settled(t)
	proxy.Lead(replica.Addr)
	if more := spendAll(t, nodes, account, step); more != budget-6500 {
		t.Errorf("%d was spent of the %d that were left", more, budget-6500)
	}
	settle(open, 0, 1000)
	for _, n := range nodes {
		n.settled(t)
	}
	checkCount(t, nodes[0], account.ID, Count{Spent: budget})
}

// TestLateSettlement repeats settlements after their marks have expired.
func TestLateSettlement(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{Mark: time.Millisecond, HotRate: -1}, patient)
	r := n.back.(*redisBackend)
	account := Account{ID: "key:k", Limit: Limit{Budget: 1e6}}
	settle(reserve(t, n, Request{ID: "a", Org: "o", Accounts: []Account{account}, Cost: 100}), 0, 70)
	n.settled(t)
	client := r.serverOf("o").server.Conn()
	for range 3 {
		eventually(t, "the mark has expired", func() bool {
			n, err := client.Do(t.Context(), client.B().Exists().Key(script.Key("o", "r:", "a")).Build()).AsInt64()
			return err == nil && n == 0
		})
		r.put(&change{id: "a", org: "o", accounts: []Account{account}, log: logOf(n.Limiter).name, places: placeOf(place{total: 70})})
		n.settled(t)
	}
	if _, _, spent := inRedis(t, n, "o", account.ID); spent != 70 {
		t.Errorf("%d is spent, want 70", spent)
	}
}

// TestSeedWithLogs seeds accounts from a ledger that lacks what the logs have, in memory and in Redis.
func TestSeedWithLogs(t *testing.T) {
	s := storetest.Redis(t)
	for name, limiter := range map[string]func(t *testing.T, l *ledger) *node{
		"memory": func(t *testing.T, l *ledger) *node {
			return start(t, newMemory(Options{Ledger: l}), nil)
		},
		"redis": func(t *testing.T, l *ledger) *node {
			return redisNode(t, s, Options{Ledger: l, HotRate: -1}, patient)
		},
	} {
		for _, window := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, window), func(t *testing.T) {
				account := Account{ID: fmt.Sprint("key:", name, window), Limit: Limit{Budget: 1000, Window: window}}
				l := &ledger{spent: func(string, time.Time) (usage.Money, error) { return 300, nil }}
				n := limiter(t, l)
				own := logOf(n.Limiter)
				own.spent[account.ID] = 250 // of which the ledger has 200
				l.logs = map[string][]usage.Total{account.ID: {{Log: own.name, Spent: 200}, {Log: "finished", Spent: 100}}}
				h := reserve(t, n, Request{ID: account.ID, Org: "o", Accounts: []Account{account}, Cost: 650})
				if _, refusal := n.Reserve(t.Context(), Request{ID: "b", Org: "o", Accounts: []Account{account}, Cost: 1}); refusal == nil {
					t.Error("350 is spent and 650 reserved of 1000, and more is admitted")
				}
				settle(h, 0, 600)
				n.SetTotal(usage.Total{Log: "finished", Org: "o", Account: account.ID, Spent: 100}) // the ledger has it
				n.SetTotal(usage.Total{Log: "dead", Org: "o", Account: account.ID, Spent: 20})
				n.settled(t)
				c, err := n.Count(t.Context(), "o", account.ID)
				if err != nil || c.Spent != 970 || c.Reserved != 0 {
					t.Errorf("%+v, %v; want 970 spent", c, err)
				}
			})
		}
	}
}

// sharedLog is the log of a process beside another one.
type sharedLog struct {
	*testLog
	other    usage.Money
	reserved usage.Money
}

func (l *sharedLog) Shared() bool { return true }

func (l *sharedLog) Spent(account string) ([]usage.Total, usage.Money) {
	own, _ := l.testLog.Spent(account)
	return append(own, usage.Total{Log: "other", Account: account, Spent: l.other}), l.reserved
}

// TestOtherProcess checks that a limiter in memory counts what another process of the machine has
// spent and reserved, before and after the account is seeded.
func TestOtherProcess(t *testing.T) {
	log := &sharedLog{testLog: newLog("own"), other: 100, reserved: 500}
	k := NewMemory(Options{Logs: log})
	defer k.Close()
	account := Account{ID: "key:k", Limit: Limit{Budget: 1000}}
	fits := func(cost usage.Money) bool {
		h, refusal := k.Reserve(t.Context(), Request{ID: "a", Org: "o", Accounts: []Account{account}, Cost: cost})
		h.Settle(0, 0, usage.Totals{})
		return refusal == nil
	}
	for _, c := range []struct{ spent, reserved, left usage.Money }{{100, 500, 400}, {100, 700, 200}, {750, 0, 250}, {1000, 0, 0}} {
		log.other, log.reserved = c.spent, c.reserved
		if !fits(c.left) || fits(c.left+1) {
			t.Errorf("the other process has spent %d and reserved %d: %d is not what is left", c.spent, c.reserved, c.left)
		}
	}
}

// TestLedgerStaysDown checks that an account of which nothing is known gets a hundredth of its budget once,
// however long the ledger does not respond.
func TestLedgerStaysDown(t *testing.T) {
	s := storetest.Redis(t)
	c := newClock()
	n := redisNode(t, s, Options{Ledger: &ledger{}, Clock: c.now, HotRate: -1}, patient)
	account := Account{ID: "key:k", Limit: Limit{Budget: 10000}}
	sum := usage.Money(0)
	for range 5 {
		for {
			h, refusal := n.Reserve(t.Context(), Request{ID: fmt.Sprint(sum), Org: "o", Accounts: []Account{account}, Cost: 10})
			if refusal != nil {
				break
			}
			settle(h, 0, 10)
			sum += 10
		}
		c.add(10 * time.Second)
	}
	if sum != 100 {
		t.Errorf("%d of 10000 was admitted, want a hundredth", sum)
	}
}

// TestNodesAgree checks that all nodes wait for the largest number that one of them expects after a loss
// of data, and that none waits after that.
func TestNodesAgree(t *testing.T) {
	s := storetest.Redis(t)
	node := func(name string) *redisServer {
		r := NewRedis(Options{Redis: connect(t, s), Node: name, Heartbeat: time.Minute}).back.(*redisBackend)
		t.Cleanup(r.close)
		return r.serverOf("o")
	}
	a, b, c, d := node("a"), node("b"), node("c"), node("d")
	for i, step := range []struct {
		node  *redisServer
		want  int64
		nodes int64
		wait  bool
	}{{a, 3, 1, true}, {b, 2, 2, true}, {c, 1, 3, false}, {a, 3, 3, false}, {b, 2, 3, false}, {d, 9, 4, false}, {a, leaveServer, 1, false}, {b, 0, 3, false}} {
		if m, ok := step.node.join(step.node.send, step.want, 0); m.nodes != step.nodes || m.wait != step.wait || !ok {
			t.Errorf("step %d: %+v, ok %v, want %d and %v", i, m, ok, step.nodes, step.wait)
		}
	}
}
