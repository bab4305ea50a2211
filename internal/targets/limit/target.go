package limit

import (
	"context"
	"sync/atomic"
	"time"
)

// Target bounds the open requests of one target.
type Target struct {
	gate     *gate
	max      atomic.Int64 // its own limit; 0 means Config.PerTarget
	adaptive *adaptive    // nil if the limit is fixed; guarded by the gate's lock
}

// adaptiveMax is the maximum of an adaptive limit if no maximum is configured.
const adaptiveMax = 1024

// TryEnter takes a slot if one is free. It does not wait, and does not count a refusal:
// the caller tries another target first.
func (t *Target) TryEnter(c Caller) (Permit, bool) {
	p, ok := t.gate.try(Caller{Key: c.Key, Class: c.Class.known()})
	if !ok {
		return Permit{}, false
	}
	return Permit{place: p, target: t}, true
}

// Enter takes a slot. If none is free, it waits in the target's queue. A key's own limit
// applies to the process, not to the target.
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

// adapt changes the adaptive limit and admits waiting requests.
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
