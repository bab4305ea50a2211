package limit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// span is a requirement for a part of a run, in seconds.
type span struct {
	from, to int
	served   float64 // minimum share of the possible throughput
	share    float64 // minimum share of each gateway in the served requests
	high     int     // maximum sum of the limits; 0: any
}

// TestAdaptiveLimitFindsTheWorkers checks that an adaptive limit keeps a server busy
// without filling its queue. The cases differ in the share of a response's time that the
// first token takes, and in what delays the first token. If several gateways share a
// server, only the throughput is checked: see the package comment.
func TestAdaptiveLimitFindsTheWorkers(t *testing.T) {
	const ms = time.Millisecond
	cases := []struct {
		name     string
		shop     shop
		gateways []customers
		spans    []span
	}{
		{"the first token is soon", shop{first: 2 * ms, rest: 200 * ms, workers: always(20)}, []customers{{rate: 200}},
			[]span{{from: 2, to: 60, served: 0.93}, {from: 40, to: 60, served: 0.9, high: 30}}},
		{"the first token is all", shop{first: 200 * ms, workers: always(20)}, []customers{{rate: 200}},
			[]span{{from: 2, to: 90, served: 0.93}, {from: 60, to: 90, served: 0.9, high: 40}}},
		{"long answers", shop{first: 300 * ms, rest: 8 * time.Second, workers: always(40)}, []customers{{rate: 10}},
			[]span{{from: 40, to: 300, served: 0.9, high: 80}}},
		{"long answers, told of at their end", shop{first: 300 * ms, rest: 8 * time.Second, workers: always(40)}, []customers{{rate: 10, atEnd: true}},
			[]span{{from: 60, to: 300, served: 0.85}, {from: 150, to: 300, served: 0.85, high: 80}}},
		{"two gateways", shop{first: 100 * ms, rest: 100 * ms, workers: always(40)}, []customers{{rate: 200}, {rate: 200}},
			[]span{{from: 5, to: 150, served: 0.93, share: 0.25}}},
		{"two gateways, one later", shop{first: 100 * ms, rest: 100 * ms, workers: always(40)}, []customers{{rate: 200}, {rate: 200, from: 30 * time.Second}},
			[]span{{from: 60, to: 180, served: 0.93, share: 0.25}}},
		{"half of the workers go, and come back", shop{first: 100 * ms, rest: 100 * ms, workers: between(40*time.Second, 100*time.Second, 40, 20)}, []customers{{rate: 400}},
			[]span{{from: 2, to: 40, served: 0.93}, {from: 42, to: 100, served: 0.93}, {from: 80, to: 100, served: 0.93, high: 35}, {from: 140, to: 160, served: 0.9}}},
		{"half of them go, with long answers", shop{first: 300 * ms, rest: 5 * time.Second, workers: between(100*time.Second, 250*time.Second, 40, 20)}, []customers{{rate: 15}},
			[]span{{from: 40, to: 100, served: 0.85}, {from: 110, to: 250, served: 0.85}, {from: 220, to: 250, served: 0.8, high: 36}, {from: 320, to: 400, served: 0.85}}},
		{"tokens are late, but do not wait", shop{first: 200 * ms, rest: 100 * ms, spread: 0.5, workers: always(1000), slow: between(40*time.Second, time.Hour, 1, 1.6)}, []customers{{rate: 300}},
			[]span{{from: 40, to: 80, served: 0.8}, {from: 80, to: 140, served: 0.95}}},
		{"the server is slow now and then, and full", shop{first: 200 * ms, spread: 0.5, workers: always(20), slow: wander(1, 1.6)}, []customers{{rate: 200}},
			[]span{{from: 2, to: 200, served: 0.85}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			last := c.spans[len(c.spans)-1]
			v := c.shop.run(t, last.to, c.gateways...)
			for _, p := range c.spans {
				v.check(t, &c.shop, p, c.gateways)
			}
		})
	}
}

func (v visit) check(t *testing.T, s *shop, p span, gateways []customers) {
	t.Helper()
	could, had, highest, least := 0.0, 0.0, 0, 1.0
	for second := p.from; second < p.to; second++ {
		offered, limits := 0.0, 0
		for i, c := range gateways {
			offered += c.rate
			limits += v.limits[i][second]
		}
		could += min(offered, s.could(time.Duration(second)*time.Second)) / float64(p.to-p.from)
		highest = max(highest, limits)
	}
	for i := range gateways {
		had += v.over(i, p.from, p.to)
	}
	for i := range gateways {
		least = min(least, v.over(i, p.from, p.to)/had)
	}
	if had < p.served*could {
		t.Errorf("seconds %d to %d: %.1f a second of %.1f were served, want %.0f %%", p.from, p.to, had, could, 100*p.served)
	}
	if least < p.share {
		t.Errorf("seconds %d to %d: a gateway had %.0f %% of it, want %.0f %%", p.from, p.to, 100*least, 100*p.share)
	}
	if p.high > 0 && highest > p.high {
		t.Errorf("seconds %d to %d: the limit was up to %d, want %d at most", p.from, p.to, highest, p.high)
	}
	t.Logf("seconds %d to %d: %.1f %% of %.1f a second, limit up to %d, the least share %.0f %%", p.from, p.to, 100*had/could, could, highest, 100*least)
}

func always[T any](x T) func(time.Duration) T { return func(time.Duration) T { return x } }

// between returns a function of time. Its value is then from one time to another, and usual
// at all other times.
func between[T any](from, to time.Duration, usual, then T) func(time.Duration) T {
	return func(at time.Duration) T {
		if at >= from && at < to {
			return then
		}
		return usual
	}
}

// wander returns a function of time that changes randomly by a small step each second.
func wander(low, high float64) func(time.Duration) float64 {
	random := rand.New(rand.NewPCG(3, 9))
	path := []float64{low}
	for range 300 {
		x := path[len(path)-1] + (high-low)/3*(random.Float64()-0.45)
		path = append(path, min(max(x, low), high))
	}
	return func(at time.Duration) float64 { return path[min(int(at/time.Second), 300)] }
}
