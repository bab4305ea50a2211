package limit

import (
	"sync/atomic"
	"time"
)

// Permit is a place that was given. It is a value: copies are the same permit,
// and the zero Permit is one that was released. Whoever has one releases it.
type Permit struct {
	place  place
	target *Target // nil for a place in the process
}

// place is what a gate gave and gets back.
type place struct {
	gate  *gate
	once  *once
	turn  uint64
	share *share        // nil where keys are not counted
	since time.Duration // 0 where the time is not taken
}

// once lets a place be given back one time only. The gate uses it again for a
// later place, with the next turn, so that a permit costs no allocation.
type once struct{ turn atomic.Uint64 }

// Release gives the place back. Only the first call does, whatever the order of
// calls and copies.
func (p Permit) Release() {
	if o := p.place.once; o != nil && o.turn.CompareAndSwap(p.place.turn, p.place.turn+1) {
		p.place.gate.leave(p.place)
	}
}

// FirstToken tells how long the target took for the first token, counted from
// when the request was sent. It feeds the adaptive limit. Without effect on a
// place in the process, and after Release.
func (p Permit) FirstToken(d time.Duration) {
	if p.held() {
		p.target.adapt(func(a *adaptive, now time.Duration, open int) { a.firstToken(d, p.place.since, now, open) })
	}
}

// Failed tells that the target was too busy: it timed out, dropped the request or
// answered 429 or 529. The adaptive limit goes down. Without effect on a place
// in the process, and after Release.
func (p Permit) Failed() {
	if p.held() {
		p.target.adapt(func(a *adaptive, now time.Duration, _ int) { a.failed(now) })
	}
}

func (p Permit) held() bool {
	return p.target != nil && p.place.once.turn.Load() == p.place.turn
}
