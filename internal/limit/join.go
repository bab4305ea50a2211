package limit

import (
	"context"
	"time"
)

const (
	// hurry is the part of Wait that Sheddable waits at most, and anybody in a
	// crowded queue.
	hurry = 4
	// margin is how many times the expected wait a request must have. The estimate
	// is a mean; without a margin half of those it lets wait do so in vain.
	margin = 2
	// greed is how many times the free part of the queue one key may hold of it.
	// One key alone gets two thirds, three of them two sevenths each, and there is
	// always room for a key that has nobody waiting. What lesser classes hold is
	// free for a more important one. Nobody in particular is many.
	greed = 2
)

// join puts a request into the queue, unless it is known now that it would wait
// in vain: an early refusal lets the client go elsewhere.
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
	if mine := s.upTo(class); s.key != "" && mine > 0 && mine >= greed*(g.bounds.queue-g.queue.upTo(class)) {
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
	return w, nil
}

// patience is how long a request may wait.
func (g *gate) patience(ctx context.Context, class Class, now time.Duration) time.Duration {
	wait := g.bounds.wait
	if class == Sheddable || g.crowded(class, now) {
		wait /= hurry
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end))
	}
	return wait
}

// crowded reports that a class's queue has not been empty for as long as Wait. A
// burst may fill a queue; one that stays only makes everybody late. Then it is
// kept short.
func (g *gate) crowded(class Class, now time.Duration) bool {
	l := &g.queue.lines[class]
	return l.ready > 0 && now-l.began > g.bounds.wait
}

// expect estimates how long a request would wait: for as many places to be given
// back as there are requests before it. Other keys' requests of its own class
// count only as far as their turns come before its own.
func (g *gate) expect(s *share, class Class, now time.Duration) time.Duration {
	if !g.fits(s) {
		return g.hold * time.Duration(s.waiting+1) / time.Duration(g.most(s))
	}
	if g.bounds.limit == 0 {
		return 0
	}
	l := &g.queue.lines[class]
	ahead := min(l.ready, (s.lists[class].Len()+1)*l.turns.Len())
	// The pace at which the class is served knows what more important ones take.
	wait := l.pace * time.Duration(ahead+1)
	for c := range class {
		ahead += g.queue.lines[c].ready
	}
	wait = max(wait, g.hold*time.Duration(ahead+1)/time.Duration(max(g.places(class), 1)))
	if l.ready > 0 {
		// Nobody got a place for this long: then it takes at least so long, whatever
		// the averages say. They do not know of a target that hangs.
		wait = max(wait, now-l.moved)
	}
	return wait
}

// pushOut makes room for a class by refusing the newest of a lesser one.
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
