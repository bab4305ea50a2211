package cache

import (
	"context"
	"sync"
	"time"
)

// Run is a request that runs under an Idempotency-Key. One of Finish, Spend and
// Release ends it; what comes after the first of them does nothing, so Release can be
// deferred. They wait for no more than 100 ms; what could not be stored by then is
// stored when it can be.
type Run struct {
	once *Once
	record

	mu      sync.Mutex
	due     time.Time // when the next sign of life is to be given
	over    bool
	settled bool   // nothing is left to be stored
	last    []byte // what is stored at the end; nothing where the key is free again
	held    int64  // bytes of last that count as waiting
}

// Finish keeps the answer, whatever its status: an error that came from upstream is
// what came of this request. An answer that is too large is not kept, but that there
// was one.
func (r *Run) Finish(a *Answer) {
	if a.Status < 200 || a.Status > 599 || len(a.Body) > r.once.max {
		r.Spend()
		return
	}
	r.end(func() []byte {
		end := r.record
		end.kind, end.answer = full, a
		if end.at = a.At; end.at.IsZero() {
			end.at = r.once.now()
		}
		return end.encode()
	})
}

// Spend says that something was sent upstream and that there is no whole answer: the
// stream was cut, or the client went away.
func (r *Run) Spend() {
	r.end(func() []byte {
		end := r.record
		end.kind, end.at = spent, r.once.now()
		return end.encode()
	})
}

// Release frees the key, because nothing was sent upstream: the request was refused
// by the gateway itself.
func (r *Run) Release() { r.end(func() []byte { return nil }) }

func (r *Run) end(value func() []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over, r.last = true, value()
	if !r.store(onceEnd) {
		r.once.wait(r)
	}
}

// tend gives signs of life for what runs, and stores what could not be stored before.
func (n *Once) tend(ctx context.Context) {
	tick := time.NewTicker(onceTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.round()
		case <-ctx.Done():
			n.round()
			return
		}
	}
}

// round takes the runs one by one. Where the records cannot be reached each of them
// fails at once, see errDown.
func (n *Once) round() {
	n.mu.Lock()
	runs := make([]*Run, 0, len(n.open))
	for r := range n.open {
		runs = append(runs, r)
	}
	n.mu.Unlock()
	for _, r := range runs {
		r.tend()
	}
}

func (r *Run) tend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.once.now()
	switch {
	case r.over:
		if !r.store(onceEnd) && now.Sub(r.at) > r.once.keep {
			r.leave()
		}
	case !now.Before(r.due):
		r.renew(now)
	}
}

// renew says that the run is alive. Where the record was lost it is made again; where
// another has taken its place there is nothing left to do.
func (r *Run) renew(now time.Time) {
	next := r.record
	next.at = now
	there, err := r.claim(next.encode(), onceEnd)
	switch {
	case err != nil:
	case there != nil:
		r.leave()
	default:
		r.at, r.due = now, now.Add(r.once.lease/4)
	}
}

// store writes the end of a run and reports whether that is settled. That something
// else is there settles it too: it is this very end, of which the reply was lost, or
// another's.
func (r *Run) store(patience time.Duration) bool {
	if r.settled {
		return true
	}
	if _, err := r.claim(r.last, patience); err != nil {
		return false
	}
	r.leave()
	return true
}

func (r *Run) claim(value []byte, patience time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.once.locks.Claim(ctx, r.key, Claim{Mine: r.mine(), Value: value, TTL: r.once.keep})
}

// wait keeps the end of a run until it can be stored. Where too much waits already,
// only that it has run.
func (n *Once) wait(r *Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(r.last) > headLen && n.waiting+int64(len(r.last)) > onceWaiting {
		r.last = spend(r.last)
	}
	n.waiting += int64(len(r.last))
	r.held = int64(len(r.last))
}

// leave ends what is done for a run.
func (r *Run) leave() {
	n := r.once
	n.mu.Lock()
	defer n.mu.Unlock()
	r.settled = true
	n.waiting -= r.held
	r.held, r.last = 0, nil
	delete(n.open, r)
}

// OnceState is what there is to know about a Once.
type OnceState struct {
	Open    int   // runs that are under way, or whose end is not stored yet
	Waiting int64 // bytes of ends that are not stored yet
}

// Snapshot is for metrics.
func (n *Once) Snapshot() OnceState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return OnceState{Open: len(n.open), Waiting: n.waiting}
}
