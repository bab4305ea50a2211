package quota

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/timing"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// redisBackend is the backend of several nodes that share a Redis: one server, or those of a cluster.
// All keys of an organisation are on one server.
type redisBackend struct {
	options Options
	client  *redis.Client
	node    string // unique id of this process
	serial  atomic.Int64
	servers atomic.Pointer[servers]

	mirror   *mirror
	seeder   *seed.Seeder
	clock    func() time.Time
	counters *counters
	seeding  sync.Map // accounts that are being seeded
	unknown  *engine  // counts this node's share of accounts that cannot be seeded
}

// redisServer is one server, with this node's queue of settlements for it. While the server is lost,
// its accounts use this node's share; accounts on other servers are not affected.
type redisServer struct {
	*redisBackend
	server *redis.Server
	queue  *queue

	lost         atomic.Bool            // the server failed, and has not recovered yet
	woken        chan struct{}          // receives a value when the server is lost
	unregistered chan struct{}          // receives a value when a lease has to be registered
	local        atomic.Pointer[engine] // counts this node's share
	shareSince   atomic.Int64           // when local was created, in ms
	lostAt       atomic.Int64           // when the server was lost last, in ms
	nodes        atomic.Int64
	born         atomic.Int64 // identifies the server's data; 0: not known; otherBorn: data of a server that is gone
	checked      atomic.Int64 // when the server still had these data, by its clock, in microseconds
	evicts       atomic.Bool  // the server may evict counters
	policyAt     int64        // when the policy of eviction was read, in ms
	sendMu       sync.Mutex   // serialises sending settlements and registering leases
}

// NewRedis returns a Limiter for processes that share a Redis. The limiter also starts while Redis is
// down, and uses it as soon as it is up. The client needs Scripts. The limiter does not close the client.
func NewRedis(o Options) *Limiter {
	o = o.withDefaults()
	k := &Limiter{}
	r := &redisBackend{
		options: o, client: o.Redis, unknown: newEngine(), node: o.Node + "." + rand.Text()[:10], mirror: newMirror(), seeder: seed.New(o.Ledger, o.Logger),
		clock: timing.Monotonic(o.Clock), counters: &k.counters,
	}
	r.servers.Store(&servers{})
	o.Redis.OnLost(r.lose)
	r.followServers()
	k.back = r
	return k
}

func (r *redisBackend) now() int64 { return r.clock().UnixMilli() }

// newMark returns a unique id.
func (r *redisBackend) newMark() string { return r.node + "." + strconv.FormatInt(r.serial.Add(1), 36) }

// enterFallback starts an outage. This node's share is computed from the last known state.
func (r *redisServer) enterFallback(err error) {
	if !r.lost.CompareAndSwap(false, true) {
		return
	}
	now := r.now()
	r.lostAt.Store(now)
	if !r.evicts.Load() { // else the share is in use already
		r.resetShare(now)
	}
	r.counters.outages.Add(1)
	r.options.Logger.Warn("redis is lost; limits are this node's share", "error", err, "nodes", r.nodes.Load(), "server", r.server.Addr)
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// resetShare starts counting this node's share from zero.
func (r *redisServer) resetShare(now int64) {
	r.shareSince.Store(now)
	r.local.Store(newEngine())
}

func (r *redisBackend) reserve(ctx context.Context, req *Request, h *reservation) *Refusal {
	return r.serverOf(req.Org).reserve(ctx, req, h)
}

func (r *redisServer) reserve(ctx context.Context, req *Request, h *reservation) *Refusal {
	if r.usesShare() {
		return r.reserveFromShare(ctx, req, h)
	}
	if r.options.HotRate >= 0 && req.Cost > 0 {
		return r.reserveWithAllowances(ctx, req, h)
	}
	return r.reserveShared(ctx, req, h)
}

// reserveShared reserves from a slice or in Redis, and from this node's share if Redis does not respond.
func (r *redisServer) reserveShared(ctx context.Context, req *Request, h *reservation) *Refusal {
	switch r.useSlice(req, h) {
	case fromSlice:
		return nil
	case redisLost:
		return r.reserveFromShare(ctx, req, h)
	}
	for range maxAccounts + 1 { // each account may need a seed once
		got, err := r.take(req, r.newMark(), req.amounts(), 0, h)
		if err != nil {
			break
		}
		switch got.Status {
		case script.Granted:
			return nil
		case script.Refused:
			return refusalOf(req, got)
		case script.Unseeded:
			if r.seedOnce(ctx, req.Org, req.Accounts[got.Account], got.Now) {
				continue
			}
			if !r.lost.Load() {
				return r.reserveFromEngine(ctx, r.unknown, req, h)
			}
		}
		break
	}
	return r.reserveFromShare(ctx, req, h)
}

// take reserves amounts from all accounts in Redis and applies the reply. If no reply arrives in time, or Redis has
// lost its data since the call, an undo is queued. divisor limits a slice or an allowance to 1/divisor of what is left;
// it is 0 for a request.
func (r *redisServer) take(req *Request, id string, want amounts, divisor int64, h *reservation) (script.Reply, error) {
	born := r.born.Load()
	c := r.reserveCall(req, id, want)
	c.Arg(divisor, 0, r.checked.Load())
	r.addLimits(c, req)
	values, err := r.server.Do(c)
	if errors.Is(err, redis.ErrBusy) {
		return script.Reply{}, err
	}
	var got script.Reply
	if err == nil {
		got, err = script.Parse(values, len(req.Accounts))
	}
	switch {
	case err == nil && got.Status == script.RecordLost:
		r.checkData(r.server.Do, dataLost)
		return got, errEmptied
	case err == nil && (got.Status != script.Granted && got.Status != script.Refused || r.apply(req, want, got, born, h)):
		return got, nil
	}
	r.put(undo(req, id, want))
	return got, cmp.Or(err, errEmptied)
}

// reserveCall builds a call of the reserve script, without divisor, force, time of the check and limits.
func (r *redisBackend) reserveCall(req *Request, id string, want amounts) *redis.Call {
	c := &redis.Call{Script: script.Reserve, Keys: make([]string, 0, 1+4*len(req.Accounts)), Args: make([]string, 0, 9+5*len(req.Accounts))}
	c.Keys = append(c.Keys, script.Key(req.Org, "r:", id))
	for i := range req.Accounts {
		script.AddAccount(c, req.Org, req.Accounts[i].ID)
	}
	c.Args = append(c.Args, r.node)
	c.Arg(want.requests, want.tokens, int64(want.cost), want.open, r.options.Lease.Milliseconds(), r.reservationTTL())
	return c
}

// reservationTTL returns the time in ms during which a reservation can be undone. It is longer than the lease.
func (r *redisBackend) reservationTTL() int64 { return (2 * r.options.Lease).Milliseconds() }

// addLimits appends the limits of the accounts, and 1 if Redis must have the account's record.
func (r *redisBackend) addLimits(c *redis.Call, req *Request) {
	p, now := r.mirror.shardOf(req.Org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range req.Accounts {
		l, known := &req.Accounts[i].Limit, int64(0)
		if k := p.accounts[req.Accounts[i].ID]; k != nil && k.savedAt > 0 && now-k.savedAt < 2*minute { // a record stays for three
			known = 1
		}
		c.Arg(l.Requests, l.Tokens, l.Concurrency, int64(l.Budget), l.budgetWindow().Milliseconds(), known)
	}
}

// apply updates the mirror from a reply, and adds a granted reservation to this node's leases. It reports false if
// Redis has lost its data since the call, and the reservation perhaps with them.
func (r *redisServer) apply(req *Request, want amounts, got script.Reply, born int64, h *reservation) bool {
	h.minute = got.Now / minute
	p, now := r.mirror.shardOf(req.Org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if born != 0 && born != r.born.Load() {
		return false
	}
	for i := range req.Accounts {
		k := p.account(req.Org, req.Accounts[i], now)
		k.learn(got.State(i), now)
		if got.Status == script.Refused {
			continue
		}
		k.savedAt = now
		l, anyLost := k.leaseFor(got.State(i)[script.StateLease])
		l.add(want.open, want.cost)
		*h.leases.At(i) = l
		if anyLost {
			r.signalUnregistered()
		}
	}
	return true
}

func (r *redisBackend) settle(h *reservation, tokens int64, cost usage.Money, totals usage.Totals) {
	if h.fromAllowance != 0 {
		r.settleAllowances(h, cost, totals)
		if h = h.rest; h == nil {
			return
		}
	}
	it := &change{id: h.request.ID, org: h.request.Org, accounts: h.request.Accounts, minute: h.minute, tokens: tokens - h.request.Tokens, open: h.request.amounts().open, reserved: h.request.Cost, log: r.options.Logs.Name()}
	it.places = few.Of[place](len(it.accounts))
	for i := range it.accounts {
		it.places.At(i).total = totals.Of(it.accounts[i].ID)
	}
	if h.fallbackAt != 0 {
		now := r.now()
		h.shard.settle(now, h, tokens, func(a *account, _ string) { a.spent.Add(cost, 0) })
		it.minute, it.tokens = 0, 0
		if now-h.fallbackAt < minute { // Redis adds it to its current minute
			it.requests, it.tokens = h.request.amounts().requests, tokens
		}
	}
	r.reportAccounts(it.org, it.accounts) // the totals of this settlement include spending from allowances
	r.release(it, &h.leases)
	r.put(it)
}

func (r *redisBackend) setTotal(t usage.Total) {
	for n := range budget.Max { // the accounts of further budgets may not exist
		it := &change{id: r.newMark(), org: t.Org, accounts: []Account{{ID: budget.Account(t.Account, n+1)}}, unlimited: true, further: n > 0, log: t.Log}
		it.places.At(0).total = t.Spent
		r.put(it)
	}
}

func (r *redisBackend) countedUntil() time.Time {
	until := time.Now()
	for _, s := range r.servers.Load().all {
		if done := s.queue.doneUntil(); done.Before(until) {
			until = done
		}
	}
	return r.mirror.reportedUntil(until)
}

// release subtracts a change from the leases that it was reserved from.
func (r *redisBackend) release(it *change, leases *few.List[*lease]) {
	p := r.mirror.shardOf(it.org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range it.accounts {
		it.releaseFrom(*leases.At(i), i)
	}
}

// releaseFrom subtracts a change from the lease of one of its accounts. The caller holds the lock.
func (it *change) releaseFrom(l *lease, i int) {
	l.add(-it.open, -it.reserved)
	p := it.places.At(i)
	p.lease = l.id
	if l.registering {
		p.unregistered = l
	}
}

func (r *redisBackend) fill(s *Snapshot) {
	for _, one := range r.servers.Load().all {
		queued, merged := one.queue.size()
		s.Queued, s.Merged = s.Queued+queued, s.Merged+merged
		s.Nodes, s.Lost, s.Evicts = max(s.Nodes, int(one.nodes.Load())), s.Lost || one.lost.Load(), s.Evicts || one.evicts.Load()
	}
	for i := range r.mirror.shards {
		p := &r.mirror.shards[i]
		p.mu.Lock()
		s.Accounts += len(p.accounts)
		p.mu.Unlock()
	}
}
