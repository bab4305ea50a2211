package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ejection, with Envoy's default values.
const (
	ejectAfter    = 5 // failures in a row
	ejectBase     = 30 * time.Second
	ejectMax      = 300 * time.Second
	ejectInterval = 10 * time.Second // n falls by one for each of these intervals after the first success
)

// A target is also ejected if at least half of its recent requests have failed. Recent are those of the last
// one to two times rateWindow. There must be at least rateRequests of them.
const (
	rateRequests = 20
	rateWindow   = 15 * time.Second
)

// outlier ejects a target that fails several times in a row, or for half of its requests.
type outlier struct {
	streak  atomic.Int32 // failures in a row
	until   atomic.Int64 // end of the ejection
	unclear atomic.Bool  // there was no success since the last ejection

	mu           sync.Mutex
	n            int     // recent ejections, as counted at healthySince; see lately
	from         instant // when the last ejection began
	healthySince instant // the first success after the last ejection; zero before it
	rate         rate
}

// rate counts the requests and failures of the current window and of the previous one. Only a failure starts
// a new window.
type rate struct {
	since        instant
	base         uint64 // successes of the target when the window began
	failed       uint64
	before       uint64 // requests in the window before
	failedBefore uint64
}

// isHigh counts a failure, and reports whether at least half of the recent requests have failed. succeeded is
// the target's number of successes so far.
func (r *rate) isHigh(now instant, succeeded uint64) bool {
	switch age := now.since(r.since); {
	case r.since == 0 || age > 2*rateWindow:
		*r = rate{since: now, base: succeeded}
	case age > rateWindow:
		*r = rate{since: now, base: succeeded, before: succeeded - r.base + r.failed, failedBefore: r.failed}
	}
	r.failed++
	failed := r.failed + r.failedBefore
	all := succeeded - r.base + r.failed + r.before
	return all >= rateRequests && 2*failed >= all
}

func (o *outlier) succeeded(now instant) {
	if o.streak.Load() != 0 {
		o.streak.Store(0)
	}
	if !o.unclear.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// A request that succeeds during the ejection was sent before it, or because no
	// target was ready.
	if o.unclear.Load() && int64(now) >= o.until.Load() {
		o.healthySince = now
		o.unclear.Store(false)
	}
}

// failed counts a failure. succeeded is the target's number of successes so far.
func (o *outlier) failed(now instant, f *Fleet, succeeded uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if int64(now) < o.until.Load() {
		return // requests that were in flight when the target was ejected must not count again
	}
	high := o.rate.isHigh(now, succeeded)
	if o.streak.Add(1) < ejectAfter && !high {
		return
	}
	o.streak.Store(0)
	o.rate = rate{}
	o.n = min(o.lately(now)+1, int(ejectMax/ejectBase))
	o.from, o.healthySince = now, 0
	o.unclear.Store(true)
	o.until.Store(int64(now.add(min(f.jitter(ejectBase*time.Duration(o.n)), ejectMax))))
}

// lately returns the number of recent ejections: n, less one for each ejectInterval since
// the first success. Without a success it does not fall, because a dead target with few
// requests needs long to fail five times.
func (o *outlier) lately(now instant) int {
	if o.healthySince == 0 {
		return o.n
	}
	return max(0, o.n-int(now.since(o.healthySince)/ejectInterval))
}

// checked ends the ejection after a successful health check, if the check began later than
// the ejection. It keeps n, because a check does not prove that requests succeed. It
// reports whether it has ended an ejection.
func (o *outlier) checked(began instant) (ended bool) {
	if o.until.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.from > began {
		return false
	}
	o.streak.Store(0)
	return o.until.Swap(0) != 0
}
