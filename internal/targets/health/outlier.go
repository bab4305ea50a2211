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
	ejectInterval = 10 * time.Second // in which n falls by one without an ejection
)

// A target is also ejected if half of its requests fail, of at least rateRequests in the last rateWindow
// or two.
const (
	rateRequests = 20
	rateWindow   = 15 * time.Second
)

// outlier ejects a target that fails several times in a row, or every second time.
type outlier struct {
	streak  atomic.Int32 // failures in a row
	until   atomic.Int64 // end of the ejection
	unclear atomic.Bool  // there was no success since the last ejection

	mu           sync.Mutex
	n            int     // recent ejections, at healthySince
	from         instant // when the last ejection began
	healthySince instant // the first success after the last ejection; zero before it
	rate         rate
}

// rate counts the results of requests in the current window and in the one before. It is only moved to
// the current time when a request fails.
type rate struct {
	since        instant
	base         uint64 // successes of the target when the window began
	failed       uint64
	before       uint64 // requests in the window before
	failedBefore uint64
}

// isHigh counts a failure, and reports whether half of the requests fail.
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

// failed counts a failure of a target that has had this many successes.
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

// lately returns n, less one for each interval since the first success. Time alone
// does not lower it: a dead target with few requests needs long to fail five times.
func (o *outlier) lately(now instant) int {
	if o.healthySince == 0 {
		return o.n
	}
	return max(0, o.n-int(now.since(o.healthySince)/ejectInterval))
}

// checked ends an ejection after a successful check that began at a time. It keeps n:
// a check does not prove that requests succeed. It reports whether it did.
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
