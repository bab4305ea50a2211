package route

import (
	"sync"
	"sync/atomic"
	"time"
)

// fallbackEnd is how long the first target must have served all requests of a model
// before its fallback is over.
const fallbackEnd = 10 * time.Second

// Fallback tracks whether a model is served by another target than its first one. A nil
// Fallback tracks nothing.
type Fallback struct {
	active atomic.Bool

	mu       sync.Mutex
	requests int // since the fallback began
	began    time.Time
	latest   time.Time // the latest request that another target served
}

// EndedFallback is a fallback that is over.
type EndedFallback struct {
	Requests int // that another target served
	Duration time.Duration
}

// Served records a served request. It reports whether a fallback began with it, or the
// fallback that is over.
func (f *Fallback) Served(first bool) (entered bool, left *EndedFallback) {
	if f == nil || first && !f.active.Load() {
		return false, nil
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch active := f.active.Load(); {
	case !first:
		if !active {
			f.began, f.requests = now, 0
		}
		f.active.Store(true)
		f.requests++
		f.latest = now
		return !active, nil
	case active && now.Sub(f.latest) >= fallbackEnd:
		f.active.Store(false)
		return false, &EndedFallback{Requests: f.requests, Duration: now.Sub(f.began)}
	}
	return false, nil
}
