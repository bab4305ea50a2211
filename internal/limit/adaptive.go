package limit

import (
	"math"
	"time"
)

// adaptive moves a target's limit by its time to first token.
//
// By Little's law first tokens a second, times how much later than usual they are,
// is how many requests wait at the target for others. They would do better to wait
// here, where the important go first: the limit goes down by their number, in one
// step, and so stays at what the target works on, however long answers are. It
// goes up while it is used and nobody waits.
//
// Tokens can be late for other reasons. So a lower limit is a trial: where tokens
// do not come earlier for it, only fewer, it is taken back, and what they take now
// is usual. What is usual may itself have been learned from a full target. So now
// and then a lower limit is tried though nothing is late, and kept where as many
// tokens come as before.
//
// Only requests that were sent under the present limit are looked at. The gate's
// lock guards it.
type adaptive struct {
	max   float64 // the configured limit
	limit float64
	seek  bool // no limit was too high yet: go up in large steps

	base    float64 // logarithm of the usual time to first token, in seconds
	unsure  float64 // variance of base
	windows int     // that base was learned from
	full    int     // windows at the limit since the last probe

	trial    trial
	draining bool          // more are open than the lowered limit allows
	settled  time.Duration // since when no more are open than the present limit allows
	pause    time.Duration // from then to the next window

	failing    time.Duration // when the last failures began, and the limit then
	failedFrom float64

	window window
}

// trial is what was seen before the limit was lowered.
type trial struct {
	limit float64 // 0 where there is no trial
	probe bool    // nothing was late
	seen
}

// window is what was seen since it began.
type window struct {
	began, looked time.Duration

	n    int
	sum  float64 // of logarithms: a mean of these is not moved by a few long prompts, or a stall
	sum2 float64 // of their squares
	open int     // the most
}

// seen is what a window says.
type seen struct {
	n        float64
	recent   float64 // mean logarithm of the time to first token
	variance float64 // of recent
	rate     float64 // of first tokens, a second
}

func (w *window) seen(now time.Duration) seen {
	n, seconds := float64(w.n), (now - w.began).Seconds()
	recent := w.sum / n
	return seen{n, recent, max(w.sum2/n-recent*recent, 0) / n, n / seconds}
}

const (
	adaptiveStart = 32
	adaptiveFloor = 4

	windowTime    = time.Second
	windowSamples = 16
	windowStale   = 30 * time.Second // older samples say nothing of now
	baseWindows   = 8
	probeWindows  = 30              // at the limit, from one probe to the next
	probeAgain    = 3               // and to one that checks what was learned from a trial
	trialTime     = 5 * time.Second // after which a trial is judged as it seems

	tolerated = 0.2 // of the usual time to first token, before tokens are late
	queued    = 1   // requests that may wait at the target: it is never idle then
	doubt     = 2.5 // standard errors, before a difference is taken for one
	worth     = 0.3 // of what the limit was lowered by, that tokens must come earlier
	cut       = 0.5 // of the limit, that is left at least after one window
	probe     = 0.8 // of the limit, that is left in a probe
	failStep  = 0.5 // places for each request that failed
	step      = 0.05
	seekStep  = 0.5
)

func newAdaptive() *adaptive {
	return &adaptive{limit: adaptiveStart, seek: true, full: probeWindows / 2}
}

// places is the limit now.
func (a *adaptive) places() int {
	return int(min(max(a.limit, adaptiveFloor), a.max))
}

// firstToken counts a time to first token of a request that was sent then, seen
// with so many open.
func (a *adaptive) firstToken(d, sent, now time.Duration, open int) {
	if a.draining {
		if open > a.places() {
			return
		}
		a.draining, a.settled = false, now
	}
	// Who was sent before says nothing of this limit. Of those sent since, the quick
	// are heard of first, and would pass for what is usual.
	if sent < a.settled || now-a.settled < a.pause {
		return
	}
	w := &a.window
	if w.n == 0 || now-w.began > windowStale {
		*w = window{began: now}
	}
	w.add(d, open)
	if w.n < windowSamples || now-max(w.began, w.looked) < windowTime {
		return
	}
	w.looked = now
	if a.trial.limit == 0 || a.judge(now) {
		a.move(now)
		*w = window{}
	}
}

func (w *window) add(d time.Duration, open int) {
	x := math.Log(max(d, time.Millisecond).Seconds())
	w.n++
	w.sum += x
	w.sum2 += x * x
	w.open = max(w.open, open)
}

// failed counts a request that the target could not take. Many that fail
// together, as when a server restarts, halve the limit at most.
func (a *adaptive) failed(now time.Duration) {
	if a.failing == 0 || now-a.failing >= windowTime {
		a.failing, a.failedFrom = now, a.limit
	}
	was := a.limit
	a.lowerTo(max(a.limit-failStep, a.failedFrom*cut))
	if a.trial.limit > 0 { // the end of the trial does not give this back
		a.trial.limit -= was - a.limit
	}
}

// move ends a window.
func (a *adaptive) move(now time.Duration) {
	s := a.window.seen(now)
	if a.windows == 0 {
		a.base, a.unsure = s.recent, s.variance
	}
	// Prompts differ more than servers do: the fewer and the more unlike the
	// samples, the less of a difference is believed.
	err := doubt * math.Sqrt(s.variance+a.unsure)
	waiting := s.rate * math.Exp(s.recent) * (1 - math.Exp(-max(s.recent-a.base-err, 0)))
	late := waiting > queued && s.recent-a.base > math.Log1p(tolerated)
	limit, open := float64(a.places()), float64(a.window.open)
	busy, full := open >= limit/2, open >= limit*0.9
	a.pause = min(time.Duration(2*math.Exp(s.recent)*float64(time.Second)), windowStale)
	switch {
	case late && busy:
		used := min(limit, open)
		a.try(max(used-max(waiting, used*step), used*cut), trial{limit: used, seen: s})
	case full && limit > adaptiveFloor && a.probes():
		a.try(limit*probe, trial{limit: limit, probe: true, seen: s})
	case !late && full && a.seek:
		a.raiseTo(limit*(1+seekStep), now)
	case !late && full:
		a.raiseTo(a.limit+max(1, limit*step), now)
	}
	// What is usual is learned in the beginning, and later where so few are open
	// that they are not what makes tokens late. It goes down at any time, as far as
	// the difference is believed; were it to follow a full target up, it would take
	// overload for usual.
	switch {
	case !busy || limit <= adaptiveFloor || !late && a.windows < baseWindows:
		a.learn(s)
	case s.recent+err < a.base:
		a.base += (s.recent + err - a.base) / 4
	}
}

// probes reports that it is time to try a lower limit though nothing is late:
// what passes for usual may have been learned from a full target.
func (a *adaptive) probes() bool {
	a.full++
	if a.full < probeWindows {
		return false
	}
	a.full = 0
	return true
}

// judge ends a trial, unless more must be seen for it, and reports whether the
// limit stays lowered. Where requests waited at the target, tokens come earlier by
// what the limit was lowered by, and as many; where several gateways share it,
// somewhat less so. Where they did not, tokens come as late as before, and fewer.
func (a *adaptive) judge(now time.Duration) bool {
	s, t := a.window.seen(now), a.trial
	lowered := math.Log(t.limit / float64(a.places()))
	earlier, fewer := t.recent-s.recent, math.Log(t.rate/s.rate)
	err := doubt * math.Sqrt(s.variance+t.variance)
	if math.Abs(earlier-worth*lowered) < err && now-a.window.began < trialTime {
		return false
	}
	a.trial = trial{}
	inVain := earlier < worth*lowered && fewer > (1-worth)*lowered
	if inVain && s.recent-a.base > math.Log1p(tolerated) {
		// It may have become so just when the limit was lowered.
		a.full = probeWindows - probeAgain
	}
	if inVain || s.recent < a.base {
		a.base, a.unsure = s.recent, s.variance
	}
	// A probe is there to learn. Its limit is kept only where it costs little, and not
	// by chance.
	if inVain || t.probe && fewer+math.Sqrt(1/s.n+1/t.n)/2 > (1-worth)*lowered {
		a.raiseTo(t.limit, now)
		a.window = window{}
		return false
	}
	if t.probe {
		a.full = probeWindows - 1 // as many with fewer open: go on
	}
	return true
}

// try lowers the limit for a trial.
func (a *adaptive) try(limit float64, t trial) {
	a.trial, a.draining = t, true
	a.lowerTo(limit)
}

func (a *adaptive) raiseTo(limit float64, now time.Duration) {
	a.limit, a.settled = min(limit, a.max), now
}

// lowerTo lowers the limit. At the floor it begins to seek again.
func (a *adaptive) lowerTo(limit float64) {
	a.limit = max(limit, min(adaptiveFloor, a.max))
	a.seek = a.limit <= adaptiveFloor
}

// learn moves what is usual towards a window.
func (a *adaptive) learn(s seen) {
	a.windows = min(a.windows+1, baseWindows)
	part := 1 / float64(a.windows)
	a.base += (s.recent - a.base) * part
	a.unsure = a.unsure*(1-part)*(1-part) + s.variance*part*part
}
