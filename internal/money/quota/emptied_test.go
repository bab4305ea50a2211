package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// TestRedisIsEmptied empties Redis while streams are open on two of three nodes. Their reservations were in
// Redis only. The third node does not get that money, whether it has used the account before or not.
func TestRedisIsEmptied(t *testing.T) {
	const budget, step, stream = 10000, 100, 3000
	account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
	record := script.Key("o", "a:", account.ID)
	flush := func(t *testing.T, s *storetest.Server) { redisCLI(t, s, "FLUSHALL") }
	for _, c := range []struct {
		name  string
		empty func(t *testing.T, s *storetest.Server)
		beat  time.Duration // interval of heartbeats; with 2 s the next request is earlier
		known bool          // the third node has used the account
	}{
		{"flushed", flush, 2 * time.Second, true},
		{"flushed, with an account that is new to the node", flush, 2 * time.Second, false},
		{"flushed, and a heartbeat is first", flush, 400 * time.Millisecond, false},
		{"flushed with its scripts", func(t *testing.T, s *storetest.Server) { flush(t, s); redisCLI(t, s, "SCRIPT", "FLUSH") }, 2 * time.Second, true},
		{"scripts are flushed", func(t *testing.T, s *storetest.Server) { redisCLI(t, s, "SCRIPT", "FLUSH") }, 2 * time.Second, false},
		{"restarted without data", func(t *testing.T, s *storetest.Server) {
			s.Kill()
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
		}, time.Second, false},
		{"account evicted", func(t *testing.T, s *storetest.Server) {
			redisCLI(t, s, "DEL", record, record+":n", record+":b", record+":l")
		}, 2 * time.Second, true},
		{"record evicted", func(t *testing.T, s *storetest.Server) { redisCLI(t, s, "DEL", record) }, 2 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Redis(t)
			nodes := redisNodes(t, s, 3, Options{HotRate: -1, Heartbeat: c.beat}, patient)
			use := func(n *node, cost usage.Money) Hold {
				return reserve(t, n, Request{ID: fmt.Sprint(time.Now().UnixNano()), Org: "o", Accounts: []Account{account}, Cost: cost})
			}
			open := []Hold{use(nodes[0], stream), use(nodes[1], stream)}
			settle(use(nodes[1], 500), 0, 500)
			if c.known {
				settle(use(nodes[2], 500), 0, 500)
			} else {
				settle(use(nodes[0], 500), 0, 500)
			}
			for _, n := range nodes {
				n.settled(t)
			}
			c.empty(t, s)
			if c.beat < 2*time.Second {
				eventually(t, "a node has noticed", func() bool { return nodes[2].Snapshot().Outages > 0 })
			}
			more := spendPart(nodes[2], "o", account, step)
			more += spendAll(t, nodes, account, step)
			if left := usage.Money(budget - 2*stream - 1000); more != left {
				t.Errorf("%d was spent of the %d that were left", more, left)
			}
			for _, h := range open {
				settle(h, 0, stream)
			}
			for _, n := range nodes {
				n.settled(t)
			}
			checkCount(t, nodes[0], account.ID, Count{Spent: budget})
		})
	}
}

// TestRedisEvicts uses a Redis that evicts keys to admit others. No limit is exceeded: each node uses its share,
// also of the next window. After the policy is repaired the nodes share what is left, and exactly the budget is spent.
func TestRedisEvicts(t *testing.T) {
	const limit = 300 // tokens per minute, and the budget
	s := storetest.RedisWith(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
	c := newClock()
	nodes := redisNodes(t, s, 3, Options{HotRate: -1, Clock: c.now}, patient)
	flood := func() {
		cli(t, s, "EVAL", "for n = 1, 400 do redis.call('SET', 'flood' .. n .. ARGV[1], string.rep('x', 1000)) end", "0", fmt.Sprint(time.Now().UnixNano()))
	}
	eventually(t, "all nodes know the policy", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return !n.Snapshot().Evicts })
	})
	c.add(10 * time.Second) // the share grows until then
	for range 5 {
		flood()
	}
	spend := func(account Account) (sum int64) {
		for range 4 {
			for _, n := range nodes {
				for range 60 {
					h, refusal := n.Reserve(t.Context(), Request{ID: fmt.Sprint(time.Now().UnixNano()), Org: "o", Accounts: []Account{account}, Tokens: 1, Cost: 1})
					if refusal == nil {
						settle(h, 1, 1)
						sum++
					}
				}
			}
			flood()
		}
		return sum
	}
	money := Account{ID: "key:0", Limit: Limit{Budget: limit}}
	for _, account := range []Account{money, {"key:1", Limit{Budget: limit, Window: time.Hour}}, {"key:2", Limit{Tokens: limit}}, {"key:3", Limit{Tokens: limit, Budget: 1e6}}} {
		if sum := spend(account); sum != limit {
			t.Errorf("%s: %d of %d was admitted", account.ID, sum, limit)
		}
		if account.Limit.Window > 0 {
			c.add(2 * time.Hour)
			if sum := spend(account); sum != limit {
				t.Errorf("%s: %d of %d was admitted in the next window", account.ID, sum, limit)
			}
		}
	}
	if strings.Contains(cli(t, s, "INFO", "stats"), "evicted_keys:0\r") {
		t.Error("no key was evicted")
	}
	rest := Account{ID: "key:rest", Limit: Limit{Budget: limit}}
	settle(reserve(t, nodes[0], Request{ID: "a", Org: "o", Accounts: []Account{rest}, Cost: 50}), 0, 50)
	open := reserve(t, nodes[1], Request{ID: "b", Org: "o", Accounts: []Account{rest}, Cost: 50})
	cli(t, s, "CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
	c.add(time.Minute)
	eventually(t, "all nodes share the limits again", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { x := n.Snapshot(); return x.Evicts || x.Lost || x.Outages == 0 })
	})
	if sum := spendAll(t, nodes, rest, 10); sum != limit-100 {
		t.Errorf("%d was spent of the %d that were left", sum, limit-100)
	}
	settle(open, 0, 50)
	nodes[1].settled(t)
	checkCount(t, nodes[0], rest.ID, Count{Spent: limit})
}

// TestRefusedRecordExpires lets a record expire whose requests are all refused. A refusal does not renew a record, so
// its end is no loss of data.
func TestRefusedRecordExpires(t *testing.T) {
	s := storetest.Redis(t)
	n := redisNode(t, s, Options{HotRate: -1}, patient)
	account := Account{ID: "key:k", Limit: Limit{Tokens: 10, Budget: 1000}}
	refused := func() {
		if _, refusal := n.Reserve(t.Context(), Request{ID: "a", Org: "o", Accounts: []Account{account}, Tokens: 11}); refusal == nil || refusal.Reason != Tokens {
			t.Fatalf("%+v, want a refusal by the tokens", refusal)
		}
	}
	for range 2 {
		refused()
		cli(t, s, "DEL", script.Key("o", "a:", account.ID))
		refused()
	}
	if x := n.Snapshot(); x.Outages > 0 {
		t.Errorf("%d losses of data were noticed:\n%s", x.Outages, n.log)
	}
}
