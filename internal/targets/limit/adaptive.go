package limit

import (
	"math"
	"time"
)

// adaptive adjusts a target's limit to its time to first token.
//
// By Little's law, the rate of first tokens times their delay is the number of
// requests that wait at the target. They should wait in the gateway's queue, where
// priorities apply. So the limit falls by that number in one step, to the number of
// requests that the target works on. The length of responses does not matter. The limit
// rises while it is used and no request waits.
//
// Tokens can be late for other reasons. So a lower limit is a trial: if fewer tokens come,
// and none earlier, the limit is restored, and the current time to first token becomes the
// normal one. The normal time may have been learned from a full target. So a probe lowers
// the limit from time to time although no token is late. The lower limit stays if as many
// tokens come as before.
//
// adaptive evaluates only requests that were sent under the current limit. It is guarded
// by the gate's lock.
type adaptive struct {
	max   float64 // the configured limit
	limit float64
	seek  bool // no limit was too high yet, so that it rises in large steps

	base    float64 // logarithm of the normal time to first token, in seconds
	unsure  float64 // variance of base
	windows int     // number of windows that base was learned from
	full    int     // windows at the limit since the last probe

	trial    trial
	draining bool          // more requests are open than the lowered limit allows
	settled  time.Duration // since when no more requests are open than the limit allows
	pause    time.Duration // time from settled to the next window

	failing    time.Duration // when the latest failures began
	failedFrom float64       // the limit at that time

	window   window
	normal   map[string]float64 // logarithm of the normal time to first token, by key
	served   recentKeys
	rejected recentKeys
}

// maxNormal is the maximum number of keys whose normal time is known. All other keys count as
// late.
const maxNormal = 1024

// recentKeys holds the two keys that were added last, and when.
type recentKeys [2]struct {
	key string
	at  time.Duration
}

// recently is how long a key counts as recent after it was added.
const recently = 5 * time.Second

func (r *recentKeys) add(key string, now time.Duration) {
	if r[0].key != key {
		r[1] = r[0]
	}
	r[0].key, r[0].at = key, now
}

// other reports whether another key was added recently.
func (r *recentKeys) other(key string, now time.Duration) bool {
	for _, k := range r {
		if k.at != 0 && k.key != key && now-k.at < recently {
			return true
		}
	}
	return false
}

// trial is a lowered limit that may have to be restored.
type trial struct {
	limit float64 // the limit before; 0 if there is no trial
	probe bool    // the limit was lowered although no token was late
	seen          // measurements before the limit was lowered
}

// window collects the times to first token of some seconds.
type window struct {
	began, looked time.Duration // looked: when the window was last evaluated

	n    int
	sum  float64 // of logarithms, whose mean a few long prompts do not move
	sum2 float64 // of their squares
	open int     // maximum number of open requests
	keys map[string]mean
}

// mean is the mean logarithm of a key's times to first token.
type mean struct {
	n   int
	sum float64
}

func (m mean) value() float64 { return m.sum / float64(m.n) }

// seen is the statistics of a window.
type seen struct {
	n        float64
	recent   float64 // mean logarithm of the time to first token
	variance float64 // of recent
	rate     float64 // first tokens per second
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
	windowStale   = 30 * time.Second // older samples are dropped
	baseWindows   = 8
	probeWindows  = 30              // windows at the limit from one probe to the next
	probeAgain    = 3               // windows to a probe that verifies a trial
	trialTime     = 5 * time.Second // after which a trial is decided in any case

	tolerated = 0.2 // delay, relative to the normal time to first token, that is not late
	queued    = 1   // requests that may wait at the target, so that it is never idle
	doubt     = 2.5 // standard errors above which a difference is significant
	worth     = 0.3 // how much earlier tokens must come, relative to the lowering of the limit
	cut       = 0.5 // smallest part of the limit that is left after one window
	probe     = 0.8 // part of the limit that a probe leaves
	failStep  = 0.5 // slots for each failed request
	step      = 0.05
	seekStep  = 0.5
)

func newAdaptive() *adaptive {
	return &adaptive{limit: adaptiveStart, seek: true, full: probeWindows / 2}
}

// places returns the current limit.
func (a *adaptive) places() int {
	return int(min(max(a.limit, adaptiveFloor), a.max))
}

// firstToken adds d, the time to first token of a request. sent is when the request was
// sent, and open is the number of open requests.
func (a *adaptive) firstToken(key string, d, sent, now time.Duration, open int) {
	a.served.add(key, now)
	if a.draining {
		if open > a.places() {
			return
		}
		a.draining, a.settled = false, now
	}
	// Requests that were sent earlier say nothing about this limit. Of the later ones the
	// fast ones finish first, and would make the normal time too short.
	if sent < a.settled || now-a.settled < a.pause {
		return
	}
	w := &a.window
	if w.n == 0 || now-w.began > windowStale {
		*w = window{began: now}
	}
	w.add(key, d, open)
	if w.n < windowSamples || now-max(w.began, w.looked) < windowTime {
		return
	}
	w.looked = now
	if a.trial.limit == 0 || a.judge(now) {
		a.move(now)
		*w = window{}
	}
}

func (w *window) add(key string, d time.Duration, open int) {
	x := math.Log(max(d, time.Millisecond).Seconds())
	w.n++
	w.sum += x
	w.sum2 += x * x
	w.open = max(w.open, open)
	if w.keys == nil {
		w.keys = map[string]mean{}
	}
	if m, known := w.keys[key]; known || len(w.keys) < maxNormal {
		w.keys[key] = mean{m.n + 1, m.sum + x}
	}
}

// late reports whether at least two keys of the window are late, each compared with its own
// normal time. A key whose normal time is not known counts as late. If the window has only
// one key, late always reports true.
func (a *adaptive) late() bool {
	if len(a.window.keys) < 2 {
		return true
	}
	n := 0
	for key, m := range a.window.keys {
		if base, known := a.normal[key]; !known || m.value()-base > math.Log1p(tolerated) {
			n++
		}
	}
	return n >= 2
}

// learnKeys moves the normal time of each key of the window towards its time in the window, by a
// part of the difference. A normal time that is too long moves by at least a quarter.
func (a *adaptive) learnKeys(part float64) {
	if a.normal == nil || len(a.normal) > maxNormal {
		a.normal = map[string]float64{}
	}
	for key, m := range a.window.keys {
		base, known := a.normal[key]
		switch recent := m.value(); {
		case !known:
			a.normal[key] = recent
		case recent < base:
			a.normal[key] += (recent - base) * max(part, 0.25)
		default:
			a.normal[key] += (recent - base) * part
		}
	}
}

// failed counts a request that the target rejected. Many that fail together, as when a
// server restarts, at most halve the limit. If the target serves other keys and rejects
// only this one, the cause lies in the key's requests, and the limit does not change.
func (a *adaptive) failed(key string, now time.Duration) {
	a.rejected.add(key, now)
	if a.served.other(key, now) && !a.rejected.other(key, now) {
		return
	}
	if a.failing == 0 || now-a.failing >= windowTime {
		a.failing, a.failedFrom = now, a.limit
	}
	was := a.limit
	a.lowerTo(max(a.limit-failStep, a.failedFrom*cut))
	if a.trial.limit > 0 { // the end of the trial does not restore this part
		a.trial.limit -= was - a.limit
	}
}

// move adjusts the limit at the end of a window.
func (a *adaptive) move(now time.Duration) {
	s := a.window.seen(now)
	if a.windows == 0 {
		a.base, a.unsure = s.recent, s.variance
	}
	// Prompts vary more than servers do: a difference counts less, the fewer and the
	// more varied the samples are.
	err := doubt * math.Sqrt(s.variance+a.unsure)
	waiting := s.rate * math.Exp(s.recent) * (1 - math.Exp(-max(s.recent-a.base-err, 0)))
	late := waiting > queued && s.recent-a.base > math.Log1p(tolerated) && a.late()
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
	// The normal time is learned at the beginning, and later while few requests are
	// open. It may fall at any time, as far as the difference is significant. If it rose
	// with a full target, overload would become normal.
	learns := !busy || limit <= adaptiveFloor || !late && a.windows < baseWindows
	if learns {
		a.learnKeys(1 / float64(min(a.windows+1, baseWindows)))
	} else {
		a.learnKeys(0)
	}
	switch {
	case learns:
		a.learn(s)
	case s.recent+err < a.base:
		a.base += (s.recent + err - a.base) / 4
	}
}

// probes counts a window at the limit, and reports whether a probe is due.
func (a *adaptive) probes() bool {
	a.full++
	if a.full < probeWindows {
		return false
	}
	a.full = 0
	return true
}

// judge ends a trial, unless it needs more samples, and reports whether the limit stays
// lowered. If requests had been waiting at the target, the lower limit yields the same
// rate of tokens, and they arrive earlier in proportion to the limit (less so if several
// gateways share the target). If no request had been waiting, the lower limit yields fewer
// tokens, and they arrive as late as before.
func (a *adaptive) judge(now time.Duration) bool {
	s, t := a.window.seen(now), a.trial
	lowered := math.Log(t.limit / float64(a.places()))
	earlier, fewer := t.recent-s.recent, math.Log(t.rate/s.rate)
	err := doubt * math.Sqrt(s.variance+t.variance)
	if math.Abs(earlier-worth*lowered) < err && now-a.window.began < trialTime {
		return false
	}
	a.trial = trial{}
	useless := earlier < worth*lowered && fewer > (1-worth)*lowered
	if useless && s.recent-a.base > math.Log1p(tolerated) {
		// The target may have become slow just when the limit was lowered.
		a.full = probeWindows - probeAgain
	}
	if useless || s.recent < a.base {
		a.base, a.unsure = s.recent, s.variance
	}
	if useless {
		a.learnKeys(1)
	}
	// Keep the limit of a probe only if the loss of tokens is small, beyond chance.
	if useless || t.probe && fewer+math.Sqrt(1/s.n+1/t.n)/2 > (1-worth)*lowered {
		a.raiseTo(t.limit, now)
		a.window = window{}
		return false
	}
	if t.probe {
		a.full = probeWindows - 1 // as many tokens with fewer open requests: probe again
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

// lowerTo lowers the limit. From the floor the limit rises in large steps again.
func (a *adaptive) lowerTo(limit float64) {
	a.limit = max(limit, min(adaptiveFloor, a.max))
	a.seek = a.limit <= adaptiveFloor
}

// learn moves the normal time towards that of a window.
func (a *adaptive) learn(s seen) {
	a.windows = min(a.windows+1, baseWindows)
	part := 1 / float64(a.windows)
	a.base += (s.recent - a.base) * part
	a.unsure = a.unsure*(1-part)*(1-part) + s.variance*part*part
}
