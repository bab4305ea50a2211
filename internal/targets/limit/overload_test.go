package limit

import (
	"testing"
	"time"
)

const simLength = 45 * time.Second

var mixed = [classes]float64{0.1, 0.5, 0.4}

// server returns an engine that serves 50 concurrent requests of one second each.
func server() engine {
	return engine{slots: 50, first: 200 * time.Millisecond, rest: 800 * time.Millisecond}
}

func overload(adaptive bool, rate float64, patience time.Duration) *world {
	w := &world{
		config: Config{Requests: 4000, PerTarget: 50, Queue: 500, Wait: 5 * time.Second, Adaptive: adaptive, Memory: -1},
		engine: server(),
		loads:  []load{{rate: rate, keys: names("k", 20), classes: mixed, patience: patience, length: simLength}},
	}
	if adaptive { // it has to find the limit itself
		w.config.PerTarget = 500
	}
	return w
}

// TestOverload checks that at five times the capacity the goodput stays at 90 % of the
// peak or more, critical requests are not affected, and rejections are quick. In one case
// the clients disconnect long before the gateway would reject them.
func TestOverload(t *testing.T) {
	cases := []struct {
		name     string
		adaptive bool
		patience time.Duration
	}{
		{"patient clients", false, 30 * time.Second},
		{"clients that leave", false, 3 * time.Second},
		{"adaptive, patient clients", true, 30 * time.Second},
		{"adaptive, clients that leave", true, 3 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			peak := 0.0
			for _, rate := range []float64{45, 50, 75} {
				peak = max(peak, goodput(overload(c.adaptive, rate, c.patience).run(t), simLength))
			}
			out := overload(c.adaptive, 250, c.patience).run(t)
			got := goodput(out, simLength)
			if got < 0.9*peak || got < 0.85*50 {
				t.Errorf("goodput is %.1f a second, the peak was %.1f and the engine can do 50", got, peak)
			}
			critical := filter(out, func(o outcome) bool { return o.class == Critical })
			served := filter(critical, func(o outcome) bool { return o.good })
			if len(served)*100 < len(critical)*99 {
				t.Errorf("%d of %d critical requests were served", len(served), len(critical))
			}
			lost := filter(steady(out, simLength), func(o outcome) bool { return o.refused != nil })
			quick := filter(lost, func(o outcome) bool { return o.waited < 5*time.Millisecond })
			if len(quick)*100 < len(lost)*90 {
				t.Errorf("%d of %d refusals came within 5 ms", len(quick), len(lost))
			}
			t.Logf("goodput %.1f of %.1f; critical %d of %d; quick refusals %.1f %%",
				got, peak, len(served), len(critical), 100*float64(len(quick))/float64(len(lost)))
		})
	}
}

// TestOverloadWithoutLimits checks that the same load overloads the engine if there are
// no limits, so that TestOverload is meaningful.
func TestOverloadWithoutLimits(t *testing.T) {
	w := overload(false, 250, 30*time.Second)
	w.config = Config{Requests: -1, Memory: -1}
	if got := goodput(w.run(t), simLength); got > 25 {
		t.Errorf("goodput without limits is %.1f; the engine does not mind overload", got)
	}
}

// neighbours returns 20 quiet keys and one noisy key with a rate of its own. With a limit of
// 8, 8 requests a second of the noisy key are served.
func neighbours(perKey int, others, noisy float64) *world {
	w := &world{
		config: Config{Requests: 4000, PerKey: perKey, PerTarget: 50, Queue: 200, Wait: 5 * time.Second, Memory: -1},
		engine: server(),
		loads:  []load{{rate: others, keys: names("quiet", 20), classes: [classes]float64{0, 1, 0}, patience: 30 * time.Second, length: simLength}},
	}
	if noisy > 0 {
		w.loads = append(w.loads, load{rate: noisy, keys: []string{"noisy"}, classes: [classes]float64{0, 1, 0}, patience: 30 * time.Second, length: simLength})
	}
	return w
}

func quiet(out []outcome) []outcome {
	return filter(steady(out, simLength), func(o outcome) bool { return o.key != "noisy" })
}

func first(o outcome) time.Duration { return o.first }

// TestNoisyKey checks that a key that sends ten times its limit does not affect the other
// keys. A nearly full target slows the others even under the noisy key's permitted load,
// so there the comparison is with a key at its limit.
func TestNoisyKey(t *testing.T) {
	cases := []struct {
		name                 string
		others, before, then float64
	}{
		{"a target with room, nobody before", 20, 0, 80},
		{"a target nearly full, at its limit before", 30, 16, 80},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out := neighbours(8, c.others, c.then).run(t)
			before, then := quiet(neighbours(8, c.others, c.before).run(t)), quiet(out)
			for _, o := range then {
				if !o.good {
					t.Fatalf("a quiet key's request was not served: %+v", o)
				}
			}
			was, is := quantile(before, 0.99, first), quantile(then, 0.99, first)
			if float64(is) > 1.1*float64(was) {
				t.Errorf("the others' p99 was %v and is %v", was, is)
			}
			lost := filter(steady(out, simLength), func(o outcome) bool { return o.refused != nil })
			quick := filter(lost, func(o outcome) bool { return o.refused.Reason == Key && o.waited < 5*time.Millisecond })
			if len(quick)*100 < len(lost)*90 {
				t.Errorf("%d of %d refusals came within 5 ms", len(quick), len(lost))
			}
			t.Logf("the others' p99 was %v and is %v; quick refusals %.1f %%", was, is, 100*float64(len(quick))/float64(len(lost)))
		})
	}
}

// TestNoisyKeyWithoutALimit checks that without a limit per key a noisy key uses only the
// remaining capacity: the target is always full, but the other keys are still served, a
// little later.
func TestNoisyKeyWithoutALimit(t *testing.T) {
	out := quiet(neighbours(0, 30, 80).run(t))
	served := filter(out, func(o outcome) bool { return o.good })
	if len(served)*100 < len(out)*99 {
		t.Errorf("%d of %d requests of quiet keys were served", len(served), len(out))
	}
	p99 := quantile(out, 0.99, func(o outcome) time.Duration { return o.waited })
	if p99 > time.Second {
		t.Errorf("the others wait up to %v", p99)
	}
	t.Logf("%d of %d were served, and waited up to %v", len(served), len(out), p99)
}
