package limit

import (
	"container/list"
	"time"
)

// queue holds the waiting requests: by class, within a class by key, and of a key in
// order of arrival. A key at its limit is parked: its requests are skipped.
type queue struct {
	lines   [classes]line
	shares  map[string]*share
	sweepAt int // number of shares at which idle ones are removed
	waiting int
}

// line is the queue of one class.
type line struct {
	turns list.List     // of *share, without parked ones; the first has the next turn
	all   list.List     // of *waiter, in order of arrival
	ready int           // number of waiters whose keys are not parked
	began time.Duration // since when ready is not 0
	moved time.Duration // when a waiter was last served, or began
	pace  time.Duration // time between two served waiters, smoothed, since began
}

// share holds the waiting requests of one key, and counts its open ones.
type share struct {
	key     string
	max     int // its own limit; 0 if it has none
	open    int // counted only if the gate or its keys have a limit
	waiting int
	lists   [classes]list.List     // of *waiter
	turns   [classes]*list.Element // in line.turns; nil without a waiter, and while parked
}

// waiter is a waiting request. It is guarded by the gate's lock. The gate closes done when
// it serves or refuses the waiter.
type waiter struct {
	share   *share
	class   Class
	since   time.Duration
	until   time.Duration
	element *list.Element // in its share; nil if not in the queue
	arrival *list.Element // in its line
	done    chan struct{}
	place   place
	refusal *Refusal
}

// keepShares is the number of idle keys to keep, so that they are not allocated for
// each request.
const keepShares = 4096

func newQueue() queue {
	return queue{shares: map[string]*share{}, sweepAt: keepShares}
}

// share returns the share of a key and creates it if needed.
func (q *queue) share(key string) *share {
	if s := q.shares[key]; s != nil {
		return s
	}
	if len(q.shares) >= q.sweepAt {
		for k, s := range q.shares {
			if s.open == 0 && s.waiting == 0 {
				delete(q.shares, k)
			}
		}
		q.sweepAt = max(keepShares, 2*len(q.shares))
	}
	s := &share{key: key}
	q.shares[key] = s
	return s
}

// upTo returns the number of waiters of a class and of more important ones.
func (q *queue) upTo(class Class) int {
	n := 0
	for c := range class + 1 {
		n += q.lines[c].all.Len()
	}
	return n
}

// upTo returns the number of the share's waiters of a class and of more important ones.
func (s *share) upTo(class Class) int {
	n := 0
	for c := range class + 1 {
		n += s.lists[c].Len()
	}
	return n
}

// next returns the share that has the next turn in a class; nil if no key waits.
func (q *queue) next(c Class) *share {
	e := q.lines[c].turns.Front()
	if e == nil {
		return nil
	}
	return e.Value.(*share)
}

// add appends a waiter to its share. fits says that the key is below its limit; otherwise
// it stays parked.
func (q *queue) add(w *waiter, fits bool) {
	s, l := w.share, &q.lines[w.class]
	w.element = s.lists[w.class].PushBack(w)
	w.arrival = l.all.PushBack(w)
	s.waiting++
	q.waiting++
	switch {
	case s.turns[w.class] != nil:
		l.ready++
	case fits:
		q.unpark(s, w.since)
	}
}

// remove removes a waiter.
func (q *queue) remove(w *waiter) {
	s, l := w.share, &q.lines[w.class]
	s.lists[w.class].Remove(w.element)
	l.all.Remove(w.arrival)
	w.element = nil
	s.waiting--
	q.waiting--
	turn := s.turns[w.class]
	if turn == nil {
		return
	}
	l.ready--
	if s.lists[w.class].Len() == 0 {
		l.turns.Remove(turn)
		s.turns[w.class] = nil
	}
}

// serve removes and returns the oldest waiter of a key in a class. The caller gives it a
// slot. The key's next turn comes after those of all other keys.
func (q *queue) serve(s *share, c Class, now time.Duration) *waiter {
	w := s.lists[c].Front().Value.(*waiter)
	q.remove(w)
	l := &q.lines[c]
	if turn := s.turns[c]; turn != nil {
		l.turns.MoveToBack(turn)
	}
	l.pace += (now - l.moved - l.pace) / smooth
	l.moved = now
	return w
}

// park removes a key from the queue's turns.
func (q *queue) park(s *share) {
	for c := range s.turns {
		if s.turns[c] == nil {
			continue
		}
		q.lines[c].turns.Remove(s.turns[c])
		q.lines[c].ready -= s.lists[c].Len()
		s.turns[c] = nil
	}
}

// unpark gives a key a turn in each class in which it waits.
func (q *queue) unpark(s *share, now time.Duration) {
	for c := range s.turns {
		if s.turns[c] != nil || s.lists[c].Len() == 0 {
			continue
		}
		l := &q.lines[c]
		if l.ready == 0 {
			l.began, l.moved, l.pace = now, now, 0
		}
		s.turns[c] = l.turns.PushBack(s)
		l.ready += s.lists[c].Len()
	}
}
