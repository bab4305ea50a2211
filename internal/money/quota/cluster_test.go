package quota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// orgsByServer returns an organisation for each server of a cluster, by its address.
func orgsByServer(t *testing.T, n *node) map[string]string {
	t.Helper()
	r := n.back.(*redisBackend)
	found := map[string]string{}
	for i := range 1000 {
		org := fmt.Sprintf("o%d", i)
		if at := r.serverOf(org).server.Addr; found[at] == "" {
			found[at] = org
		}
	}
	return found
}

// spendBudget reserves and settles on all nodes in turn until every node refuses, and returns the sum. A refusal
// counts only if the node has not lost the organisation's server. spendBudget ends when all nodes have refused
// three times in a row, each time after Redis has confirmed all settlements.
func spendBudget(t *testing.T, nodes []*node, org string, account Account, step usage.Money) (sum usage.Money) {
	t.Helper()
	rounds := 0
	eventually(t, "the rest of the budget is spent", func() bool {
		refused := true
		for _, n := range nodes {
			spent := spendPart(n, org, account, step)
			sum += spent
			refused = refused && spent == 0 && !n.back.(*redisBackend).serverOf(org).lost.Load()
		}
		for _, n := range nodes {
			n.settled(t)
		}
		if rounds++; !refused {
			rounds = 0
		}
		return rounds == 3
	})
	return sum
}

// spendPart reserves and settles on one node until it refuses, and returns the sum.
func spendPart(n *node, org string, account Account, step usage.Money) (sum usage.Money) {
	for i := 0; ; i++ {
		h, refusal := n.Reserve(context.Background(), Request{ID: fmt.Sprint(org, account.ID, i, time.Now().UnixNano()), Org: org, Accounts: []Account{account}, Cost: step})
		if refusal != nil {
			return sum
		}
		settle(h, 0, step)
		sum += step
	}
}

// lostServers returns the addresses of the servers that a node has lost.
func lostServers(n *node) (lost []string) {
	for _, s := range n.back.(*redisBackend).servers.Load().all {
		if s.lost.Load() {
			lost = append(lost, s.server.Addr)
		}
	}
	return lost
}

// TestClusterShardDies gives three nodes one address of a cluster with three masters and kills another
// master. Budgets on the other masters stay shared and exact. The nodes use their shares of the budgets on
// the dead one, and together not more than the budget.
func TestClusterShardDies(t *testing.T) {
	const budget, step = 30000, 100
	cluster := storetest.RedisCluster(t, 3, 0)
	nodes := redisNodes(t, cluster[0], 3, Options{HotRate: -1}, 500*time.Millisecond)
	orgs := orgsByServer(t, nodes[0])
	if len(orgs) != 3 {
		t.Fatalf("the organisations are on %d servers", len(orgs))
	}
	accountOf := func(org string) Account { return Account{ID: "key:" + org, Limit: Limit{Budget: budget}} }
	spent := map[string]usage.Money{}
	for at, org := range orgs {
		account := accountOf(org)
		for i := range 90 {
			settle(reserve(t, nodes[i%3], Request{ID: fmt.Sprint(org, i), Org: org, Accounts: []Account{account}, Cost: step}), 0, step)
			spent[at] += step
		}
	}
	for _, n := range nodes {
		n.settled(t)
	}
	dead := cluster[1]
	dead.Kill()
	eventually(t, "all nodes have lost the dead server, and no other", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return !slices.Equal(lostServers(n), []string{dead.Addr}) })
	})
	for at, org := range orgs {
		if at == dead.Addr {
			continue
		}
		account := accountOf(org)
		if sum := spent[at] + spendBudget(t, nodes, org, account, step); sum != budget {
			t.Errorf("%d of %d was spent on a server that lives", sum, budget)
		}
		if c, err := nodes[0].Count(t.Context(), org, account.ID); err != nil || c.Spent > budget {
			t.Errorf("%+v, %v", c, err)
		}
	}
	lost := orgs[dead.Addr]
	for grown := 0; grown < 2; grown++ { // the share grows for ten seconds
		before := spent[dead.Addr]
		eventually(t, "a part of the budget on the dead server is spent", func() bool {
			for _, n := range nodes {
				spent[dead.Addr] += spendPart(n, lost, accountOf(lost), step)
			}
			return spent[dead.Addr] > before
		})
		for _, n := range nodes { // the test moves the outage's start instead of waiting
			n.back.(*redisBackend).serverOf(lost).shareSince.Add(-10 * second)
		}
	}
	if s := spent[dead.Addr]; s > budget {
		t.Errorf("%d of %d was spent on the dead server", s, budget)
	}
	eventually(t, "no other server is lost", func() bool { return slices.Equal(lostServers(nodes[0]), []string{dead.Addr}) })
	if err := dead.Start(); err != nil { // empty
		t.Fatal(err)
	}
	eventually(t, "all nodes use the server again", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return len(lostServers(n)) > 0 })
	})
	if sum := spent[dead.Addr] + spendBudget(t, nodes, lost, accountOf(lost), step); sum != budget {
		t.Errorf("%d of %d was spent after the server was back", sum, budget)
	}
}

// TestClusterFailover kills a master that has a replica. The nodes follow the replica, treat it as another
// server and spend not more than the budget.
func TestClusterFailover(t *testing.T) {
	const budget, step = 20000, 100
	cluster := storetest.RedisCluster(t, 3, 1)
	nodes := redisNodes(t, cluster[0], 2, Options{HotRate: -1}, 500*time.Millisecond)
	dead := cluster[1]
	org := orgsByServer(t, nodes[0])[dead.Addr]
	account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
	open := reserve(t, nodes[1], Request{ID: "open", Org: org, Accounts: []Account{account}, Cost: 1000})
	for i := range 50 {
		settle(reserve(t, nodes[i%2], Request{ID: fmt.Sprint(i), Org: org, Accounts: []Account{account}, Cost: step}), 0, step)
	}
	dead.Kill()
	eventually(t, "all nodes use the replica", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool {
			s := n.back.(*redisBackend).serverOf(org)
			return s.server.Addr == dead.Addr || s.lost.Load()
		})
	})
	if sum := spendBudget(t, nodes, org, account, step); sum != budget-50*step-1000 {
		t.Errorf("%d was spent of the %d that were left", sum, budget-50*step-1000)
	}
	settle(open, 0, 1000)
	for _, n := range nodes {
		n.settled(t)
	}
	if c, err := nodes[0].Count(t.Context(), org, account.ID); err != nil || c.Spent != budget || c.Open != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestClusterSlotsMove moves the slot of an organisation to another master while a request is open. The
// nodes follow it, and what was spent and reserved is still counted.
func TestClusterSlotsMove(t *testing.T) {
	const budget, step = 20000, 100
	cluster := storetest.RedisCluster(t, 3, 0)
	nodes := redisNodes(t, cluster[0], 2, Options{HotRate: -1}, 500*time.Millisecond)
	from, to := cluster[1], cluster[2]
	org := orgsByServer(t, nodes[0])[from.Addr]
	account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
	open := reserve(t, nodes[1], Request{ID: "open", Org: org, Accounts: []Account{account}, Cost: 1000})
	for i := range 50 {
		settle(reserve(t, nodes[i%2], Request{ID: fmt.Sprint(i), Org: org, Accounts: []Account{account}, Cost: step}), 0, step)
	}
	for _, n := range nodes {
		n.settled(t)
	}
	slot := cli(t, to, "CLUSTER", "KEYSLOT", script.Key(org, "", ""))
	idFrom, idTo := cli(t, from, "CLUSTER", "MYID"), cli(t, to, "CLUSTER", "MYID")
	cli(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", idFrom)
	cli(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", idTo)
	moveKeys(t, from, to, slot)
	for _, s := range cluster {
		cli(t, s, "CLUSTER", "SETSLOT", slot, "NODE", idTo)
	}
	eventually(t, "all nodes follow, and the open request is counted there", func() bool {
		if slices.ContainsFunc(nodes, func(n *node) bool { return n.back.(*redisBackend).serverOf(org).server.Addr != to.Addr }) {
			return false
		}
		settle(reserve(t, nodes[0], Request{ID: fmt.Sprint(time.Now().UnixNano()), Org: org, Accounts: []Account{account}}), 0, 0)
		c, err := nodes[0].Count(t.Context(), org, account.ID)
		return err == nil && c.Reserved == 1000 && c.Spent == 50*step
	})
	if sum := spendBudget(t, nodes, org, account, step); sum != budget-50*step-1000 {
		t.Errorf("%d was spent of the %d that were left", sum, budget-50*step-1000)
	}
	settle(open, 0, 1000)
	for _, n := range nodes {
		n.settled(t)
		if lost := lostServers(n); len(lost) > 0 {
			t.Errorf("%v are lost", lost)
		}
	}
}

// cli runs a command on a server and returns the reply.
func cli(t *testing.T, s *storetest.Server, args ...string) string {
	t.Helper()
	out, err := storetest.RedisCLI(s.Addr, args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// moveKeys moves the keys of a slot.
func moveKeys(t *testing.T, from, to *storetest.Server, slot string) {
	t.Helper()
	host, port, _ := strings.Cut(to.Addr, ":")
	for {
		keys := strings.Fields(cli(t, from, "CLUSTER", "GETKEYSINSLOT", slot, "100"))
		if len(keys) == 0 {
			return
		}
		cli(t, from, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
	}
}

// TestSentinelFailover kills, or freezes, the master that Sentinels watch. The nodes find the new one, treat
// it as another server and spend not more than the budget.
func TestSentinelFailover(t *testing.T) {
	const budget, step = 20000, 100
	for name, lose := range map[string]func(*storetest.Server){"killed": (*storetest.Server).Kill, "frozen": (*storetest.Server).Freeze} {
		t.Run(name, func(t *testing.T) {
			master, replica := storetest.Redis(t), storetest.Redis(t)
			sentinels := storetest.Sentinels(t, master, replica, 3)
			nodes := redisNodes(t, sentinels, 2, Options{HotRate: -1}, 500*time.Millisecond)
			account := Account{ID: "key:k", Limit: Limit{Budget: budget}}
			open := reserve(t, nodes[1], Request{ID: "open", Org: "o", Accounts: []Account{account}, Cost: 1000})
			for i := range 50 {
				settle(reserve(t, nodes[i%2], Request{ID: fmt.Sprint(i), Org: "o", Accounts: []Account{account}, Cost: step}), 0, step)
			}
			began := time.Now()
			lose(master)
			eventually(t, "all nodes use the replica", func() bool {
				return !slices.ContainsFunc(nodes, func(n *node) bool {
					s := n.back.(*redisBackend).serverOf("o")
					return s.server.Addr != replica.Addr || s.lost.Load()
				})
			})
			t.Logf("the nodes use the new master after %v", time.Since(began))
			if sum := spendBudget(t, nodes, "o", account, step); sum != budget-50*step-1000 {
				t.Errorf("%d was spent of the %d that were left", sum, budget-50*step-1000)
			}
			settle(open, 0, 1000)
			for _, n := range nodes {
				n.settled(t)
			}
			if c, err := nodes[0].Count(t.Context(), "o", account.ID); err != nil || c.Spent != budget || c.Open != 0 {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}
