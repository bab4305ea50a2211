package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// shop simulates a server with a number of workers. A request that finds no free worker
// waits in order of arrival, before its first token. Open requests do not slow each other
// down: a first token is late because the request waited, or because of slow.
type shop struct {
	first, rest time.Duration // average service times
	spread      float64       // standard deviation of the logarithm of first
	workers     func(at time.Duration) int
	slow        func(at time.Duration) float64 // factor on first by time; nil: 1

	sim     *simulation
	busy    int
	waiting []func() // called when a request gets a worker
}

// could returns how many requests a second the server can serve, at a point in time.
func (s *shop) could(at time.Duration) float64 {
	return float64(s.workers(at)) / (s.first.Seconds()*s.slowness(at) + s.rest.Seconds())
}

func (s *shop) slowness(at time.Duration) float64 {
	if s.slow == nil {
		return 1
	}
	return s.slow(at)
}

// enter runs serve when a worker is free.
func (s *shop) enter(serve func()) {
	if s.busy >= s.workers(s.sim.now()) {
		s.waiting = append(s.waiting, serve)
		return
	}
	s.busy++
	serve()
}

// leave frees a worker.
func (s *shop) leave() {
	s.busy--
	for s.busy < s.workers(s.sim.now()) && len(s.waiting) > 0 {
		serve := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.busy++
		serve()
	}
}

// customers is the load that one gateway sends.
type customers struct {
	rate  float64
	from  time.Duration
	atEnd bool // the first token is reported when the response has ended
}

// visit is the result of a run: for each gateway its served requests and its limit, by
// second.
type visit struct {
	served, limits [][]int
}

func (s *shop) run(t *testing.T, seconds int, gateways ...customers) (v visit) {
	t.Helper()
	simulate(t, func(sim *simulation) {
		s.sim = sim
		for i, c := range gateways {
			l := New()
			l.Use(Config{Requests: -1, Queue: 40, Wait: time.Second, Adaptive: true, Memory: -1})
			g := &customer{customers: c, shop: s, target: l.Target("shop", 0), random: rand.New(rand.NewPCG(0, uint64(i))),
				served: make([]int, seconds+1), limits: make([]int, seconds)}
			v.served, v.limits = append(v.served, g.served), append(v.limits, g.limits)
			sim.after(c.from, g.send)
		}
	})
	return v
}

// customer is one gateway of a run.
type customer struct {
	customers
	shop           *shop
	target         *Target
	random         *rand.Rand
	served, limits []int // by second
}

// send sends one request, records the limit and schedules the next request.
func (g *customer) send() {
	s, second := g.shop, int(g.shop.sim.now()/time.Second)
	if second >= len(g.limits) {
		return
	}
	g.limits[second] = g.target.gate.state().Limit
	first := float64(s.first) * math.Exp(s.spread*g.random.NormFloat64()-s.spread*s.spread/2)
	rest := time.Duration(float64(s.rest) * (0.5 + g.random.Float64()))
	next := time.Duration(g.random.ExpFloat64() / g.rate * float64(time.Second))
	s.sim.enter(func() (Permit, *Refusal) {
		return g.target.Enter(context.Background(), Caller{Class: Normal})
	}, func(slot Permit, refusal *Refusal) {
		if refusal == nil {
			g.serve(slot, first, rest)
		}
	})
	s.sim.after(next, g.send)
}

// serve runs one request that has a slot.
func (g *customer) serve(slot Permit, first float64, rest time.Duration) {
	sim, sent := g.shop.sim, g.shop.sim.now()
	g.shop.enter(func() {
		sim.after(time.Duration(first*g.shop.slowness(sim.now())), func() {
			took := sim.now() - sent
			if !g.atEnd {
				slot.FirstToken(took)
			}
			sim.after(rest, func() {
				if g.atEnd {
					slot.FirstToken(took)
				}
				g.served[min(int(sim.now()/time.Second), len(g.served)-1)]++
				g.shop.leave()
				slot.Release()
			})
		})
	})
}

// over returns the requests a second that a gateway had served between two seconds.
func (v visit) over(gateway, from, to int) float64 {
	n := 0
	for _, s := range v.served[gateway][from:to] {
		n += s
	}
	return float64(n) / float64(to-from)
}
