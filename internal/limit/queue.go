package limit

import (
	"container/list"
	"time"
)

// queue holds who waits: a line for each class, in it a share for each key, in it
// the requests in their order. It knows nothing of places; a key that has all of
// its own is parked, and its requests are passed over.
type queue struct {
	lines   [classes]line
	shares  map[string]*share
	sweepAt int
	waiting int
}

// line is one class of a queue.
type line struct {
	turns list.List     // of *share, those that are not parked; the first one's turn is next
	all   list.List     // of *waiter, in the order of arrival
	ready int           // how many wait in the shares of turns
	began time.Duration // since when ready is not 0
	moved time.Duration // when one of them was last served, or ready began
	pace  time.Duration // between two that are served, smoothed, since ready began
}

// share is what one key has: open in the gate, and waiting.
type share struct {
	key     string
	max     int // its own figure, 0 where it has none
	open    int // where keys are counted
	waiting int
	lists   [classes]list.List     // of *waiter
	turns   [classes]*list.Element // in the line's turns; nil without a waiter, and when parked
}

// waiter is a request in the queue. The gate's lock guards it; done is closed
// when it was taken out by somebody else than itself.
type waiter struct {
	share   *share
	class   Class
	since   time.Duration
	until   time.Duration
	element *list.Element // in its share; nil when not in the queue
	arrival *list.Element // in its line
	done    chan struct{}
	place   place
	refusal *Refusal
}

// keepShares is how many keys are kept at least, so that a key that comes and
// goes is not made anew each time.
const keepShares = 4096

func newQueue() queue {
	return queue{shares: map[string]*share{}, sweepAt: keepShares}
}

// share is the share of a key, made where there is none.
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

// upTo is how many wait of a class and of those before it.
func (q *queue) upTo(class Class) int {
	n := 0
	for c := range class + 1 {
		n += q.lines[c].all.Len()
	}
	return n
}

// upTo is how many of them are the share's.
func (s *share) upTo(class Class) int {
	n := 0
	for c := range class + 1 {
		n += s.lists[c].Len()
	}
	return n
}

// next is the share whose turn it is in a class, nil where nobody waits.
func (q *queue) next(c Class) *share {
	e := q.lines[c].turns.Front()
	if e == nil {
		return nil
	}
	return e.Value.(*share)
}

// add puts a waiter at the end of its share. A key that has all of its own places
// is left parked.
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

// remove takes a waiter out.
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

// serve takes out a key's oldest waiter of a class, who gets a place. The key's
// next turn comes after everybody else's.
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

// park takes a key's turns away.
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

// unpark gives a key a turn wherever it waits without one.
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
