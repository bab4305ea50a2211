package limit

import (
	"context"
	"sync"
	"time"
)

// gate has a number of places and a queue for those who find none. After every
// change it serves the queue, so a place that is free is one that nobody in the
// queue can have, and whoever comes may take it without passing anybody.
type gate struct {
	reason string // of a refusal for want of a place
	clock  func() time.Duration

	mu      sync.Mutex
	bounds  bounds
	open    int
	entered uint64
	hold    time.Duration // for how long places are held, smoothed; 0 means not known
	queue   queue
	refused map[string]uint64
	onces   []*once // of places that were given back
}

// bounds is what a configuration means to one gate.
type bounds struct {
	limit   int // places; 0 means no limit
	reserve int // of them, those for Critical alone
	perKey  int // places of one key; 0 means no limit
	queue   int
	wait    time.Duration
	timed   bool // take the time of every entry: an adaptive limit must know it
}

const (
	// timed is how many entries one hold is measured for: the clock costs as much
	// as the rest of an entry.
	timed = 8
	// smooth is how many measured holds an average remembers.
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

// set changes the bounds and lets in who now has room. Who waits keeps waiting,
// also in a queue that is now too long.
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

// try takes a place if there is one, for no key.
func (g *gate) try(class Class) (place, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.room(class) {
		return place{}, false
	}
	return g.take(nil), true
}

// enter takes a place or waits for one.
func (g *gate) enter(ctx context.Context, c Caller) (place, *Refusal) {
	g.mu.Lock()
	var s *share
	if (g.bounds.perKey > 0 || c.Max > 0) && c.Key != "" {
		s = g.queue.share(c.Key)
		s.max = c.Max
	}
	if g.room(c.Class) && g.fits(s) {
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

// await waits for a place, the end of the context or the end of patience.
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
	case w.refusal != nil: // pushed out
		return place{}, w.refusal
	case w.element == nil: // served, perhaps in the moment when the wait ended
		return w.place, nil
	}
	if reason != Cancelled && !g.fits(w.share) {
		reason = Key
	}
	wait := g.expect(w.share, w.class, g.clock())
	g.queue.remove(w)
	return place{}, g.refuseLocked(reason, wait)
}

// leave gives a place back.
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
	if g.queue.waiting == 0 {
		return
	}
	if p.share != nil {
		g.queue.unpark(p.share, g.clock())
	}
	g.serve()
}

func (g *gate) held(d time.Duration) {
	if g.hold == 0 {
		g.hold = d
		return
	}
	n := time.Duration(smooth)
	if g.bounds.timed {
		n *= timed
	}
	g.hold += (d - g.hold) / n
}

// take is only called where there is room.
func (g *gate) take(s *share) place {
	g.open++
	g.entered++
	o := g.once()
	p := place{gate: g, once: o, turn: o.turn.Load(), share: s}
	if s != nil {
		s.open++
	}
	if g.worthTiming(s) {
		p.since = g.clock()
	}
	return p
}

// once is one that no place has.
func (g *gate) once() *once {
	last := len(g.onces) - 1
	if last < 0 {
		return new(once)
	}
	o := g.onces[last]
	g.onces = g.onces[:last]
	return o
}

// worthTiming reports whether to measure how long a place is held: only where
// somebody may have to wait for it soon, or an adaptive limit asks for it.
func (g *gate) worthTiming(s *share) bool {
	if g.bounds.timed {
		return true
	}
	if g.bounds.queue == 0 || g.hold != 0 && g.entered%timed != 0 {
		return false
	}
	return g.open*2 > g.bounds.limit && g.bounds.limit > 0 || s != nil && s.open*2 > g.most(s)
}

func (g *gate) room(class Class) bool {
	return g.bounds.limit == 0 || g.open < g.places(class)
}

// places is how many a class may fill.
func (g *gate) places(class Class) int {
	if class == Critical {
		return g.bounds.limit
	}
	return g.bounds.limit - g.bounds.reserve
}

// counted is the share that a place counts for, nil where keys have no limit.
func (g *gate) counted(s *share) *share {
	if g.most(s) == 0 || s.key == "" {
		return nil
	}
	return s
}

// most is how many places a key may have: its own figure, or everybody's.
func (g *gate) most(s *share) int {
	if s.max > 0 {
		return s.max
	}
	return g.bounds.perKey
}

// fits reports whether a key may have one more place.
func (g *gate) fits(s *share) bool {
	return s == nil || s.key == "" || g.most(s) == 0 || s.open < g.most(s)
}

// serve gives the free places to those who wait: the most important class first,
// within it one to each key in turn, of a key the oldest.
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
			w := g.queue.serve(s, c, g.clock())
			w.place = g.take(g.counted(s))
			close(w.done)
		}
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
