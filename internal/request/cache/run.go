package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run is a running request with an Idempotency-Key. Finish, FinishWithoutResponse or
// Release ends it; only the first call has an effect, so Release can be deferred. They
// block for at most 100 ms. What is not stored by then is stored in the background.
type Run struct {
	once   *Once
	tenant string
	record

	mu      sync.Mutex
	due     time.Time // time of the next renewal
	over    bool
	settled bool   // everything is stored
	last    []byte // the final record; empty if the key is released
	held    int64  // bytes of last that count as waiting
}

// Finish stores the response, whatever its status: an upstream error is the result of the
// request. For a response that is too large it records only that the request ran.
func (r *Run) Finish(a *Response) {
	if a.Status < 200 || a.Status > 599 || len(a.Body) > r.once.max {
		r.FinishWithoutResponse()
		return
	}
	r.end(func() []byte {
		end := r.record
		end.kind, end.response = full, a
		if end.at = a.At; end.at.IsZero() {
			end.at = r.once.now()
		}
		return end.encode()
	})
}

// FinishWithoutResponse records that the request was sent upstream and has no complete
// response: the stream was truncated, or the client disconnected.
func (r *Run) FinishWithoutResponse() {
	r.end(func() []byte {
		end := r.record
		end.kind, end.at = lost, r.once.now()
		return end.encode()
	})
}

// Release frees the key if the gateway rejected the request without sending it upstream.
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

// tend renews the records of open runs and stores final records that could not be stored
// before.
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

// round processes the open runs one by one. While the store is down each fails at once
// with errDown.
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
			r.settle()
		}
	case !now.Before(r.due):
		r.renew(now)
	}
}

// renew renews the record of an open run. It writes a lost record again, and stops if
// another run has the key.
func (r *Run) renew(now time.Time) {
	next := r.record
	next.at = now
	there, err := r.claim(next.encode(), onceEnd)
	switch {
	case err != nil && !errors.Is(err, errForged):
	case err != nil, there != nil:
		r.settle()
	default:
		r.at, r.due = now, now.Add(r.once.lease/4)
	}
}

// store writes the final record of a run and reports whether the run is settled. It is
// also settled if a different record is stored: its own, whose reply was lost, or that of
// another run.
func (r *Run) store(timeout time.Duration) bool {
	if r.settled {
		return true
	}
	if _, err := r.claim(r.last, timeout); err != nil && !errors.Is(err, errForged) && !r.once.crowded() {
		return false
	}
	r.settle()
	return true
}

func (r *Run) claim(value []byte, timeout time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return r.once.locks.Claim(ctx, r.key, Claim{Mine: r.mine(), Value: value, TTL: r.once.keep, Tenant: r.tenant})
}

// wait holds the final record of a run until it can be stored. If too many bytes wait, it
// drops the response.
func (n *Once) wait(r *Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(r.last) > headLen && n.waiting+int64(len(r.last)) > onceWaiting {
		r.last = dropResponse(r.last)
	}
	n.waiting += int64(len(r.last))
	r.held = int64(len(r.last))
}

// settle removes a run from the open runs.
func (r *Run) settle() {
	n := r.once
	n.mu.Lock()
	defer n.mu.Unlock()
	r.settled = true
	n.waiting -= r.held
	r.held, r.last = 0, nil
	delete(n.open, r)
}

// OnceState is the state of a Once for metrics.
type OnceState struct {
	Open    int   // runs that have not ended, or whose end is not stored yet
	Waiting int64 // bytes of final records that are not stored yet
}

// Snapshot returns the current state.
func (n *Once) Snapshot() OnceState {
	n.mu.Lock()
	defer n.mu.Unlock()
	return OnceState{Open: len(n.open), Waiting: n.waiting}
}
