package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// engine is a model server: it has places for some requests and takes ever
// longer for all the more, so that without a limit its useful work falls.
type engine struct {
	slots int
	first time.Duration // to the first token, with a free slot
	rest  time.Duration // for the other tokens, on average: answers differ by half
	open  atomic.Int64
}

// factor is how much longer a request takes that comes now.
func (e *engine) factor() float64 {
	over := float64(e.open.Load()) / float64(e.slots)
	return max(1, over*over)
}

// serve is one request; it reports the time to first token.
func (e *engine) serve(ctx context.Context, length float64, first func(time.Duration)) bool {
	e.open.Add(1)
	defer e.open.Add(-1)
	f := e.factor()
	d := time.Duration(float64(e.first) * f)
	if !wait(ctx, d) {
		return false
	}
	first(d)
	return wait(ctx, time.Duration(float64(e.rest)*f*length))
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// load is what clients send: so many requests a second from some keys, in the
// given parts of each class, by clients that give up after their patience.
type load struct {
	rate     float64
	keys     []string
	classes  [classes]float64
	patience time.Duration
	length   time.Duration
}

// outcome is what became of one request.
type outcome struct {
	key     string
	class   Class
	length  float64       // of the answer, 1 on average
	begun   time.Duration // since the start
	waited  time.Duration // before it was sent, or refused
	first   time.Duration // to the first token, from the client's side
	good    bool          // all of the answer, in time
	refused *Refusal
}

// world is a limiter in front of one engine, under some loads.
type world struct {
	config Config
	max    int // the target's
	engine engine
	loads  []load
}

func (w *world) run(t *testing.T) (outcomes []outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		var mu sync.Mutex
		l := New()
		l.Use(w.config)
		start := time.Now()
		for n, ld := range w.loads {
			random := rand.New(rand.NewPCG(uint64(n), 7))
			all.Go(func() {
				for time.Since(start) < ld.length {
					o := outcome{key: ld.keys[random.IntN(len(ld.keys))], class: pick(random, ld.classes), length: 0.5 + random.Float64(), begun: time.Since(start)}
					all.Go(func() {
						w.request(l, ld.patience, &o)
						mu.Lock()
						defer mu.Unlock()
						outcomes = append(outcomes, o)
					})
					time.Sleep(time.Duration(random.ExpFloat64() / ld.rate * float64(time.Second)))
				}
			})
		}
		all.Wait()
		s := l.Snapshot()
		if s.Process.Open != 0 || s.Process.Waiting != 0 || s.Targets["engine"].Open != 0 || s.Targets["engine"].Waiting != 0 {
			t.Errorf("after the last request there is still something open: %+v", s)
		}
	})
	return outcomes
}

func pick(random *rand.Rand, parts [classes]float64) Class {
	x := random.Float64() * (parts[0] + parts[1] + parts[2])
	for c, p := range parts {
		if x < p {
			return Class(c)
		}
		x -= p
	}
	return Normal
}

// request is what the relay does.
func (w *world) request(l *Limiter, patience time.Duration, o *outcome) {
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(patience, cancel).Stop() // the gateway does not know when a client will go
	place, refusal := l.Enter(ctx, Caller{Key: o.key, Class: o.class})
	if refusal != nil {
		o.waited, o.refused = time.Since(start), refusal
		return
	}
	defer place.Release()
	target := l.Target("engine", w.max)
	slot, ok := target.TryEnter(o.class)
	if !ok {
		slot, refusal = target.Enter(ctx, Caller{Key: o.key, Class: o.class})
	}
	o.waited, o.refused = time.Since(start), refusal
	if refusal != nil {
		return
	}
	defer slot.Release()
	o.good = w.engine.serve(ctx, o.length, func(d time.Duration) {
		o.first = time.Since(start)
		slot.FirstToken(d)
	})
}

// goodput is how many requests a second came to a good end, of those begun in
// the steady part of a run.
func goodput(outcomes []outcome, length time.Duration) float64 {
	n := 0
	for _, o := range steady(outcomes, length) {
		if o.good {
			n++
		}
	}
	return float64(n) / (length - 2*ramp).Seconds()
}

const ramp = 10 * time.Second

func steady(outcomes []outcome, length time.Duration) []outcome {
	return filter(outcomes, func(o outcome) bool { return o.begun >= ramp && o.begun < length-ramp })
}

func filter(outcomes []outcome, keep func(outcome) bool) []outcome {
	return slices.DeleteFunc(slices.Clone(outcomes), func(o outcome) bool { return !keep(o) })
}

func quantile(outcomes []outcome, q float64, of func(outcome) time.Duration) time.Duration {
	if len(outcomes) == 0 {
		return 0
	}
	all := make([]time.Duration, len(outcomes))
	for i, o := range outcomes {
		all[i] = of(o)
	}
	slices.Sort(all)
	return all[int(math.Ceil(q*float64(len(all))))-1]
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}
