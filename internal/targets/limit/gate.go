package limit

import (
	"context"
	"slices"
	"sync"
	"time"
)

// gate has a number of slots (type place) and a queue. It serves the queue after every change.
// After that no waiting request can use a slot that is still free. A new request may take it
// at once.
type gate struct {
	reason string // of a refusal because all slots are taken
	clock  func() time.Duration

	mu      sync.Mutex
	bounds  bounds
	open    int
	entered uint64
	hold    time.Duration // how long slots are held, smoothed; 0 means unknown
	queue   queue
	turn    *Turn    // nil: the target may always be used
	parked  []*share // keys that wait because they must leave slots to others
	refused map[string]uint64
	onces   []*once // those of released slots, for reuse
}

// bounds is the configuration of a gate.
type bounds struct {
	limit   int // slots; 0 means no limit
	reserve int // slots for Critical alone
	perKey  int // slots of one key; 0 means no limit
	queue   int
	wait    time.Duration
	timed   bool // record the time of every entry, for an adaptive limit
}

const (
	// timedEvery is the number of entries of which one is timed: reading the clock costs
	// as much as the rest of an entry.
	timedEvery = 8
	// smooth is the number of measurements in a moving average.
	smooth = 16
)

func newGate(reason string, clock func() time.Duration) *gate {
	return &gate{reason: reason, clock: clock, refused: map[string]uint64{}, queue: newQueue()}
}

func (g *gate) use(b bounds) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.set(b)
}

// set changes the bounds and admits waiting requests for which a slot is free now. The
// others keep waiting, even if the queue is longer than its new maximum.
func (g *gate) set(b bounds) {
	g.bounds = b
	if g.queue.waiting == 0 {
		return
	}
	now := g.clock()
	for _, s := range g.queue.shares {
		g.queue.unpark(s, now)
	}
	g.serve()
}

// try takes a slot if one is free.
func (g *gate) try(c Caller) (place, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.shareOf(c)
	if !g.room(c.Class) || !g.leavesSlots(s, c.Class) {
		return place{}, false
	}
	return g.take(s), true
}

// shareOf returns the share that a request counts for; nil if there is nothing to count.
func (g *gate) shareOf(c Caller) *share {
	if c.Key == "" || g.bounds.limit == 0 && g.bounds.perKey == 0 && c.Max == 0 {
		return nil
	}
	return g.queue.share(c.Key)
}

// heldPerFree is how many slots a key with at least half of all slots may hold for each slot
// that it leaves free.
const heldPerFree = 8

// leavesSlots reports whether a key leaves enough slots to others if it takes one more. Once
// there is another key, a key with at least half of the slots must leave free an eighth of
// the number that it holds, and at least one. So no key can keep the others out, however
// many requests it opens and however long they last.
func (g *gate) leavesSlots(s *share, class Class) bool {
	if s == nil || s.key == "" || g.bounds.limit == 0 || len(g.queue.shares) < 2 {
		return true
	}
	places := g.places(class)
	return s.open < (places+1)/2 || s.open < heldPerFree*(places-g.open-1)
}

// enter takes a slot or waits for one.
func (g *gate) enter(ctx context.Context, c Caller) (place, *Refusal) {
	g.mu.Lock()
	s := g.shareOf(c)
	if s != nil {
		s.max = c.Max
	}
	if g.room(c.Class) && g.fits(s) && g.leavesSlots(s, c.Class) {
		p := g.take(s)
		g.mu.Unlock()
		return p, nil
	}
	w, refusal := g.join(ctx, g.queue.share(c.Key), c.Class)
	g.mu.Unlock()
	if refusal != nil {
		return place{}, refusal
	}
	return g.await(ctx, w)
}

// await waits for a slot, the end of the context or the maximum wait.
func (g *gate) await(ctx context.Context, w *waiter) (place, *Refusal) {
	timer := time.NewTimer(w.until - w.since)
	defer timer.Stop()
	reason := g.reason
	select {
	case <-w.done:
	case <-timer.C:
	case <-ctx.Done():
		reason = Cancelled
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.refusal != nil: // a more important request took its position
		return place{}, w.refusal
	case w.element == nil: // served, perhaps just as the wait ended
		return w.place, nil
	}
	if reason != Cancelled && !g.fits(w.share) {
		reason = Key
	}
	wait := g.expect(w.share, w.class, g.clock())
	g.queue.remove(w)
	return place{}, g.refuseLocked(reason, wait)
}

// leave releases a slot.
func (g *gate) leave(p place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.onces = append(g.onces, p.once)
	if p.since != 0 {
		g.held(g.clock() - p.since)
	}
	if p.share != nil {
		p.share.open--
	}
	if g.turn != nil && g.open == 0 {
		g.turn.ended()
	}
	if g.queue.waiting == 0 {
		return
	}
	if p.share != nil {
		g.queue.unpark(p.share, g.clock())
	}
	for _, s := range g.parked {
		g.queue.unpark(s, g.clock())
	}
	g.parked = g.parked[:0]
	g.serve()
}

// held adds a measurement to the average time for which slots are held.
func (g *gate) held(d time.Duration) {
	if g.hold == 0 {
		g.hold = d
		return
	}
	n := time.Duration(smooth)
	if g.bounds.timed {
		n *= timedEvery
	}
	g.hold += (d - g.hold) / n
}

// take takes a slot. One must be free.
func (g *gate) take(s *share) place {
	g.open++
	g.entered++
	o := g.once()
	p := place{gate: g, once: o, generation: o.generation.Load(), share: s}
	if s != nil {
		s.open++
	}
	if g.worthTiming(s) {
		p.since = g.clock()
	}
	return p
}

// once returns a once that belongs to no slot.
func (g *gate) once() *once {
	last := len(g.onces) - 1
	if last < 0 {
		return new(once)
	}
	o := g.onces[last]
	g.onces = g.onces[:last]
	return o
}

// worthTiming reports whether to measure how long a slot is held. That is necessary for an
// adaptive limit, and if requests may soon have to wait.
func (g *gate) worthTiming(s *share) bool {
	if g.bounds.timed {
		return true
	}
	if g.bounds.queue == 0 || g.hold != 0 && g.entered%timedEvery != 0 {
		return false
	}
	return g.open*2 > g.bounds.limit && g.bounds.limit > 0 || s != nil && g.most(s) > 0 && s.open*2 > g.most(s)
}

// room reports whether a class may take a slot now.
func (g *gate) room(class Class) bool {
	if g.turn != nil && !g.turn.open.Load() {
		return false
	}
	return g.bounds.limit == 0 || g.open < g.places(class)
}

// places returns how many slots a class may use.
func (g *gate) places(class Class) int {
	if class == Critical {
		return g.bounds.limit
	}
	return g.bounds.limit - g.bounds.reserve
}

// most returns the limit of a key: its own, or else the common one.
func (g *gate) most(s *share) int {
	if s.max > 0 {
		return s.max
	}
	return g.bounds.perKey
}

// fits reports whether a key may have one more slot.
func (g *gate) fits(s *share) bool {
	return s == nil || s.key == "" || g.most(s) == 0 || s.open < g.most(s)
}

// serve gives free slots to waiting requests: to the classes in order of importance, to the
// keys of a class in turn, and to the oldest request of a key.
func (g *gate) serve() {
	for c := range Class(classes) {
		for g.room(c) {
			s := g.queue.next(c)
			if s == nil {
				break
			}
			if !g.fits(s) {
				g.queue.park(s)
				continue
			}
			if !g.leavesSlots(s, c) {
				g.parkUntilRelease(s)
				continue
			}
			w := g.queue.serve(s, c, g.clock())
			w.place = g.take(g.shareOf(Caller{Key: s.key, Max: s.max}))
			close(w.done)
		}
	}
}

// parkUntilRelease parks a key until a request releases its slot.
func (g *gate) parkUntilRelease(s *share) {
	g.queue.park(s)
	if !slices.Contains(g.parked, s) {
		g.parked = append(g.parked, s)
	}
}

func (g *gate) refuse(reason string, wait time.Duration) *Refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refuseLocked(reason, wait)
}

func (g *gate) refuseLocked(reason string, wait time.Duration) *Refusal {
	g.refused[reason]++
	if reason == Cancelled {
		return &Refusal{Reason: reason}
	}
	return &Refusal{Reason: reason, RetryAfter: retryAfter(wait)}
}
