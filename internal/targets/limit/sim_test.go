package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// engine simulates a model server. It serves a number of concurrent requests at full
// speed. Beyond it all requests slow down, so that without a limit its goodput falls.
type engine struct {
	slots int
	first time.Duration // time to first token with a free slot
	rest  time.Duration // average time of the other tokens
	open  int
}

// factor returns the slowdown of a request that arrives now.
func (e *engine) factor() float64 {
	over := float64(e.open) / float64(e.slots)
	return max(1, over*over)
}

// load describes the requests of some keys: their rate, their shares of the classes, and
// the patience of their clients.
type load struct {
	rate     float64
	keys     []string
	classes  [classes]float64
	patience time.Duration
	length   time.Duration
}

// outcome is the result of one request.
type outcome struct {
	key     string
	class   Class
	length  float64       // length of the response, 1 on average
	begun   time.Duration // start time
	waited  time.Duration // time until it was sent or rejected
	first   time.Duration // time to first token, as the client sees it
	good    bool          // the complete response arrived in time
	refused *Refusal
}

// world is a limiter in front of one engine, with its loads.
type world struct {
	config Config
	max    int // the target's concurrency limit
	engine engine
	loads  []load
}

func (w *world) run(t *testing.T) (outcomes []outcome) {
	t.Helper()
	simulate(t, func(sim *simulation) {
		l := New()
		l.Use(w.config)
		last := time.Duration(0)
		for n, ld := range w.loads {
			random := rand.New(rand.NewPCG(uint64(n), 7))
			var send func()
			send = func() {
				if sim.now() >= ld.length {
					return
				}
				o := outcome{key: ld.keys[random.IntN(len(ld.keys))], class: pick(random, ld.classes), length: 0.5 + random.Float64(), begun: sim.now()}
				r := &request{world: w, sim: sim, limiter: l, outcome: o, done: func(o outcome) { outcomes = append(outcomes, o) }}
				r.begin(ld.patience)
				sim.after(time.Duration(random.ExpFloat64()/ld.rate*float64(time.Second)), send)
			}
			sim.after(0, send)
			last = max(last, ld.length+2*ld.patience)
		}
		sim.after(last, func() {
			s := l.Snapshot()
			if s.Process.Open != 0 || s.Process.Waiting != 0 || s.Targets["engine"].Open != 0 || s.Targets["engine"].Waiting != 0 {
				t.Errorf("after the last request something is still open: %+v", s)
			}
		})
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

// request runs the steps of the relay for one simulated request.
type request struct {
	world   *world
	sim     *simulation
	limiter *Limiter
	outcome outcome
	done    func(outcome)

	cancel  context.CancelFunc
	permits []Permit
	serving bool // the engine is processing it
	ended   bool
}

// begin enters the limiter. The client disconnects after its patience, which the gateway
// does not know.
func (r *request) begin(patience time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.sim.after(patience, func() {
		cancel()
		if r.serving {
			r.end()
		}
	})
	caller := Caller{Key: r.outcome.key, Class: r.outcome.class}
	r.enter(func() (Permit, *Refusal) { return r.limiter.Enter(ctx, caller) }, func() {
		target := r.limiter.Target("engine", r.world.max)
		r.enter(func() (Permit, *Refusal) {
			if slot, ok := target.TryEnter(caller); ok {
				return slot, nil
			}
			return target.Enter(ctx, caller)
		}, r.serve)
	})
}

// enter takes a slot and then calls then.
func (r *request) enter(call func() (Permit, *Refusal), then func()) {
	r.sim.enter(call, func(p Permit, refusal *Refusal) {
		r.outcome.waited = r.sim.now() - r.outcome.begun
		if refusal != nil {
			r.outcome.refused = refusal
			r.end()
			return
		}
		r.permits = append(r.permits, p)
		then()
	})
}

// serve simulates the engine's processing of the request.
func (r *request) serve() {
	e := &r.world.engine
	r.serving = true
	e.open++
	factor := e.factor()
	first := time.Duration(float64(e.first) * factor)
	r.sim.after(first, func() {
		if r.ended {
			return
		}
		r.outcome.first = r.sim.now() - r.outcome.begun
		r.permits[1].FirstToken(first)
		r.sim.after(time.Duration(float64(e.rest)*factor*r.outcome.length), func() {
			if !r.ended {
				r.outcome.good = true
				r.end()
			}
		})
	})
}

// end records the outcome and releases the slots.
func (r *request) end() {
	if r.ended {
		return
	}
	r.ended = true
	r.cancel()
	if r.serving {
		r.world.engine.open--
	}
	for _, p := range slices.Backward(r.permits) {
		p.Release()
	}
	r.done(r.outcome)
}

// goodput returns the number of successful requests a second among those that started in
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
