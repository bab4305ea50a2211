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

// Locks stores the records of idempotent requests. An implementation keeps each record
// until its TTL expires, or documents when it does not.
type Locks interface {
	Claim(ctx context.Context, k Key, c Claim) (there []byte, err error)
}

// Claim is one atomic change of a record: it stores Value if there is no record, or if
// the record begins with Mine. Otherwise it returns the record. An empty Value removes
// the record. Tenant is whose share of the memory the record uses.
type Claim struct {
	Mine, Value []byte
	TTL         time.Duration
	Tenant      string
}

func (c *Claim) owns(value []byte) bool { return bytes.HasPrefix(value, c.Mine) }

// MaxKey is the longest Idempotency-Key, in bytes.
const MaxKey = 255

// State is the state of an Idempotency-Key.
type State int

// The states, with the gateway's response to each.
const (
	Unavailable State = iota // the record cannot be read: 503 with Retry-After, because the client must not be charged twice
	Invalid                  // the key is empty, too long or not printable: 400
	First                    // the request runs
	Running                  // an earlier request is still running: 409 with Retry-After
	Done                     // the stored response of the earlier request is sent
	NoResponse               // the earlier request ran, or its gateway died, without a stored response: 409 without Retry-After
	Mismatch                 // the key was used with a different request: 422
)

// Result is the result of Begin.
type Result struct {
	State      State
	Run        *Run          // with First; the caller must end it
	Response   *Response     // with Done
	RetryAfter time.Duration // with Running and Unavailable
}

// OnceOptions are the options of a Once.
type OnceOptions struct {
	Secret []byte        // at least 32 bytes, the same on all nodes
	Keep   time.Duration // TTL of a record; 0: 24 hours
	Lease  time.Duration // time without renewal after which a run counts as dead; 0: one minute
	Max    int           // maximum bytes of a stored response; 0: DefaultMax
	Now    func() time.Time
}

const (
	defaultKeep  = 24 * time.Hour
	defaultLease = time.Minute
	onceRetry    = time.Second            // Retry-After for clients
	onceTick     = 250 * time.Millisecond // interval of passes over the open runs
	onceBegin    = 500 * time.Millisecond // timeout of Begin; a Redis that replies to nothing is given up before
	onceEnd      = 100 * time.Millisecond // timeout of the end of a run
	onceWaiting  = 64 << 20               // maximum bytes of responses that wait to be stored
	onceOpen     = 1 << 16                // maximum runs, open ones included, from which on none waits to be stored
)

// Once lets requests run at most once. The record of a run stays for a day, even if the
// run is no longer renewed: its upstream request may have been charged, so a run whose
// gateway died must not run again.
type Once struct {
	keys  keyring
	locks Locks
	keep  time.Duration
	lease time.Duration
	max   int
	now   func() time.Time

	mu      sync.Mutex
	open    map[*Run]struct{}
	waiting int64 // bytes of responses in open that wait to be stored
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// NewOnce returns a Once that stores its records in l. The caller must close it.
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

// Recorder returns a Recorder with the limit of stored responses.
func (n *Once) Recorder() *Recorder { return NewRecorder(n.max) }

// Begin claims an Idempotency-Key for a request. The caller is the id of an API key: two
// API keys of one organisation do not share Idempotency-Keys, because their users choose
// them independently. The tenant is whose share of the memory the record uses.
func (n *Once) Begin(ctx context.Context, tenant, caller, key string, q *Request) Result {
	if key == "" || len(key) > MaxKey || !printable(key) {
		return Result{State: Invalid}
	}
	r := &Run{once: n, tenant: tenant, record: record{kind: running, key: n.keys.once(caller, key), digest: n.keys.digest(q), at: n.now()}}
	_, _ = rand.Read(r.token[:]) // never fails
	r.due = r.at.Add(n.lease / 4)
	call, cancel := context.WithTimeout(ctx, onceBegin)
	defer cancel()
	there, err := n.locks.Claim(call, r.key, Claim{Mine: r.mine(), Value: r.encode(), TTL: n.keep, Tenant: tenant})
	switch {
	case err != nil:
		n.unsure(r, err)
		return Result{State: Unavailable, RetryAfter: onceRetry}
	case there == nil:
		n.add(r)
		return Result{State: First, Run: r}
	}
	return n.existing(r, there)
}

// unsure handles a claim whose reply was lost. The claim may be stored, so it is removed
// again.
func (n *Once) unsure(r *Run, err error) {
	if errors.Is(err, errDown) || errors.Is(err, errFull) || errors.Is(err, errForged) || n.crowded() {
		return
	}
	r.over = true
	n.add(r)
}

// existing returns the result for a key that has a record of an earlier request.
func (n *Once) existing(r *Run, there []byte) Result {
	old, err := decode(there, r.key)
	switch {
	case err != nil: // written by another version of the gateway
		return Result{State: Unavailable, RetryAfter: onceRetry}
	case old.digest != r.digest:
		return Result{State: Mismatch}
	case old.kind == full:
		return Result{State: Done, Response: old.response}
	case old.kind == running && r.at.Sub(old.at) < n.lease:
		return Result{State: Running, RetryAfter: onceRetry}
	}
	return Result{State: NoResponse}
}

// crowded reports whether so many runs wait to be stored that a store must fail for them:
// then further ones are not kept, and count as dead after their lease.
func (n *Once) crowded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open) >= onceOpen
}

func (n *Once) add(r *Run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[r] = struct{}{}
}

// Close makes a last attempt to store waiting responses. Runs that are still open count
// as dead after their lease.
func (n *Once) Close() {
	n.stop()
	n.done.Wait()
}
