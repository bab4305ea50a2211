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

	breaker  *breaker
	born     time.Time
	answered atomic.Int64  // when Redis did last, in ns since born
	calls    chan struct{} // on the way to Redis; the client's queue must not fill up
	book     *book
	queue    *queue
	seeds    *seeder
	clock    func() time.Time
	stats    *stats

	orphaned chan struct{}          // has one in it when something is to be written down
	local    atomic.Pointer[engine] // counts this node's share
	started  atomic.Int64           // when, in ms
	lost     atomic.Int64           // when Redis was lost last, in ms
	members  atomic.Int64
	planting sync.Mutex
	plants   map[string]*flight // seeds that are under way
	sending  sync.Mutex         // one at a time sends settlements, or writes down what is open
}

const (
	ringScale = 13   // the client's queue has so many bits: 8192 calls
	maxCalls  = 2048 // on the way to Redis

	dialTimeout = 250 * time.Millisecond
	// stuckTimeout is after which a connection that does not answer is closed.
	stuckTimeout = time.Second
)

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
		born: time.Now(), book: newBook(), queue: newQueue(o.Queue), seeds: newSeeder(o.Ledger), plants: map[string]*flight{}, orphaned: make(chan struct{}, 1), clock: steady(o.Clock), stats: &k.stats,
	}
	r.members.Store(1)
	r.local.Store(newEngine())
	if err := r.connect(); err != nil {
		r.open(err)
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
func (r *remote) connect() error {
	if r.client.Load() != nil {
		return nil
	}
	client, err := rueidis.NewClient(r.options)
	if err != nil {
		return err
	}
	r.client.Store(&client)
	return r.teach()
}

// teach sends Redis the scripts, so that requests need not.
func (r *remote) teach() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	for _, client := range (*r.client.Load()).Nodes() {
		var cmds []rueidis.Completed
		for _, s := range r.scripts.all() {
			cmds = append(cmds, client.B().ScriptLoad().Script(s.text).Build())
		}
		for _, resp := range client.DoMulti(ctx, cmds...) {
			if err := resp.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *remote) now() int64 { return r.clock().UnixMilli() }

// mark is an id that nobody else has.
func (r *remote) mark() string { return r.name + "." + strconv.FormatInt(r.serial.Add(1), 36) }

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

func (r *remote) reserve(ctx context.Context, a *Ask, h *held) *Refusal {
	if r.breaker.lost.Load() {
		return r.fallBack(ctx, a, h)
	}
	switch r.useSlice(a, h) {
	case fromSlice:
		return nil
	case lostSlice:
		return r.fallBack(ctx, a, h)
	}
	for range maxAccounts + 1 { // each account may have to be seeded once
		got, err := r.take(a, r.mark(), a.take(), 0)
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

func (r *remote) reservation(a *Ask, id string, want take) *call {
	c := &call{script: &r.scripts.reserve, keys: make([]string, 0, 1+3*len(a.Accounts)), args: make([]string, 0, 9+5*len(a.Accounts))}
	c.keys = append(c.keys, key(a.Org, "r:", id))
	for i := range a.Accounts {
		c.account(a.Org, a.Accounts[i].ID)
	}
	c.args = append(c.args, r.name)
	c.arg(want.requests, want.tokens, int64(want.cost), want.open, r.o.Lease.Milliseconds(), r.reserveMark())
	return c
}

// reserveMark is for how long a reservation can be undone: longer than its lease.
func (r *remote) reserveMark() int64 { return (2 * r.o.Lease).Milliseconds() }

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
	var lost [maxAccounts]*memo
	p.mu.Lock()
	for i := range a.Accounts {
		k := p.account(a.Org, a.Accounts[i], now)
		lost[i] = r.learn(k, got.state(i), now)
		l, orphans := k.hold(got.state(i)[stateBorn])
		l.add(want.open, want.cost)
		h.leases[i] = l
		if orphans {
			r.orphan()
		}
	}
	p.mu.Unlock()
	r.remind(a, lost)
}

// learnAll notes what the accounts have left.
func (r *remote) learnAll(a *Ask, got reply) {
	p, now := r.book.page(a.Org), r.now()
	var lost [maxAccounts]*memo
	p.mu.Lock()
	for i := range a.Accounts {
		lost[i] = r.learn(p.account(a.Org, a.Accounts[i], now), got.state(i), now)
	}
	p.mu.Unlock()
	r.remind(a, lost)
}

// learn notes what an account has left. Where another node has seeded its record
// after Redis lost it, it returns what was known here before.
func (r *remote) learn(k *known, state []int64, now int64) *memo {
	fresh := r.isFresh(k, now)
	k.requests, k.tokens = state[stateRequests], state[stateTokens]
	before := memo{k.spent, k.seeded, fresh}
	lost := k.learn(state[stateSeeded], usage.Money(state[stateSpent]), usage.Money(state[stateReserved]), now)
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
func (r *remote) remind(a *Ask, lost [maxAccounts]*memo) {
	for i, before := range lost {
		if before != nil {
			_ = r.sow(a.Org, a.Accounts[i], seed{parts{before.spent}, fromNode, before.seeded}) // the next one who knows does it otherwise
		}
	}
}

func (r *remote) settle(h *held, tokens int64, cost usage.Money) {
	it := &item{id: h.ask.ID, org: h.ask.Org, accounts: h.ask.Accounts, minute: h.minute, tokens: tokens - h.ask.Tokens, open: h.ask.take().open, reserved: h.ask.Cost, cost: cost}
	if h.local != 0 {
		now := r.now()
		h.shard.settle(now, h, tokens, cost)
		it.minute, it.tokens = 0, 0
		if now-h.local < minute { // it counts in the minute that Redis has now
			it.requests, it.tokens = h.ask.take().requests, tokens
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
