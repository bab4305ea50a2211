package limit

import (
	"context"
	"time"
)

const (
	// shortWait divides Wait for Sheddable, and for all requests in a crowded queue.
	shortWait = 4
	// margin multiplies the expected wait: a request joins the queue only if it may wait
	// for that long. The estimate is a mean; without a margin half of the waiting requests
	// would time out.
	margin = 2
	// waitingPerFree is how many positions of the queue a key may hold for each free
	// position. One key alone gets two thirds of the queue, three keys get two sevenths
	// each, and there is always a position for a key without waiting requests. Positions
	// of lower classes count as free. The rule does not apply to requests without a key.
	waitingPerFree = 2
)

// join puts a request into the queue, or rejects it if it would probably time out there.
// After an early rejection the client can still try another gateway.
func (g *gate) join(ctx context.Context, s *share, class Class) (*waiter, *Refusal) {
	now := g.clock()
	wait := g.expect(s, class, now)
	reason := g.reason
	if !g.fits(s) {
		reason = Key
	}
	patience := g.patience(ctx, class, now)
	if g.bounds.queue == 0 || wait > patience/margin {
		return nil, g.refuseLocked(reason, wait)
	}
	if mine := s.upTo(class); s.key != "" && mine > 0 && mine >= waitingPerFree*(g.bounds.queue-g.queue.upTo(class)) {
		if reason != Key {
			reason = Queue
		}
		return nil, g.refuseLocked(reason, wait)
	}
	if g.queue.waiting >= g.bounds.queue && !g.pushOut(class, now) {
		return nil, g.refuseLocked(Queue, wait)
	}
	w := &waiter{share: s, class: class, since: now, until: now + patience, done: make(chan struct{})}
	g.queue.add(w, g.fits(s))
	if g.room(class) && !g.leavesSlots(s, class) {
		g.parkUntilRelease(s)
	}
	return w, nil
}

// patience returns how long a request may wait.
func (g *gate) patience(ctx context.Context, class Class, now time.Duration) time.Duration {
	wait := g.bounds.wait
	if class == Sheddable || g.crowded(class, now) {
		wait /= shortWait
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	return wait
}

// crowded reports whether a class's queue has not been empty for as long as Wait. A
// burst may fill a queue, but a permanent queue only delays everyone, so it is kept
// short.
func (g *gate) crowded(class Class, now time.Duration) bool {
	l := &g.queue.lines[class]
	return l.ready > 0 && now-l.began > g.bounds.wait
}

// expect estimates how long a request would wait for a slot behind the requests ahead of it.
// Of the other keys in its class it counts only the requests whose turns come first.
func (g *gate) expect(s *share, class Class, now time.Duration) time.Duration {
	if !g.fits(s) {
		return g.hold * time.Duration(s.waiting+1) / time.Duration(g.most(s))
	}
	if g.bounds.limit == 0 {
		return 0
	}
	l := &g.queue.lines[class]
	ahead := min(l.ready, (s.lists[class].Len()+1)*l.turns.Len())
	// The pace at which the class is served accounts for more important classes.
	wait := l.pace * time.Duration(ahead+1)
	for c := range class {
		ahead += g.queue.lines[c].ready
	}
	wait = max(wait, g.hold*time.Duration(ahead+1)/time.Duration(max(g.places(class), 1)))
	if l.ready > 0 {
		// The time since the class was last served: the averages do not reflect a target
		// that hangs.
		wait = max(wait, now-l.moved)
	}
	return wait
}

// pushOut makes room for a class by refusing the newest request of a lower class.
func (g *gate) pushOut(class Class, now time.Duration) bool {
	for c := Class(classes - 1); c > class; c-- {
		e := g.queue.lines[c].all.Back()
		if e == nil {
			continue
		}
		w := e.Value.(*waiter)
		wait := g.expect(w.share, c, now)
		g.queue.remove(w)
		w.refusal = g.refuseLocked(Queue, wait)
		close(w.done)
		return true
	}
	return false
}
