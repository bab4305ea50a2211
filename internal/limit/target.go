package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// Target bounds what one upstream has open.
type Target struct {
	gate     *gate
	max      atomic.Int64 // its own figure; 0 means Config.PerTarget
	adaptive *adaptive    // nil where the limit is fixed; the gate's lock guards it
}

// adaptiveMax is the ceiling of an adaptive limit that was given none.
const adaptiveMax = 1024

// TryEnter takes a place if there is one. It does not wait, and a failure is not
// a refusal yet: the caller tries another target first.
func (t *Target) TryEnter(class Class) (Permit, bool) {
	p, ok := t.gate.try(class.known())
	if !ok {
		return Permit{}, false
	}
	return Permit{place: p, target: t}, true
}

// Enter takes a place and waits for one in the target's queue, where callers take
// turns as they do for the process. A caller's own figure is the process's.
func (t *Target) Enter(ctx context.Context, c Caller) (Permit, *Refusal) {
	p, refusal := t.gate.enter(ctx, Caller{Key: c.Key, Class: c.Class.known()})
	if refusal != nil {
		return Permit{}, refusal
	}
	return Permit{place: p, target: t}, nil
}

func (t *Target) use(c Config) {
	limit := int(t.max.Load())
	if limit <= 0 {
		limit = max(c.PerTarget, 0)
	}
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if !c.Adaptive {
		t.adaptive = nil
		t.gate.set(c.target(limit))
		return
	}
	if limit == 0 {
		limit = adaptiveMax
	}
	if t.adaptive == nil {
		t.adaptive = newAdaptive()
	}
	t.adaptive.max = float64(limit)
	b := c.target(t.adaptive.places())
	b.timed = true
	t.gate.set(b)
}

// adapt changes the adaptive limit, and lets in who now has room.
func (t *Target) adapt(change func(a *adaptive, now time.Duration, open int)) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.adaptive == nil {
		return
	}
	change(t.adaptive, g.clock(), g.open)
	if limit := t.adaptive.places(); limit != g.bounds.limit {
		g.bounds.limit = limit
		g.serve()
	}
}
