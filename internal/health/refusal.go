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
	probeTime  = 60 * time.Second // after which a probe without outcome is given up
)

// refusal is whether an upstream accepts us.
type refusal struct {
	until atomic.Int64 // 0: accepted; in the past: the next request probes

	mu      sync.Mutex
	n       int // refusals in a row
	probing bool
}

func (r *refusal) refused(now instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int64(now) < r.until.Load() && !r.probing { // many requests in flight are refused once
		return
	}
	r.probing = false
	r.until.Store(int64(now.add(min(refuseBase<<min(r.n, 4), refuseMax))))
	r.n++
}

// probe makes the request that is sent now the one that finds out, and the
// others wait for it. Two requests that both saw the target ready at the same
// moment may both be sent; that costs one refusal more.
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

// accepted ends the refusal: an answer is better evidence than a 401.
func (r *refusal) accepted() {
	if r.until.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n, r.probing = 0, false
	r.until.Store(0)
}

// unclear lets the next request probe, because this one failed for another
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
