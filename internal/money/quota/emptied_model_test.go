package quota

import (
	"testing"
)

// world is a state of the model: two nodes that share the budget of an account in a Redis that is emptied. A step is one
// script, or what a node does between two of them. A request takes one unit of the budget and is open until it is settled.
type world struct {
	nodes             [2]modelNode
	born              int8    // of the data in Redis
	members           [2]bool // the set of nodes
	over              bool    // no node waits for others any more
	seeded            bool    // the account has a record with a sum
	seededAt          int8    // time of the seed
	confirmed         bool    // a node has checked the data after the seed
	now               int8    // counts seeds and checks
	leases, logs      [2]int8
	flushes, requests int8 // how often they may still happen
	crashes           int8
}

type modelNode struct {
	crashed, lost bool
	replaced      bool // Redis was emptied in this outage
	at            int8 // step of a recovery, or of a seed
	known         int8 // data that the node knows
	open, spent   int8
	sent          int8 // data that the node knew when it sent a reservation that Redis has made; 0: none is in flight
	made          int8 // data in which Redis has made it
	checked       int8 // time at which Redis still had the known data
}

// Steps of modelNode.at.
const (
	idle = iota
	toSeed
	checkSeed
	register
	join
)

// faults are mistakes that the model must find.
type faults struct {
	countsUnregistered bool // a heartbeat adds a node before it has registered its leases
	waitsForNobody     bool // the first node counts the set after it was emptied
	seedsUnchecked     bool // an account is seeded without a check of the data
	checksBefore       bool // the data are checked before the account is seeded
	admitsDoubtful     bool // a reply from before the loss is believed
}

const modelBudget = 2

// sum returns what Redis knows to be spent and reserved. The ledger has what a dead node has spent.
func (w *world) sum() (sum int8) {
	for i, n := range w.nodes {
		logs := w.logs[i]
		if n.crashed {
			logs = n.spent
		}
		sum += logs + w.leases[i]
	}
	return sum
}

// exceeded reports whether more than the budget is spent and reserved by nodes that live.
func (w *world) exceeded() bool {
	sum := int8(0)
	for _, n := range w.nodes {
		sum += n.spent
		if !n.crashed {
			sum += n.open
		}
	}
	return sum > modelBudget
}

// tick returns the time on the server, which never stands still.
func (w *world) tick() int8 {
	w.now++
	return w.now
}

// next calls visit with each state that follows.
func (w world) next(f faults, visit func(step string, to world)) {
	if w.flushes > 0 {
		to := w
		to.flushes--
		to.born++
		to.members, to.leases, to.logs, to.over, to.seeded, to.confirmed = [2]bool{}, [2]int8{}, [2]int8{}, false, false, false
		to.seededAt = 0
		visit("Redis is emptied", to)
	}
	for i := range w.nodes {
		if w.nodes[i].crashed {
			continue
		}
		name := string(rune('A' + i))
		step := func(what string, change func(w *world, n *modelNode)) {
			to := w
			change(&to, &to.nodes[i])
			visit(name+" "+what, to)
		}
		n := w.nodes[i]
		if w.crashes > 0 {
			step("crashes", func(w *world, n *modelNode) { n.crashed, n.open, n.sent = true, 0, 0; w.crashes-- })
		}
		if n.open > 0 {
			step("settles", func(w *world, n *modelNode) {
				n.open--
				n.spent++
				if !n.lost {
					w.logs[i], w.leases[i] = n.spent, max(0, w.leases[i]-1)
				}
			})
		}
		if n.sent != 0 {
			step("gets a reply", func(w *world, n *modelNode) {
				if n.sent == n.known || f.admitsDoubtful {
					n.open++
				} else if n.made == w.born { // the undo finds the mark
					w.leases[i] = max(0, w.leases[i]-1)
				}
				n.sent, n.made = 0, 0
			})
		}
		if n.lost {
			w.recovery(f, i, step)
			continue
		}
		check := func(w *world, n *modelNode) {
			if n.known == w.born || f.countsUnregistered {
				w.members[i] = true
			}
			if n.lost = n.known != w.born; n.lost {
				n.at = idle
			} else {
				n.checked = w.tick()
			}
		}
		if n.checked < w.seededAt { // another check would change nothing
			step("sends a heartbeat", check)
		} else if n.known != w.born {
			step("sends a heartbeat", check)
		}
		trusted := w.seeded && (w.confirmed || n.checked > w.seededAt || f.seedsUnchecked || f.checksBefore)
		switch {
		case n.at == checkSeed:
			step("checks the data", func(w *world, n *modelNode) {
				n.at = idle
				if f.checksBefore {
					n.at = toSeed
				}
				check(w, n)
			})
		case n.at == toSeed:
			step("seeds the account", func(w *world, n *modelNode) {
				n.at = checkSeed
				if f.seedsUnchecked || f.checksBefore {
					n.at = idle
				}
				if !w.seeded {
					w.seeded, w.confirmed, w.seededAt = true, false, w.tick()
				}
			})
		case n.sent == 0 && w.requests > 0 && !trusted:
			step("finds no record", func(_ *world, n *modelNode) {
				n.at = toSeed
				if f.checksBefore {
					n.at = checkSeed
				}
			})
		case n.sent == 0 && w.requests > 0 && w.sum() < modelBudget:
			step("reserves", func(w *world, n *modelNode) {
				w.leases[i]++
				w.requests--
				w.confirmed, n.sent, n.made = true, n.known, w.born
			})
		}
	}
}

// recovery has the steps that end an outage.
func (w *world) recovery(f faults, i int, step func(string, func(*world, *modelNode))) {
	switch n := w.nodes[i]; n.at {
	case register:
		step("registers its lease", func(w *world, n *modelNode) { w.leases[i], w.logs[i], n.at = n.open, n.spent, join })
	case join:
		step("joins", func(w *world, n *modelNode) {
			if n.known != w.born {
				n.at = idle
				return
			}
			w.members[i] = true
			other := w.nodes[1-i]
			gone := other.crashed // the time to wait is over only for a node that is gone
			if n.replaced && !w.over && !w.members[1-i] && !gone && !f.waitsForNobody {
				return
			}
			w.over, n.lost, n.replaced, n.at, n.checked = true, false, false, idle, w.tick()
		})
	default:
		step("reads when the data were born", func(w *world, n *modelNode) {
			n.replaced = n.replaced || n.known != w.born
			n.known, n.at, n.checked = w.born, register, 0
		})
	}
}

// explore visits every state that can be reached, and returns their number and the steps to the first in which the budget is exceeded.
func explore(f faults) (states int, history []string) {
	type from struct {
		before world
		step   string
	}
	start := world{born: 1, flushes: 2, requests: 3, crashes: 1, over: true, members: [2]bool{true, true}}
	for i := range start.nodes {
		start.nodes[i].known = 1
	}
	seen, queue := map[world]from{start: {}}, []world{start}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		if w.exceeded() {
			for ; w != start; w = seen[w].before {
				history = append([]string{seen[w].step}, history...)
			}
			return len(seen), history
		}
		w.next(f, func(step string, to world) {
			if _, ok := seen[to]; !ok {
				seen[to] = from{w, step}
				queue = append(queue, to)
			}
		})
	}
	return len(seen), nil
}

// TestModelOfLostData visits all interleavings of two nodes, two losses of data and a crash. No budget is exceeded. Each
// of the mistakes that the protocol avoids is found.
func TestModelOfLostData(t *testing.T) {
	states, history := explore(faults{})
	t.Logf("%d states", states)
	if history != nil {
		t.Errorf("the budget is exceeded after %q", history)
	}
	for name, f := range map[string]faults{
		"counts unregistered": {countsUnregistered: true}, "waits for nobody": {waitsForNobody: true},
		"seeds unchecked": {seedsUnchecked: true}, "checks before": {checksBefore: true}, "admits doubtful": {admitsDoubtful: true},
	} {
		states, history := explore(f)
		if history == nil {
			t.Errorf("%s: no history exceeds the budget, of %d states", name, states)
		}
		t.Logf("%s: %d states, %q", name, states, history)
	}
}
