package limit

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// simulation runs events ordered by time, and by order of scheduling if the times are
// equal. It runs in a synctest bubble and starts an event only after all effects of the
// one before are finished, so that the Go scheduler does not influence the outcome.
type simulation struct {
	start     time.Time
	events    events
	scheduled int

	mu      sync.Mutex
	entered []entry // calls of enter that have returned and are not yet handled
	calls   int
}

type event struct {
	at  time.Duration
	seq int
	do  func()
}

// entry is the result of a call that may wait for a slot.
type entry struct {
	seq     int
	permit  Permit
	refusal *Refusal
	then    func(Permit, *Refusal)
}

// simulate calls begin and runs the events that it and later events schedule.
func simulate(t *testing.T, begin func(s *simulation)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := &simulation{start: time.Now()}
		begin(s)
		for len(s.events) > 0 {
			e := heap.Pop(&s.events).(event)
			time.Sleep(e.at - s.now()) // fake time
			s.settle()                 // handles waits that ended in the meantime
			e.do()
			s.settle()
		}
	})
}

// now returns the time since the start.
func (s *simulation) now() time.Duration { return time.Since(s.start) }

// after schedules an event.
func (s *simulation) after(d time.Duration, do func()) {
	s.scheduled++
	heap.Push(&s.events, event{s.now() + d, s.scheduled, do})
}

// enter calls a function that may wait for a slot, and handles its result.
func (s *simulation) enter(call func() (Permit, *Refusal), then func(Permit, *Refusal)) {
	s.calls++
	seq := s.calls
	go func() {
		permit, refusal := call()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.entered = append(s.entered, entry{seq, permit, refusal, then})
	}()
	synctest.Wait()
}

// settle handles the results of enter, in the order of the calls, until none is left.
func (s *simulation) settle() {
	for {
		synctest.Wait()
		s.mu.Lock()
		entered := s.entered
		s.entered = nil
		s.mu.Unlock()
		if len(entered) == 0 {
			return
		}
		slices.SortFunc(entered, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
		for _, e := range entered {
			e.then(e.permit, e.refusal)
		}
	}
}

// events is a heap.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
