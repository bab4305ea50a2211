package health

import (
	"sync/atomic"
	"time"
)

// RecentTime is the time of which Recent counts requests.
const RecentTime = 15 * time.Minute

// recent counts the outcomes of a target by minute, for what operators are shown. Routing does not read it.
type recent struct {
	minutes [16]outcomes // one more than RecentTime, because the present one is not over
}

// outcomes are those of a minute. Requests that end while a minute is cleared may be lost.
type outcomes struct {
	minute            atomic.Int64 // since the fleet began, plus one
	succeeded, failed atomic.Int64
}

func (r *recent) add(now instant, failed bool) {
	n := int64(time.Duration(now)/time.Minute) + 1
	m := &r.minutes[n%int64(len(r.minutes))]
	if old := m.minute.Load(); old != n && m.minute.CompareAndSwap(old, n) {
		m.succeeded.Store(0)
		m.failed.Store(0)
	}
	if failed {
		m.failed.Add(1)
	} else {
		m.succeeded.Add(1)
	}
}

// count returns the successes and all requests of the last 15 minutes.
func (r *recent) count(now instant) (succeeded, all int64) {
	n := int64(time.Duration(now)/time.Minute) + 1
	for i := range r.minutes {
		if m := &r.minutes[i]; m.minute.Load() > n-int64(len(r.minutes)) && m.minute.Load() <= n {
			ok := m.succeeded.Load()
			succeeded, all = succeeded+ok, all+ok+m.failed.Load()
		}
	}
	return succeeded, all
}

// Recent returns the successes and all requests of the target in the last 15 minutes.
func (t *Target) Recent() (succeeded, all int64) { return t.recent.count(t.fleet.now()) }

// Doubt returns why the next request to a target that may be tried will probably fail; empty: nothing speaks for it. It
// is one of Refused, NotAllowed, NoModel and Ejected, until a request succeeds.
func (t *Target) Doubt() string {
	switch {
	case t.key.until.Load() != 0:
		return Refused
	case t.missing.until.Load() != 0:
		return NoModel
	case t.denied.until.Load() != 0:
		return NotAllowed
	case t.outlier.unclear.Load():
		return Ejected
	}
	return ""
}
