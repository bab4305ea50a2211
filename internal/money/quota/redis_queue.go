package quota

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// change is an update that Redis must apply exactly once.
type change struct {
	id        string
	org       string
	accounts  []Account
	undo      bool            // undoes a reservation whose reply did not arrive
	requests  int64           // requests to add
	tokens    int64           // tokens to add
	minute    int64           // minute to which requests and tokens are added; 0: the current one
	open      int64           // open requests to return
	reserved  usage.Money     // cost to return
	log       string          // log of the totals in places
	places    few.List[place] // one for each account
	unlimited bool            // the limits of the accounts are not known
	further   bool            // the account is of a further budget; it is skipped if it does not exist
	since     time.Time       // when it was put into the queue
}

// place is the part of a change that differs between its accounts.
type place struct {
	total        usage.Money // what the account has spent in the log
	lease        int64       // id of the lease that the change was reserved from
	unregistered *lease      // a lease whose id is not known until it is registered
}

// undo returns the change that gives back a reservation if its call got no reply.
func undo(req *Request, id string, want amounts) *change {
	return &change{
		id: id, org: req.Org, accounts: req.Accounts, places: few.Of[place](len(req.Accounts)), undo: true, requests: -want.requests, tokens: -want.tokens, open: want.open, reserved: want.cost,
	}
}

// queue holds changes that Redis has not confirmed. When it is full, further settlements of the same
// accounts are added up; none is dropped. A queue of twice its maximum size drops further undos.
type queue struct {
	wake chan struct{}

	mu      sync.Mutex
	max     int
	items   []*change
	merged  map[string]*change
	sending []*change // taken out by pop and not confirmed
	closed  bool
}

func newQueue(size int) *queue { return &queue{wake: make(chan struct{}, 1), max: size} }

// put adds a change. It reports false if the queue is closed.
func (q *queue) put(it *change) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if it.since.IsZero() {
		it.since = time.Now()
	}
	switch {
	case len(q.items) < q.max, it.undo && len(q.items) < 2*q.max:
		q.items = append(q.items, it)
	case !it.undo: // what an undo would return stays reserved until the lease ends
		q.merge(it)
	}
	q.signal()
	return true
}

// close closes the queue and returns its changes.
func (q *queue) close() []*change {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	all := slices.Concat(q.items, slices.Collect(maps.Values(q.merged)))
	q.items, q.merged = nil, nil
	return all
}

// signal wakes the send loop.
func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// merge adds a change to the sum for its accounts. The change was never sent, so Redis does not
// know its id; the sum keeps the id of the first.
func (q *queue) merge(it *change) {
	if q.merged == nil {
		q.merged = map[string]*change{}
	}
	name := it.accountsKey() + "|" + it.log
	for i := range it.accounts {
		name += "|" + strconv.FormatInt(it.places.At(i).lease, 36)
	}
	sum := q.merged[name]
	if sum == nil || !sum.sameLeases(it) {
		if sum != nil {
			q.items = append(q.items, sum)
		}
		first := *it
		q.merged[name] = &first
		return
	}
	sum.open += it.open
	sum.reserved += it.reserved
	for i := range it.accounts {
		sum.places.At(i).total = max(sum.places.At(i).total, it.places.At(i).total)
	}
}

// sameLeases reports whether two changes of the same accounts wait for the same leases.
func (it *change) sameLeases(o *change) bool {
	for i := range it.accounts {
		if it.places.At(i).unregistered != o.places.At(i).unregistered {
			return false
		}
	}
	return true
}

func (it *change) accountsKey() string { return accountsKey(it.org, it.accounts) }

// accountsKey returns a map key for a list of accounts.
func accountsKey(org string, accounts []Account) string {
	var b strings.Builder
	b.WriteString(org)
	for i := range accounts {
		b.WriteByte(0)
		b.WriteString(accounts[i].ID)
	}
	return b.String()
}

// pop removes and returns up to n changes.
func (q *queue) pop(n int) []*change {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		for _, it := range q.merged {
			q.items = append(q.items, it)
		}
		q.merged = nil
	}
	n = min(n, len(q.items))
	batch := q.items[:n:n]
	q.sending = batch
	if q.items = q.items[n:]; len(q.items) == 0 {
		q.items = nil
	}
	return batch
}

// done ends the sending of a batch. Changes that were not confirmed go back to the front.
func (q *queue) done(failed []*change) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sending = nil
	q.items = append(failed, q.items...)
}

// doneUntil returns the time before which all queued changes are confirmed.
func (q *queue) doneUntil() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := time.Now()
	for _, list := range [][]*change{q.sending, q.items, slices.Collect(maps.Values(q.merged))} {
		for _, it := range list {
			if it.since.Before(oldest) {
				oldest = it.since
			}
		}
	}
	return oldest
}

func (q *queue) size() (items, merged int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items), len(q.merged)
}

func (q *queue) isEmpty() bool {
	items, merged := q.size()
	return items+merged == 0
}

const (
	maxBatch   = 1024 // changes per round trip
	maxPerCall = 64   // changes per call of the script
	// sendTimeout is longer than the timeout of a reservation: no request waits for a settlement, and a
	// longer wait leaves fewer results unknown.
	sendTimeout = 500 * time.Millisecond
)

// flush sends one batch and reports whether Redis has confirmed all of it.
func (r *redisServer) flush() bool {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	groups := group(r.keepOwn(r.queue.pop(maxBatch)))
	calls := make([]redis.Call, len(groups))
	for i, items := range groups {
		calls[i] = r.settleCall(items)
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.client.AtLeast(sendTimeout))
	defer cancel()
	var again []*change
	for i, got := range r.server.Send(ctx, calls) {
		if got.Err != nil || len(got.Values) != 3*len(groups[i][0].accounts) {
			again = append(again, groups[i]...)
		} else {
			r.learnSettled(groups[i][0], got.Values)
		}
	}
	r.queue.done(again)
	return len(again) == 0
}

// group splits a batch into groups of changes of the same accounts, and keeps their order.
func group(batch []*change) [][]*change {
	var groups [][]*change
	at := map[string]int{}
	for _, it := range batch {
		name := it.accountsKey()
		if it.unlimited {
			name += "?"
		}
		i, ok := at[name]
		if !ok || len(groups[i]) >= maxPerCall {
			i = len(groups)
			at[name] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], it)
	}
	return groups
}

// settleCall builds a call of the settle script.
func (r *redisServer) settleCall(items []*change) redis.Call {
	accounts := items[0].accounts
	c := redis.Call{Script: script.Settle, Args: []string{r.node}}
	c.Arg(r.options.Mark.Milliseconds(), int64(len(accounts)))
	for i := range accounts {
		script.AddAccount(&c, items[0].org, accounts[i].ID)
		switch {
		case items[0].further:
			c.Args = append(c.Args, "0", "-")
		case items[0].unlimited:
			c.Args = append(c.Args, "0", "")
		default:
			c.Arg(int64(accounts[i].Limit.Budget), accounts[i].Limit.budgetWindow().Milliseconds())
		}
	}
	for _, it := range items {
		kind, undo := "s:", int64(0)
		if it.undo {
			kind, undo = "r:", 1
		}
		c.Keys = append(c.Keys, script.Key(it.org, kind, it.id))
		c.Arg(undo, it.requests, it.tokens, it.minute, it.open, int64(it.reserved))
		c.Args = append(c.Args, it.log)
		for i := range accounts {
			p := it.places.At(i)
			if p.unregistered != nil { // sendMu excludes a registration in flight, so the id is known
				p.lease, p.unregistered = r.leaseID(it.org, p.unregistered), nil
			}
			c.Arg(p.lease)
		}
		for i := range accounts {
			c.Arg(int64(it.places.At(i).total))
		}
	}
	return c
}

// leaseID returns the current id of a lease.
func (r *redisBackend) leaseID(org string, l *lease) int64 {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.id
}

// learnSettled updates the mirror from the reply to a settlement.
func (r *redisBackend) learnSettled(it *change, values []int64) {
	p, now := r.mirror.shardOf(it.org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range it.accounts {
		v := values[3*i:]
		if k := p.accounts[it.accounts[i].ID]; k != nil && v[0] > 0 { // else the record is not seeded
			k.update(script.Plausible(v[0]), usage.Money(script.Plausible(v[1])), usage.Money(script.Plausible(v[2])), now)
		}
	}
}
