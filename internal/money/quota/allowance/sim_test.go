package allowance

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

var update = flag.Bool("update", false, "write the table of docs/scale.md")

// server is the record of one account in Redis, with the ledger behind it. Its rules are those of the
// scripts; TestOneOrganisation of internal/money/quota runs the scripts.
type server struct {
	budget, spent, held usage.Money
	leases              map[int]*lease
	totals              map[int]usage.Money // by log
	calls               int
}

type lease struct {
	held usage.Money
	ends int64
}

const leaseTime = 45 * second

func (s *server) left() usage.Money { return s.budget - s.spent - s.held }

// take reserves an amount, at most a part of what is left.
func (s *server) take(now int64, node int, amount usage.Money, divisor int64) bool {
	s.calls++
	if amount*usage.Money(max(1, divisor)) > s.left() {
		return false
	}
	l := s.leases[node]
	if l == nil {
		l = &lease{}
		s.leases[node] = l
	}
	l.held, l.ends = l.held+amount, max(l.ends, now+leaseTime/2)
	s.held += amount
	return true
}

// report returns a part of a reservation and sets the total of a log.
func (s *server) report(node int, r Report) {
	s.calls++
	if l := s.leases[node]; l != nil {
		l.held -= r.Reserved
		s.held -= r.Reserved
	}
	if r.Total > s.totals[node] {
		s.spent += r.Total - s.totals[node]
		s.totals[node] = r.Total
	}
}

// expire ends leases. The ledger may know more spending of a dead node than the node has reported.
func (s *server) expire(now int64, ledger func(node int) usage.Money) {
	for node, l := range s.leases {
		if l.ends > now {
			continue
		}
		s.held -= l.held
		delete(s.leases, node)
		if sum := ledger(node); sum > s.totals[node] {
			s.spent += sum - s.totals[node]
			s.totals[node] = sum
		}
	}
}

// simNode is a node with the allowance of one account.
type simNode struct {
	id      int
	dead    bool
	a       Allowance
	left    usage.Money // as last known; -1: not known
	spent   usage.Money // in its log
	renewed int64
}

// open is a request that is open.
type open struct {
	node     *simNode
	cost     usage.Money
	direct   bool // reserved by a call of its own
	reserved usage.Money
}

// sim is a fleet that serves one organisation.
type sim struct {
	nodes  int
	rate   float64       // requests a second, of all nodes
	budget time.Duration // how long the budget lasts at the rate, if every request costs its average
	length time.Duration
	deaths int           // nodes that die after a third of the time
	delay  time.Duration // of the ledger
	direct bool          // each request has a call of its own, for comparison
}

// simResult is what a simulation has measured. Money is relative to the budget.
type simResult struct {
	spent     float64 // at the end
	most      float64 // of all times
	early     float64 // free in allowances of other nodes, when a request was refused
	unused    float64 // not spent at the end
	busy      float64 // calls a second in the middle third
	exhausted float64 // calls a second in the last third
	held      float64 // reserved by the dead nodes when they died
}

const (
	step     = 10
	simCost  = 10 // reserved by a request; it spends 1 to 4
	meanCost = 2.5
)

func (f sim) run() (out simResult) {
	random := rand.New(rand.NewPCG(3, uint64(f.nodes)))
	budget := usage.Money(f.rate * f.budget.Seconds() * meanCost)
	s := &server{budget: budget, leases: map[int]*lease{}, totals: map[int]usage.Money{}}
	nodes := make([]*simNode, f.nodes)
	for i := range nodes {
		nodes[i] = &simNode{id: i, left: -1}
	}
	late := newHistory(f.delay)
	ending := map[int64][]open{}
	spent, refused, thirds := usage.Money(0), false, [2]int{}
	end := f.length.Milliseconds()
	for now := int64(1_000_000); now < 1_000_000+end; now += step {
		passed := now - 1_000_000
		if passed >= end/3 && passed < end/3+step {
			for i := range f.deaths {
				nodes[i].dead = true
				if l := s.leases[i]; l != nil {
					out.held += float64(l.held) / float64(budget)
				}
			}
		}
		for _, o := range ending[now] {
			if !o.node.dead {
				o.node.settle(s, o)
				spent += o.cost
			}
		}
		delete(ending, now)
		late.add(now, nodes)
		s.expire(now, func(node int) usage.Money { return late.at(now, node) })
		out.most = max(out.most, float64(spent)/float64(budget))
		for n := poisson(random, f.rate*step/second); n > 0; n-- {
			node := nodes[random.IntN(f.nodes)]
			if node.dead { // the load balancer sends it to another node
				node = nodes[f.deaths+random.IntN(f.nodes-f.deaths)]
			}
			o, ok := node.reserve(s, now, int64(f.nodes), f.direct)
			if ok {
				o.cost = 1 + usage.Money(random.IntN(4))
				at := now + step*(1+random.Int64N(100)) // up to a second
				ending[at] = append(ending[at], o)
				continue
			}
			if !refused {
				refused = true
				out.early = float64(freeOf(nodes)-node.a.Free()) / float64(budget)
			}
		}
		for _, node := range nodes {
			node.tick(s, now, int64(f.nodes))
		}
		switch passed {
		case end / 3 / step * step:
			thirds[0] = s.calls
		case end * 2 / 3 / step * step:
			thirds[1] = s.calls
		}
	}
	out.spent = float64(spent) / float64(budget)
	out.unused = 1 - out.spent
	out.busy = float64(thirds[1]-thirds[0]) * second / float64(end/3)
	out.exhausted = float64(s.calls-thirds[1]) * second / float64(end/3)
	return out
}

// freeOf returns what is free in the allowances of living nodes.
func freeOf(nodes []*simNode) (sum usage.Money) {
	for _, n := range nodes {
		if !n.dead {
			sum += n.a.Free()
		}
	}
	return sum
}

// reserve makes the same calls, in the same order, as reserveWithAllowances of internal/money/quota.
func (n *simNode) reserve(s *server, now, nodes int64, direct bool) (open, bool) {
	if !direct && n.a.Count(now, simCost) && n.left >= 0 {
		if want := n.a.Refill(now, simCost, n.left, nodes); want > 0 {
			if s.take(now, n.id, want, fraction*nodes) {
				n.a.Grant(now, want, now+leaseTime/2)
				n.left = s.left()
			} else {
				n.a.Fail(now, nodes)
			}
		}
	}
	switch {
	case n.a.Take(now, simCost):
		return open{node: n, reserved: simCost}, true
	case n.a.Refused(now, simCost):
		return open{}, false
	}
	ok := s.take(now, n.id, simCost, 0)
	n.left = s.left()
	if !ok && n.a.IsHot() {
		n.a.Refuse(now, simCost, nodes)
	}
	return open{node: n, reserved: simCost, direct: true}, ok
}

// settle ends a request.
func (n *simNode) settle(s *server, o open) {
	n.spent += o.cost
	if !o.direct {
		n.a.Settle(o.reserved, o.cost, n.spent, time.Time{})
		return
	}
	if owed, _ := n.a.Owed(); owed > 0 {
		s.report(n.id, n.a.Spent())
	}
	s.report(n.id, Report{o.reserved, n.spent})
	n.left = s.left()
}

// tick reports and renews.
func (n *simNode) tick(s *server, now, nodes int64) {
	if n.dead {
		return
	}
	if r, due := n.a.Report(now, max(0, n.left), nodes); due {
		s.report(n.id, r)
		n.left = s.left()
	}
	if l := s.leases[n.id]; l != nil && now-n.renewed >= leaseTime/3 {
		s.calls++
		n.renewed, l.ends = now, now+leaseTime
		n.a.Renew(now + leaseTime/2)
	}
}

// history is the spending of each log that the ledger knows, which is late by a delay.
type history struct {
	delay int64
	times []int64
	sums  [][]usage.Money
}

func newHistory(delay time.Duration) *history { return &history{delay: delay.Milliseconds()} }

// add notes the spending of all logs, once a second.
func (h *history) add(now int64, nodes []*simNode) {
	if now%second != 0 {
		return
	}
	sums := make([]usage.Money, len(nodes))
	for i, n := range nodes {
		sums[i] = n.spent
	}
	h.times, h.sums = append(h.times, now), append(h.sums, sums)
}

// at returns the spending of a log that the ledger has.
func (h *history) at(now int64, node int) usage.Money {
	i, _ := slices.BinarySearch(h.times, now-h.delay+1)
	if i == 0 {
		return 0
	}
	return h.sums[i-1][node]
}

func poisson(random *rand.Rand, mean float64) int { return max(0, int(mean+0.5+random.NormFloat64())) }

// TestBudgetSimulation runs one organisation with 100,000 requests a second on fleets of different sizes
// until its budget is exhausted. It checks the bounds of docs/scale.md.
func TestBudgetSimulation(t *testing.T) {
	var table bytes.Buffer
	table.WriteString("| nodes | calls of Redis a second | calls a request | calls a second when nothing is left | spent above the budget | free on other nodes at the first refusal | not spent 9 s later | with a call for each request |\n|---|---|---|---|---|---|---|---|\n")
	for _, n := range []int{10, 100, 1000, 10000} {
		const rate = 100_000
		f := sim{nodes: n, rate: rate, budget: 6 * time.Second, length: 18 * time.Second}
		o := f.run()
		f.direct = true
		exact := f.run()
		steady := sim{nodes: n, rate: rate, budget: time.Hour, length: 9 * time.Second}.run()
		fmt.Fprintf(&table, "| %d | %.0f | %.4f | %.0f | %.1f %% | %.2f %% | %.3f %% | %.3f %% |\n", n, steady.busy, steady.busy/rate, o.exhausted, max(0, o.most-1)*100, o.early*100, o.unused*100, exact.unused*100)
		if o.most > 1 {
			t.Errorf("%d nodes have spent %.4f of the budget", n, o.most)
		}
		if o.early > 1.0/fraction {
			t.Errorf("%d nodes: at the first refusal %.3f of the budget were free on other nodes", n, o.early)
		}
		if o.unused > exact.unused+0.01 {
			t.Errorf("%d nodes: %.4f of the budget are not spent; with a call for each request it is %.4f", n, o.unused, exact.unused)
		}
		if steady.busy > maxCalls || o.exhausted > 3*maxCalls {
			t.Errorf("%d nodes: %.0f calls a second, %.0f when nothing is left", n, steady.busy, o.exhausted)
		}
	}
	section(t, table.String())
}

// maxCalls is what all nodes together call a second for one account, whatever their number.
const maxCalls = 4000

// TestDeadNodesSimulation lets a tenth of the nodes die with their allowances. Their leases end after 45 s.
func TestDeadNodesSimulation(t *testing.T) {
	f := sim{nodes: 100, rate: 20_000, budget: 50 * time.Second, length: 90 * time.Second, deaths: 10, delay: 5 * time.Second}
	o := f.run()
	if o.most > 1 || o.unused > 0.01 {
		t.Errorf("with a ledger that is 5 s late, %.5f of the budget were spent; %.4f are left", o.most, o.unused)
	}
	f.delay = time.Hour // the ledger does not know the last second of the dead nodes
	blind := f.run()
	if blind.most > 1+blind.held || blind.most <= 1 {
		t.Errorf("with a ledger that is an hour late, %.5f of the budget were spent; the dead nodes had %.5f", blind.most, blind.held)
	}
	t.Logf("5 s late: %.5f spent; an hour late: %.5f spent, the dead nodes had %.5f", o.most, blind.most, blind.held)
}

// section compares a table with docs/scale.md, or writes it.
func section(t *testing.T, table string) {
	t.Helper()
	const path, begin, end = "../../../../docs/scale.md", "<!-- budgets: go test ./internal/money/quota/allowance -update -->\n", "<!-- end of budgets -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Errorf("%s has no place for budgets", path)
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+table+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case have != table:
		t.Errorf("the table of budgets in %s is not what the simulation gives; run go test ./internal/money/quota/allowance -update", path)
	}
}
