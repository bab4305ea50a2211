package limit

import (
	"sync"
	"sync/atomic"
	"time"
)

// Permit is a place that was given. It is a value: copies are the same permit,
// and the zero Permit is one that was released. Whoever has one releases it.
type Permit struct {
	once   *once
	turn   uint64
	place  place
	target *Target // nil for a place in the process
}

// once lets a permit be released one time only. It is used again by a later
// permit, with the next turn, so that a permit costs no allocation.
type once struct{ turn atomic.Uint64 }

// place is what a gate gave and gets back.
type place struct {
	gate  *gate
	share *share        // nil where keys are not counted
	since time.Duration // 0 where the time is not taken
}

func newPermit(pool *sync.Pool, p place, t *Target) Permit {
	o := pool.Get().(*once)
	return Permit{once: o, turn: o.turn.Load(), place: p, target: t}
}

// Release gives the place back. Only the first call does, whatever the order of
// calls and copies.
func (p Permit) Release() {
	if p.once == nil || !p.once.turn.CompareAndSwap(p.turn, p.turn+1) {
		return
	}
	p.place.gate.onces.Put(p.once)
	p.place.gate.leave(p.place)
}

// FirstToken tells how long the target took for the first token, counted from
// when the request was sent. It feeds the adaptive limit. Without effect on a
// place in the process, and after Release.
func (p Permit) FirstToken(d time.Duration) {
	if p.held() {
		p.target.adapt(func(a *adaptive, now time.Duration, open int) { a.firstToken(d, now, open) })
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
	return p.target != nil && p.once.turn.Load() == p.turn
}
