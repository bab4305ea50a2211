package limit

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shop is a server with so many workers. Who finds none waits for one in order of
// arrival, before the first token. Nothing gets slower by being open: what comes
// late came late because it waited, or because the server has a slow day.
type shop struct {
	first, rest time.Duration // of service, on average
	spread      float64       // standard deviation of the logarithm of first
	workers     func(at time.Duration) int
	slow        func(at time.Duration) float64 // how many times longer first takes; nil means once

	start time.Time
	mu    *sync.Mutex
	busy  int
	line  []chan struct{}
}

// could is how many a second it can serve.
func (s *shop) could(at time.Duration) float64 {
	return float64(s.workers(at)) / (s.first.Seconds()*s.slowness(at) + s.rest.Seconds())
}

func (s *shop) slowness(at time.Duration) float64 {
	if s.slow == nil {
		return 1
	}
	return s.slow(at)
}

func (s *shop) enter() {
	s.mu.Lock()
	if s.busy < s.workers(time.Since(s.start)) {
		s.busy++
		s.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	s.line = append(s.line, turn)
	s.mu.Unlock()
	<-turn
}

func (s *shop) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	for s.busy < s.workers(time.Since(s.start)) && len(s.line) > 0 {
		close(s.line[0])
		s.line = s.line[1:]
		s.busy++
	}
}

// customers are what one gateway brings to a shop.
type customers struct {
	rate  float64
	from  time.Duration
	atEnd bool // the first token is told of when the answer has ended
}

// visit is a run of a simulation: what each gateway had served and what its limit
// was, by the second.
type visit struct {
	served, limits [][]int
}

func (s *shop) run(t *testing.T, seed uint64, seconds int, gateways ...customers) (v visit) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s.start, s.mu = time.Now(), new(sync.Mutex)
		var all sync.WaitGroup
		var mu sync.Mutex
		for i, c := range gateways {
			l := New()
			l.Use(Config{Requests: -1, Queue: 40, Wait: time.Second, Adaptive: true, Memory: -1})
			count, limits := make([]int, seconds+1), make([]int, seconds)
			v.served, v.limits = append(v.served, count), append(v.limits, limits)
			served := func() {
				mu.Lock()
				defer mu.Unlock()
				count[min(int(time.Since(s.start)/time.Second), seconds)]++
			}
			all.Go(func() { s.send(l, rand.New(rand.NewPCG(seed, uint64(i))), c, limits, served) })
		}
		all.Wait()
	})
	return v
}

// send brings customers at a steady rate and notes the limit.
func (s *shop) send(l *Limiter, random *rand.Rand, c customers, limits []int, served func()) {
	var all sync.WaitGroup
	defer all.Wait()
	time.Sleep(c.from)
	target := l.Target("shop", 0)
	for {
		at := time.Since(s.start)
		if int(at/time.Second) >= len(limits) {
			return
		}
		limits[int(at/time.Second)] = target.gate.state().Limit
		first := float64(s.first) * math.Exp(s.spread*random.NormFloat64()-s.spread*s.spread/2)
		rest := float64(s.rest) * (0.5 + random.Float64())
		all.Go(func() {
			slot, refusal := target.Enter(context.Background(), Caller{Class: Normal})
			if refusal != nil {
				return
			}
			defer slot.Release()
			sent := time.Now()
			s.enter()
			defer s.leave()
			time.Sleep(time.Duration(first * s.slowness(time.Since(s.start))))
			took := time.Since(sent)
			if !c.atEnd {
				slot.FirstToken(took)
			}
			time.Sleep(time.Duration(rest))
			if c.atEnd {
				slot.FirstToken(took)
			}
			served()
		})
		time.Sleep(time.Duration(random.ExpFloat64() / c.rate * float64(time.Second)))
	}
}

// over is how many a second were served by a gateway between two seconds.
func (v visit) over(gateway, from, to int) float64 {
	n := 0
	for _, s := range v.served[gateway][from:to] {
		n += s
	}
	return float64(n) / float64(to-from)
}
