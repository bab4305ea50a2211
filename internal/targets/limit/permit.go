package limit

import (
	"sync/atomic"
	"time"
)

// Permit is the right to use a slot until Release. It is a value: copies are the same
// permit, and the zero Permit is a released one.
type Permit struct {
	place  place
	target *Target // nil for a slot of the process
}

// place is a slot of a gate.
type place struct {
	gate       *gate
	once       *once
	generation uint64        // that of once for this slot
	share      *share        // nil if it counts for no key
	since      time.Duration // when it was taken; 0 if not recorded
}

// once ensures that a slot is released only once. The gate reuses it for a later slot, with
// the next generation, so that a permit costs no allocation.
type once struct{ generation atomic.Uint64 }

// Release releases the slot. Only the first call on any copy has an effect.
func (p Permit) Release() {
	if o := p.place.once; o != nil && o.generation.CompareAndSwap(p.place.generation, p.place.generation+1) {
		p.place.gate.leave(p.place)
	}
}

// FirstToken reports the target's time to first token to its adaptive limit. It has no
// effect on a slot of the process, and after Release.
func (p Permit) FirstToken(d time.Duration) {
	if p.held() {
		p.target.adapt(func(a *adaptive, now time.Duration, open int) { a.firstToken(p.key(), d, p.place.since, now, open) })
	}
}

// Failed reports that the target was overloaded: it timed out, dropped the request or
// returned 429 or 529. It lowers the adaptive limit. It has no effect on a slot of the
// process, and after Release.
func (p Permit) Failed() {
	if p.held() {
		p.target.adapt(func(a *adaptive, now time.Duration, _ int) { a.failed(p.key(), now) })
	}
}

// key returns the key that has the slot.
func (p Permit) key() string {
	if p.place.share == nil {
		return ""
	}
	return p.place.share.key
}

// held reports whether the permit is for a slot of a target that is not yet released.
func (p Permit) held() bool {
	return p.target != nil && p.place.once.generation.Load() == p.place.generation
}
