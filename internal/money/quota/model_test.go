package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// model specifies a Limiter without windows, nodes and queues.
type model struct {
	limits   map[string]Limit
	open     map[string]map[string]Request // by account, by request
	spent    map[string]usage.Money
	requests map[string]int64
	tokens   map[string]int64
	charged  map[string]bool
}

func newModel() *model {
	return &model{map[string]Limit{}, map[string]map[string]Request{}, map[string]usage.Money{}, map[string]int64{}, map[string]int64{}, map[string]bool{}}
}

// refuses returns the reasons for which a request may be refused.
func (m *model) refuses(a Request) map[Reason]bool {
	why := map[Reason]bool{}
	for _, of := range a.Accounts {
		reserved := usage.Money(0)
		for _, o := range m.open[of.ID] {
			reserved += o.Cost
		}
		l := of.Limit
		why[Requests] = why[Requests] || l.Requests > 0 && m.requests[of.ID]+1 > l.Requests
		why[Tokens] = why[Tokens] || l.Tokens > 0 && a.Tokens > 0 && m.tokens[of.ID]+a.Tokens > l.Tokens
		why[Concurrency] = why[Concurrency] || l.Concurrency > 0 && int64(len(m.open[of.ID]))+1 > l.Concurrency
		why[Budget] = why[Budget] || l.Budget > 0 && a.Cost > 0 && m.spent[of.ID]+reserved+a.Cost > l.Budget
	}
	for r, is := range why {
		if !is {
			delete(why, r)
		}
	}
	return why
}

func (m *model) reserve(a Request) {
	for _, of := range a.Accounts {
		if m.open[of.ID] == nil {
			m.open[of.ID] = map[string]Request{}
		}
		m.open[of.ID][a.ID] = a
		m.requests[of.ID]++
		m.tokens[of.ID] += a.Tokens
	}
}

func (m *model) settle(a Request, tokens int64, cost usage.Money) {
	for _, of := range a.Accounts {
		delete(m.open[of.ID], a.ID)
		m.tokens[of.ID] += tokens - a.Tokens
		m.spent[of.ID] += cost
	}
	m.charged[a.ID] = true
}

// die drops an open request of a dead node, whose lease has expired.
func (m *model) die(a Request) {
	for _, of := range a.Accounts {
		delete(m.open[of.ID], a.ID)
	}
}

func (m *model) charge(a Request, cost usage.Money) {
	if m.charged[a.ID] {
		return
	}
	m.charged[a.ID] = true
	for _, of := range a.Accounts {
		m.spent[of.ID] += cost
	}
}

// TestModel compares random reservations, settlements, charges and deaths of nodes with the model. With
// Redis they go through several nodes.
func TestModel(t *testing.T) {
	s := storetest.Redis(t)
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("memory/", seed), func(t *testing.T) {
			compare(t, []*node{start(t, newMemory(Options{Clock: newClock().now}), nil)}, seed, nil)
		})
		t.Run(fmt.Sprint("redis/", seed), func(t *testing.T) {
			another := func() *node { return redisNode(t, s, Options{HotRate: -1}, patient) }
			compare(t, []*node{another(), another(), another()}, seed, another)
		})
	}
}

func compare(t *testing.T, nodes []*node, seed uint64, another func() *node) {
	random := rand.New(rand.NewPCG(seed, 7))
	org := fmt.Sprint("o", seed)
	// Rate limits are tested in memory only: the test does not control Redis' clock.
	_, still := nodes[0].back.(*memory)
	limit := func(scale int64) Limit {
		l := Limit{Concurrency: 3 * scale, Budget: usage.Money(800 * scale)}
		if still {
			l.Requests, l.Tokens = 25*scale, 4000*scale
		}
		return l
	}
	keys := []Account{{"key:" + org + "/1", limit(1)}, {"key:" + org + "/2", limit(2)}}
	team := Account{"team:" + org + "/t", limit(2)}
	m, open := newModel(), map[string]Hold{}
	asks, at := map[string]Request{}, map[string]*node{}
	lost := newLog("lost " + org)
	for i := range 300 {
		which := random.IntN(len(nodes))
		n := nodes[which]
		what := random.IntN(5)
		if another != nil && i%75 == 74 {
			what = 5
		}
		switch what {
		case 0, 1, 2:
			a := Request{ID: fmt.Sprint(org, "-", i), Org: org, Accounts: []Account{keys[random.IntN(2)], team}, Tokens: random.Int64N(200), Cost: usage.Money(random.Int64N(60))}
			h, refusal := n.Reserve(context.Background(), a)
			why := m.refuses(a)
			if refusal == nil && len(why) > 0 || refusal != nil && !why[refusal.Reason] {
				t.Fatalf("step %d: refused for %+v, the model says %v", i, refusal, why)
			}
			if refusal == nil {
				m.reserve(a)
				open[a.ID], asks[a.ID], at[a.ID] = h, a, n
			}
		case 3:
			for id, h := range open { // an arbitrary one
				a := asks[id]
				tokens, cost := random.Int64N(a.Tokens+1), usage.Money(random.Int64N(int64(a.Cost)+1))
				settle(h, tokens, cost)
				m.settle(a, tokens, cost)
				delete(open, id)
				break
			}
		case 4:
			a := Request{ID: fmt.Sprint(org, "-lost-", random.IntN(10)), Accounts: []Account{keys[0], team}}
			if m.requests[keys[0].ID] > 0 { // the account is seeded
				if !m.charged[a.ID] {
					n.charge(lost, org, a.Accounts, 3)
				}
				m.charge(a, 3)
			}
		case 5:
			n.stop()
			expire(t, n, org, append(keys[:2:2], team))
			nodes[which] = another()
			for id := range open {
				if at[id] != n {
					continue
				}
				delete(open, id)
				m.die(asks[id])
				if random.IntN(2) == 0 { // its ledger row was found
					nodes[which].charge(logOf(n.Limiter), org, asks[id].Accounts, asks[id].Cost/2)
					m.charge(asks[id], asks[id].Cost/2)
				}
			}
		}
		for _, n := range nodes {
			n.settled(t)
		}
	}
	t.Logf("%d were admitted, %v spent", len(asks), m.spent)
}

// expire sets the expiry of a node's leases to the past.
func expire(t *testing.T, n *node, org string, accounts []Account) {
	t.Helper()
	const text = `
local lease = redis.call('HGET', KEYS[2], ARGV[1])
if not lease then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], string.sub(lease, 1, 24) .. struct.pack('<d', 1))
local a = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], string.sub(a, 1, 56) .. struct.pack('<d', 1) .. string.sub(a, 65), 'KEEPTTL')
return 1`
	r := n.back.(*redisBackend)
	client := r.servers.Load().all[0].server.Conn()
	for _, of := range accounts {
		name := script.Key(org, "a:", of.ID)
		if err := client.Do(context.Background(), client.B().Eval().Script(text).Numkeys(2).Key(name, name+":n").Arg(r.node).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}
