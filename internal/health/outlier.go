package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ejection, with Envoy's figures.
const (
	ejectAfter    = 5 // failures in a row
	ejectBase     = 30 * time.Second
	ejectMax      = 300 * time.Second
	ejectInterval = 10 * time.Second // without an ejection, n falls by one
)

// outlier ejects a target that fails several times in a row.
type outlier struct {
	streak  atomic.Int32 // failures in a row
	until   atomic.Int64 // of the ejection
	unclear atomic.Bool  // ejected, and no success since

	mu        sync.Mutex
	n         int     // how often lately, as of wellSince
	from      instant // when the last ejection began
	wellSince instant // the first success after the last ejection; zero before it
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
	// A success during the ejection was sent before it, or in panic.
	if o.unclear.Load() && int64(now) >= o.until.Load() {
		o.wellSince = now
		o.unclear.Store(false)
	}
}

func (o *outlier) failed(now instant, f *Fleet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// What was in flight when the target was ejected fails during the ejection,
	// and must not count against it afterwards.
	if int64(now) < o.until.Load() || o.streak.Add(1) < ejectAfter {
		return
	}
	o.streak.Store(0)
	o.n = min(o.lately(now)+1, int(ejectMax/ejectBase))
	o.from, o.wellSince = now, 0
	o.unclear.Store(true)
	o.until.Store(int64(now.add(min(f.jitter(ejectBase*time.Duration(o.n)), ejectMax))))
}

// lately is n, less what has been made good since. Time alone makes nothing good:
// a dead target with few requests needs long to fail five times.
func (o *outlier) lately(now instant) int {
	if o.wellSince == 0 {
		return o.n
	}
	return max(0, o.n-int(now.since(o.wellSince)/ejectInterval))
}

// checked ends an ejection because of a good check that began at a time. n stays:
// a check does not prove that requests succeed.
func (o *outlier) checked(began instant) {
	if o.until.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.from <= began {
		o.until.Store(0)
		o.streak.Store(0)
	}
}
