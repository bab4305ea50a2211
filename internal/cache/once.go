package cache

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"
)

// Locks holds the records of idempotent requests. It does not forget before the time,
// or says in its documentation when it does.
type Locks interface {
	Claim(ctx context.Context, k Key, c Claim) (there []byte, err error)
}

// Claim is one change of a record, made in one step: Value is put where nothing is or
// where what is there begins with Mine. What is there otherwise is returned. An empty
// Value removes.
type Claim struct {
	Mine, Value []byte
	TTL         time.Duration
}

func (c *Claim) owns(value []byte) bool { return bytes.HasPrefix(value, c.Mine) }

// MaxKey is the longest Idempotency-Key, in bytes.
const MaxKey = 255

// State is what is known about an Idempotency-Key.
type State int

// The states, and what a client is told.
const (
	Unavailable State = iota // nothing can be known: 503 with Retry-After. The client asked not to be charged twice, and nothing was charged yet
	Invalid                  // the key is empty, too long or not printable: 400
	First                    // this request runs
	Running                  // an earlier one still runs: 409 with Retry-After
	Done                     // its answer is here: it is given again
	Spent                    // it has run, or its gateway died; there is no answer to give: 409 without Retry-After
	Mismatch                 // the key was used for another request: 422
)

// Verdict is what Begin found.
type Verdict struct {
	State      State
	Run        *Run          // with First; it has to be ended
	Answer     *Answer       // with Done
	RetryAfter time.Duration // with Running and Unavailable
}

// OnceOptions are those of a Once.
type OnceOptions struct {
	Secret []byte        // at least 32 bytes, the same on all nodes
	Keep   time.Duration // how long what came of a request is known; 0: 24 hours
	Lease  time.Duration // how long after its last sign a run is taken for dead; 0: a minute
	Max    int           // bytes of an answer that is kept; 0: DefaultMax
	Now    func() time.Time
}

const (
	defaultKeep  = 24 * time.Hour
	defaultLease = time.Minute
	onceRetry    = time.Second            // that a client is asked to wait
	onceTick     = 250 * time.Millisecond // between two looks at what runs
	onceBegin    = 50 * time.Millisecond  // that a request waits for Begin: more than for a cache, because it is refused then
	onceEnd      = 100 * time.Millisecond // that an exchange which is over waits at most
	onceWaiting  = 64 << 20               // bytes of answers that could not be stored yet
)

// Once lets requests run at most once. Its record of a run is kept for a day from the
// start, and not only while the run gives signs of life: what has been sent upstream
// may have been charged, so a run whose gateway died is over and not free to run again.
type Once struct {
	keys  keyring
	locks Locks
	keep  time.Duration
	lease time.Duration
	max   int
	now   func() time.Time

	mu      sync.Mutex
	open    map[*Run]struct{}
	waiting int64 // bytes of answers in open
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// NewOnce returns one over records. Close it at the end.
func NewOnce(l Locks, o OnceOptions) (*Once, error) {
	keys, err := newKeyring(o.Secret)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Once{keys: keys, locks: l, keep: cmp.Or(o.Keep, defaultKeep), lease: cmp.Or(o.Lease, defaultLease), max: cmp.Or(o.Max, DefaultMax), now: o.Now,
		open: map[*Run]struct{}{}, stop: cancel}
	if n.now == nil {
		n.now = time.Now
	}
	n.done.Go(func() { n.tend(ctx) })
	return n, nil
}

// Recorder holds an answer of up to the limit.
func (n *Once) Recorder() *Recorder { return NewRecorder(n.max) }

// Begin asks whether a caller's request runs. The caller is the id of its key: two
// keys of one organisation do not share Idempotency-Keys, because whoever picks them
// does not know of the other.
func (n *Once) Begin(ctx context.Context, caller, key string, q *Request) Verdict {
	if key == "" || len(key) > MaxKey || !printable(key) {
		return Verdict{State: Invalid}
	}
	r := &Run{once: n, record: record{kind: running, key: n.keys.once(caller, key), digest: n.keys.digest(q), at: n.now()}}
	_, _ = rand.Read(r.token[:]) // it cannot fail
	r.due = r.at.Add(n.lease / 4)
	call, cancel := context.WithTimeout(ctx, onceBegin)
	defer cancel()
	there, err := n.locks.Claim(call, r.key, Claim{Mine: r.mine(), Value: r.encode(), TTL: n.keep})
	switch {
	case err != nil:
		n.unsure(r, err)
		return Verdict{State: Unavailable, RetryAfter: onceRetry}
	case there == nil:
		n.add(r)
		return Verdict{State: First, Run: r}
	}
	return n.judge(r, there)
}

// unsure is for a claim whose reply did not come: it may yet be made, and then it has
// to be taken back.
func (n *Once) unsure(r *Run, err error) {
	if errors.Is(err, errDown) || errors.Is(err, errFull) {
		return
	}
	r.over = true
	n.add(r)
}

// judge reads the record of an earlier request.
func (n *Once) judge(r *Run, there []byte) Verdict {
	old, err := decode(there, r.key)
	switch {
	case err != nil: // of another version of the gateway, or of another key
		return Verdict{State: Unavailable, RetryAfter: onceRetry}
	case old.digest != r.digest:
		return Verdict{State: Mismatch}
	case old.kind == full:
		return Verdict{State: Done, Answer: old.answer}
	case old.kind == running && r.at.Sub(old.at) < n.lease:
		return Verdict{State: Running, RetryAfter: onceRetry}
	}
	return Verdict{State: Spent}
}

func (n *Once) add(r *Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[r] = struct{}{}
}

// Close tries once more to store what is waiting. Runs that are still under way are
// taken for dead when their lease is over.
func (n *Once) Close() {
	n.stop()
	n.done.Wait()
}
