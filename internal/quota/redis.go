package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// remote is the backend of several nodes, which share a Redis.
type remote struct {
	o       Options
	options rueidis.ClientOption
	client  atomic.Pointer[rueidis.Client]
	scripts scripts
	name    string // of this process among all
	serial  atomic.Int64

	breaker *breaker
	calls   chan struct{} // on the way to Redis; the client's queue must not fill up
	book    *book
	queue   *queue
	seeds   *seeder
	clock   func() time.Time
	stats   *stats

	local   atomic.Pointer[engine] // counts this node's share
	started atomic.Int64           // when, in ms
	lost    atomic.Int64           // when Redis was lost last, in ms
	members atomic.Int64
	sending sync.Mutex // one at a time sends settlements, or writes down what is open
}

const (
	ringScale = 13   // the client's queue has so many bits: 8192 calls
	maxCalls  = 2048 // on the way to Redis

	dialTimeout = 250 * time.Millisecond
	// stuckTimeout is after which a connection that does not answer is closed.
	stuckTimeout = time.Second
)

var errBusy = errors.New("too many calls are on the way to Redis")

// NewRedis is a Keeper for processes that share a Redis. It only fails for a URL that
// cannot be read: a Redis that is down is found when it is up.
func NewRedis(o Options) (*Keeper, error) {
	o = o.withDefaults()
	options, err := rueidis.ParseURL(o.Redis)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL cannot be read; write it as redis://user:password@host:port/0: %w", redact(err))
	}
	options.DisableCache, options.DisableRetry, options.AlwaysPipelining = true, true, true
	options.RingScaleEachConn, options.PipelineMultiplex = ringScale, -1
	options.Dialer.Timeout, options.ConnWriteTimeout = dialTimeout, stuckTimeout
	options.ClientName = "isogloss"
	k := &Keeper{}
	r := &remote{
		o: o, options: options, scripts: loadScripts(), name: o.Node + "." + rand.Text()[:10], breaker: newBreaker(), calls: make(chan struct{}, maxCalls),
		book: newBook(), queue: newQueue(o.Queue), seeds: newSeeder(o.Ledger), clock: steady(o.Clock), stats: &k.stats,
	}
	r.members.Store(1)
	r.local.Store(newEngine())
	if !r.connect() {
		r.open(errors.New("there is no connection"))
	}
	k.back = r
	return k, nil
}

// redact drops the URL's text, which may have a password, from an error about it.
func redact(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}

// connect makes the client, which needs to reach Redis once.
func (r *remote) connect() bool {
	if r.client.Load() != nil {
		return true
	}
	client, err := rueidis.NewClient(r.options)
	if err != nil {
		return false
	}
	r.client.Store(&client)
	return true
}

func (r *remote) now() int64 { return r.clock().UnixMilli() }

// mark is an id that nobody else has.
func (r *remote) mark() string { return r.name + "." + strconv.FormatInt(r.serial.Add(1), 36) }

// ask sends a call on the way of a request, and waits for 50 ms at most.
func (r *remote) ask(c *call) ([]int64, error) {
	select {
	case r.calls <- struct{}{}:
		defer func() { <-r.calls }()
	default:
		return nil, errBusy
	}
	client := r.client.Load()
	if client == nil {
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.o.Timeout)
	defer cancel()
	values, err := c.run(ctx, *client)
	r.heard(err)
	return values, err
}

// heard counts how a call went.
func (r *remote) heard(err error) {
	if r.breaker.done(err != nil, isBroken(err)) {
		r.open(err)
	}
}

// open begins an outage: this node's share is counted anew, from what is known now.
func (r *remote) open(err error) {
	r.breaker.trip()
	now := r.now()
	r.lost.Store(now)
	r.restart(now)
	r.stats.outages.Add(1)
	r.o.Logger.Warn("redis is lost; limits are this node's share", "error", err, "nodes", r.members.Load())
}

func (r *remote) restart(now int64) {
	r.started.Store(now)
	r.local.Store(newEngine())
}

// The answers of the script.
const (
	taken     = 1
	refused   = 0
	unknown   = -1
	tooMuch   = -2
	overtaken = -3
)

func (r *remote) reserve(ctx context.Context, a *Ask, h *held) *Refusal {
	if r.breaker.lost.Load() {
		return r.fallBack(ctx, a, h)
	}
	if r.fromSlice(a, h) {
		return nil
	}
	for range maxAccounts + 1 { // each account may have to be seeded once
		got, err := r.take(a, a.ID, a.take(), 0)
		if err != nil {
			break
		}
		switch got.status {
		case taken:
			r.granted(a, a.take(), got, h)
			return nil
		case refused:
			r.learnAll(a, got)
			return got.refusal(a)
		case unknown:
			if r.plant(ctx, a.Org, a.Accounts[got.account], got.now) {
				continue
			}
		}
		break
	}
	return r.fallBack(ctx, a, h)
}

// reply is what the script for reservations says.
type reply struct {
	status  int64
	account int
	reason  int64
	wait    int64
	now     int64
	states  []int64
}

// Each account's state is so many numbers.
const (
	stateBorn = iota
	stateSeeded
	stateSpent
	stateReserved
	stateRequests
	stateTokens
	stateSize
)

func (g reply) state(i int) []int64 { return g.states[i*stateSize : (i+1)*stateSize] }

func (g reply) refusal(a *Ask) *Refusal {
	reasons := [...]Reason{1: Requests, 2: Tokens, 3: Concurrency, 4: Budget}
	return &Refusal{Account: a.Accounts[g.account].ID, Reason: reasons[g.reason], RetryAfter: time.Duration(max(0, g.wait)) * time.Millisecond}
}

// take asks Redis for something of all accounts. Where its answer does not come in
// time, what it may have taken is given back later.
func (r *remote) take(a *Ask, id string, want take, of int64) (reply, error) {
	c := r.reservation(a, id, want)
	c.arg(of, 0)
	c.limits(a.Accounts)
	values, err := r.ask(c)
	if err != nil {
		if !errors.Is(err, errBusy) {
			r.queue.put(undo(a, id, want))
		}
		return reply{}, err
	}
	return parse(values, len(a.Accounts))
}

func parse(values []int64, accounts int) (reply, error) {
	if len(values) == 0 {
		return reply{}, errors.New("redis answers nothing")
	}
	g := reply{status: values[0]}
	if len(values) >= 5 {
		g.account, g.reason, g.wait, g.now, g.states = int(values[1]), values[2], values[3], values[4], values[5:]
	}
	if (g.status == taken || g.status == refused) && len(g.states) != accounts*stateSize {
		return reply{}, errors.New("redis answers with too little")
	}
	return g, nil
}

func (r *remote) reservation(a *Ask, id string, want take) *call {
	c := &call{script: &r.scripts.reserve, keys: make([]string, 0, 1+2*len(a.Accounts)), args: make([]string, 0, 9+5*len(a.Accounts))}
	c.keys = append(c.keys, key(a.Org, "r:", id))
	for i := range a.Accounts {
		c.account(a.Org, a.Accounts[i].ID)
	}
	c.args = append(c.args, r.name)
	c.arg(want.requests, want.tokens, int64(want.cost), want.open, r.o.Lease.Milliseconds(), r.reserveMark())
	return c
}

// reserveMark is for how long a reservation can be undone: longer than its lease.
func (r *remote) reserveMark() int64 { return (r.o.Lease + r.o.Lease/3).Milliseconds() }

func (c *call) limits(accounts []Account) {
	for i := range accounts {
		l := &accounts[i].Limit
		c.arg(l.Requests, l.Tokens, l.Concurrency, int64(l.Budget), l.span().Milliseconds())
	}
}

// granted notes what the node holds now.
func (r *remote) granted(a *Ask, want take, got reply, h *held) {
	h.minute = got.now / minute
	p, now := r.book.page(a.Org), r.now()
	var lost [maxAccounts]*usage.Money
	p.mu.Lock()
	for i := range a.Accounts {
		k := p.account(a.Org, a.Accounts[i], now)
		lost[i] = r.learn(k, got.state(i), now)
		h.leases[i] = k.hold(got.state(i)[stateBorn])
		h.leases[i].add(want.open, want.cost)
	}
	p.mu.Unlock()
	r.remind(a, lost)
}

// learnAll notes what the accounts have left.
func (r *remote) learnAll(a *Ask, got reply) {
	p, now := r.book.page(a.Org), r.now()
	var lost [maxAccounts]*usage.Money
	p.mu.Lock()
	for i := range a.Accounts {
		lost[i] = r.learn(p.account(a.Org, a.Accounts[i], now), got.state(i), now)
	}
	p.mu.Unlock()
	r.remind(a, lost)
}

// learn notes what an account has left. Where another node has seeded its record
// after Redis lost it, it returns what was known here before.
func (r *remote) learn(k *known, state []int64, now int64) *usage.Money {
	fresh := r.isFresh(k, now)
	k.requests, k.tokens = state[stateRequests], state[stateTokens]
	before, lost := k.learn(state[stateSeeded], usage.Money(state[stateSpent]), usage.Money(state[stateReserved]), now)
	if !lost || !fresh {
		return nil
	}
	return &before
}

// isFresh reports whether an account was seen shortly before Redis was lost: then what
// is known of it is all that was spent until then.
func (r *remote) isFresh(k *known, now int64) bool {
	if k.seeded == 0 {
		return false
	}
	if now-k.at > 15*minute {
		return false
	}
	if lost := r.lost.Load(); k.at < lost {
		now = lost
	}
	return now-k.at <= 2*second
}

// remind tells Redis what was known of accounts that it has lost.
func (r *remote) remind(a *Ask, lost [maxAccounts]*usage.Money) {
	for i, before := range lost {
		if before != nil {
			_ = r.sow(a.Org, a.Accounts[i], parts{*before}, fromNode) // the next one who knows does it otherwise
		}
	}
}

func (r *remote) settle(h *held, tokens int64, cost usage.Money) {
	it := &item{id: h.ask.ID, org: h.ask.Org, accounts: h.ask.Accounts, minute: h.minute, tokens: tokens - h.ask.Tokens, open: 1, reserved: h.ask.Cost, cost: cost}
	if h.local != 0 {
		now := r.now()
		h.shard.settle(now, h, tokens, cost)
		it.minute, it.tokens = 0, 0
		if now-h.local < minute { // it counts in the minute that Redis has now
			it.requests, it.tokens = 1, tokens
		}
	}
	r.release(it, h.leases)
	r.queue.put(it)
}

// release takes an item's part out of the leases that it was taken from.
func (r *remote) release(it *item, leases [maxAccounts]*lease) {
	p := r.book.page(it.org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range leases[:len(it.accounts)] {
		l.add(-it.open, -it.reserved)
		it.born[i] = l.born
		if l.adopting {
			it.later[i] = l
		}
	}
}

func (r *remote) charge(a *Ask) {
	r.queue.put(&item{id: a.ID, org: a.Org, accounts: a.Accounts, cost: a.Cost})
}

func (r *remote) fill(s *Snapshot) {
	s.Nodes, s.Lost = int(r.members.Load()), r.breaker.lost.Load()
	s.Queued, s.Merged = r.queue.size()
	for i := range r.book.shards {
		p := &r.book.shards[i]
		p.mu.Lock()
		s.Accounts += len(p.known)
		p.mu.Unlock()
	}
}
