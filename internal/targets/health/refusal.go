package health

import (
	"sync"
	"sync/atomic"
	"time"
)

// Refusal of a credential.
const (
	refuseBase = 60 * time.Second
	refuseMax  = 10 * time.Minute
	probeTime  = 60 * time.Second // after which a probe without outcome no longer counts
)

// refusal tracks whether an upstream accepts the gateway's credential.
type refusal struct {
	until atomic.Int64 // end of the refusal; 0: accepted; in the past: the next request is a probe

	mu      sync.Mutex
	n       int // refusals in a row
	probing bool
}

func (r *refusal) refused(now instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(now) < r.until.Load() && !r.probing { // requests that were in flight together count once
		return
	}
	r.probing = false
	r.until.Store(int64(now.add(min(refuseBase<<min(r.n, 4), refuseMax))))
	r.n++
}

// probe makes the current request the probe, and blocks other requests until its outcome
// is known. Two requests that find the target ready at the same moment may both be sent,
// which costs one more refusal.
func (r *refusal) probe(now instant) {
	if r.until.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := r.until.Load(); until != 0 && int64(now) >= until {
		r.probing = true
		r.until.Store(int64(now.add(probeTime)))
	}
}

// accepted ends the refusal after a success.
func (r *refusal) accepted() {
	if r.until.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n, r.probing = 0, false
	r.until.Store(0)
}

// unclear makes the next request the probe, because this one failed for another
// reason.
func (r *refusal) unclear(now instant) {
	if r.until.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.probing {
		r.probing = false
		r.until.Store(int64(now))
	}
}
