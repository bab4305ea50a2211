package limit

import (
	"math"
	"time"
)

// adaptive moves a target's limit by its time to first token. It goes up while
// the limit is used and tokens come as early as they ever did, and down when they
// come late or requests fail. The gate's lock guards it.
type adaptive struct {
	max   float64 // the configured limit
	limit float64
	seek  bool // no limit was too high yet: go up in large steps

	base    float64       // logarithm of the usual time to first token, in seconds
	unsure  float64       // variance of base
	windows int           // that base was learned from
	settled time.Duration // when a lowered limit shows in what is seen

	failing    time.Duration // when the last failures began, and the limit then
	failedFrom float64

	// The window: what was seen since it began.
	began time.Duration
	n     int
	sum   float64 // of logarithms: a mean of these is not moved by a few long prompts
	sum2  float64 // of their squares
	open  int     // the most
}

const (
	adaptiveStart = 32
	adaptiveFloor = 4

	windowTime    = time.Second
	windowSamples = 16
	windowStale   = 30 * time.Second // older samples say nothing of now
	baseWindows   = 8

	tolerated = 0.2 // of the usual time to first token, before tokens are late
	doubt     = 2.5 // standard errors, before a difference is taken for one
	cut       = 0.5 // of the limit, that is left at least after one window
	failStep  = 0.5 // places for each request that failed
	step      = 0.05
	seekStep  = 0.5
)

func newAdaptive() *adaptive { return &adaptive{limit: adaptiveStart, seek: true} }

// places is the limit now.
func (a *adaptive) places() int {
	return int(min(max(a.limit, adaptiveFloor), a.max))
}

// firstToken counts a time to first token, seen with so many requests open.
func (a *adaptive) firstToken(d, now time.Duration, open int) {
	if now < a.settled {
		return // it may have been sent under the limit before, and says nothing of this one
	}
	if a.n == 0 || now-a.began > windowStale {
		a.restart(now)
	}
	a.n++
	x := math.Log(max(d, time.Millisecond).Seconds())
	a.sum += x
	a.sum2 += x * x
	a.open = max(a.open, open)
	if a.n >= windowSamples && now-a.began >= windowTime {
		a.move(now)
		a.restart(now)
	}
}

// failed counts a request that the target could not take. Many that fail
// together, as when a server restarts, halve the limit at most.
func (a *adaptive) failed(now time.Duration) {
	if a.failing == 0 || now-a.failing >= windowTime {
		a.failing, a.failedFrom = now, a.limit
	}
	a.lowerTo(max(a.limit-failStep, a.failedFrom*cut))
}

func (a *adaptive) restart(now time.Duration) {
	a.began, a.n, a.sum, a.sum2, a.open = now, 0, 0, 0, 0
}

// move ends a window.
func (a *adaptive) move(now time.Duration) {
	n := float64(a.n)
	recent := a.sum / n
	variance := max(a.sum2/n-recent*recent, 0) / n
	if a.windows == 0 {
		a.base, a.unsure = recent, variance
	}
	// Prompts differ more than servers do: the fewer and the more unlike the
	// samples, the less of a difference is believed.
	err := doubt * math.Sqrt(variance+a.unsure)
	excess := recent - a.base - err
	late := excess > 0 && recent-a.base > math.Log1p(tolerated)
	limit := float64(a.places())
	busy, full := float64(a.open) >= limit/2, float64(a.open) >= limit*0.9
	switch {
	case late && busy:
		a.lowerTo(limit * max(math.Exp(-max(excess, step)), cut))
		// All samples are left out, not only those that were sent before: of the new
		// ones the quick come first, and would pass for what is usual.
		a.settled = now + min(time.Duration(2*math.Exp(recent)*float64(time.Second)), windowStale)
	case !late && full && a.seek:
		a.limit = min(limit*(1+seekStep), a.max)
	case !late && full:
		a.limit = min(a.limit+max(1, limit*step), a.max)
	}
	// What is usual is learned in the beginning, and later where so few are open
	// that they are not what makes tokens late. It goes down at any time, as far as
	// the difference is believed; were it to follow a full target up, it would take
	// overload for usual.
	switch {
	case !busy || limit <= adaptiveFloor || !late && a.windows < baseWindows:
		a.learn(recent, variance)
	case recent+err < a.base:
		a.base += (recent + err - a.base) / 4
	}
}

// lowerTo lowers the limit. At the floor it begins to seek again.
func (a *adaptive) lowerTo(limit float64) {
	a.limit = max(limit, min(adaptiveFloor, a.max))
	a.seek = a.limit <= adaptiveFloor
}

// learn moves what is usual towards a window.
func (a *adaptive) learn(recent, variance float64) {
	a.windows = min(a.windows+1, baseWindows)
	part := 1 / float64(a.windows)
	a.base += (recent - a.base) * part
	a.unsure = a.unsure*(1-part)*(1-part) + variance*part*part
}
