package quota

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/timing"
)

// membersKeys returns the keys of the set of nodes and of the state of a recovery. They contain the id of
// the server: a set from a snapshot or a replica would name nodes that have not found this server yet.
func (r *redisServer) membersKeys() []string {
	name := "quota2:{" + r.servers.Load().tag(r) + "}:" + strconv.FormatInt(r.server.Epoch(), 36)
	return []string{name, name + ":w"}
}

const (
	recoverInterval = 60 * time.Millisecond
	probeTimeout    = 250 * time.Millisecond
)

// sendLoop sends queued changes. While one batch is in flight the next one accumulates.
func (r *redisServer) sendLoop(ctx context.Context) {
	for {
		select {
		case <-r.queue.wake:
		case <-ctx.Done():
			return
		}
		for !r.lost.Load() && !r.queue.isEmpty() {
			if !r.flush() && !timing.Sleep(ctx, timing.Jitter(50*time.Millisecond)) {
				return
			}
		}
	}
}

// recoverLoop ends outages.
func (r *redisServer) recoverLoop(ctx context.Context) {
	for {
		select {
		case <-r.woken:
		case <-ctx.Done():
			return
		}
		replaced := false // the server is another one, was restarted or was emptied
		for r.lost.Load() {
			if !timing.Sleep(ctx, timing.Jitter(recoverInterval)) {
				return
			}
			if !r.server.Lost() {
				replaced = r.recover(replaced)
			}
		}
	}
}

// recover ends an outage. Before requests use Redis again, it sends the settlements of the outage
// and registers the open reservations. A server that has lost its data is used when all nodes have
// done this, or have had time for it. recover returns whether the server has lost its data in this outage.
func (r *redisServer) recover(replaced bool) bool {
	m, ok := r.join(r.send, 0, otherBorn)
	if !ok {
		return replaced
	}
	if last := r.born.Swap(m.born); last != 0 && last != m.born {
		replaced = true
		r.checked.Store(0)
		r.forgetAccounts(func(k *mirrorAccount) bool { return r.has(k.org) })
	}
	for range 64 { // bounded: under load the queue never becomes empty
		if r.queue.isEmpty() {
			break
		}
		if !r.flush() {
			return replaced
		}
	}
	if !r.renew() || !r.registerLeases() {
		return replaced
	}
	want := int64(0)
	if replaced {
		want = r.nodes.Load()
	}
	if m, ok = r.join(r.send, want, m.born); !ok || m.wait {
		return replaced
	}
	r.nodes.Store(m.nodes)
	r.checked.Store(m.at)
	lasted := time.Duration(r.now()-r.lostAt.Load()) * time.Millisecond
	r.lost.Store(false)
	r.queue.signal()
	r.options.Logger.Info("redis is back; limits are shared again", "outage", lasted.String(), "nodes", m.nodes, "server", r.server.Addr)
	if r.server.Lost() { // it was lost again while lost was still true
		r.enterFallback(errUnreached)
	}
	return false
}

// heartbeat marks this node as alive and counts the nodes.
func (r *redisServer) heartbeat() {
	if !r.lost.Load() {
		r.checkPolicy()
		r.checkData(r.send, 0)
	}
}

// checkData marks this node as alive, counts the nodes, and reports whether the server still has the data that this
// node knows. If it does not, an outage begins. A want of dataLost declares the data lost.
func (r *redisServer) checkData(do caller, want int64) bool {
	known := r.born.Load()
	if r.lost.Load() {
		return false
	}
	m, ok := r.join(do, want, known)
	switch {
	case !ok:
		return false
	case r.evicts.Load():
		r.born.Store(m.born)
		m.nodes = max(m.nodes, r.nodes.Load()) // shares in use must not grow
	case known == 0:
		r.born.CompareAndSwap(0, m.born)
	case known != m.born:
		r.enterFallback(errEmptied)
		return false
	}
	r.nodes.Store(m.nodes)
	r.checked.Store(m.at)
	return true
}

// checkPolicy reads once a minute whether the server may evict counters. While it may, limits are this node's share.
func (r *redisServer) checkPolicy() {
	now := r.now()
	if r.policyAt != 0 && now-r.policyAt < minute {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.client.AtLeast(probeTimeout))
	defer cancel()
	policy, err := r.server.EvictionPolicy(ctx)
	if err != nil {
		return
	}
	r.policyAt = now
	switch evicts := policy != ""; {
	case evicts && !r.evicts.Load():
		r.resetShare(now)
		r.evicts.Store(true)
		r.options.Logger.Warn("redis may evict counters; limits are this node's share", "policy", policy, "server", r.server.Addr)
	case !evicts && r.evicts.Load():
		r.enterFallback(errEvicts)
		r.join(r.send, dataLost, r.born.Load())
		r.evicts.Store(false)
	}
}

// nodeTTL is how long a node counts after its last heartbeat.
func (r *redisServer) nodeTTL() time.Duration { return 5 * r.options.Heartbeat }

// members is the reply of the members script.
type members struct {
	nodes, born, at int64
	wait            bool
}

// join adds this node to the server's set of nodes and counts the set, if the server has the known data. A want above 0
// is the number of nodes that must join after a loss of data. The nodes agree on the largest want, and wait reports
// whether this node has to wait for others. A want of leaveServer removes the node.
func (r *redisServer) join(do caller, want, known int64) (m members, ok bool) {
	c := redis.Call{Script: script.Members, Keys: r.membersKeys(), Args: []string{r.node}}
	c.Arg(r.nodeTTL().Milliseconds(), want, known)
	v, err := do(&c)
	if err != nil || len(v) != 4 {
		return m, false
	}
	return members{max(1, min(v[0], maxNodes)), v[1], v[3], v[2] == 1}, true
}

// caller makes a call: redis.Server.Do while a request waits, send otherwise.
type caller = func(*redis.Call) ([]int64, error)

// send makes a call that no request waits for.
func (r *redisServer) send(c *redis.Call) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), r.client.AtLeast(probeTimeout))
	defer cancel()
	got := r.server.Send(ctx, []redis.Call{*c})[0]
	return got.Values, got.Err
}

const (
	leaveServer = -1 // values of want
	dataLost    = -2

	otherBorn = -1 // differs from that of any data, so that join only reads
)

const (
	renewAccounts = 100     // max accounts per call
	maxNodes      = 1 << 16 // more than share a Redis
)

// leaseLoop renews this node's leases and registers those that Redis does not have.
func (r *redisServer) leaseLoop(ctx context.Context) {
	ticker := time.NewTicker(r.options.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !r.lost.Load() && r.renew() {
				r.registerLeases()
			}
		case <-r.unregistered:
			if !r.lost.Load() {
				r.registerLeases()
			}
		case <-ctx.Done():
			return
		}
	}
}

// signalUnregistered wakes leaseLoop.
func (r *redisServer) signalUnregistered() {
	select {
	case r.unregistered <- struct{}{}:
	default:
	}
}

// renew extends all leases of this node in one round trip and marks those that Redis has lost.
func (r *redisServer) renew() bool {
	byOrg := map[string][]*mirrorAccount{}
	r.mirror.each(r.now(), func(k *mirrorAccount) {
		if r.has(k.org) && slices.ContainsFunc(k.leases, func(l *lease) bool { return l.id != 0 && !l.isEmpty() }) {
			byOrg[k.org] = append(byOrg[k.org], k)
		}
	})
	var calls []redis.Call
	var held [][]*mirrorAccount
	for org, all := range byOrg {
		for len(all) > 0 {
			n := min(len(all), renewAccounts)
			calls, held = append(calls, r.renewCall(org, all[:n])), append(held, all[:n])
			all = all[n:]
		}
	}
	if len(calls) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ok, sent := true, r.now()
	for i, got := range r.server.Send(ctx, calls) {
		if got.Err == nil && len(got.Values) == 1+len(held[i]) {
			r.applyRenewal(held[i], got.Values, sent)
		} else {
			ok = false
		}
	}
	return ok
}

// renewCall builds a call of the renew script.
func (r *redisServer) renewCall(org string, accounts []*mirrorAccount) redis.Call {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := redis.Call{Script: script.Renew, Args: []string{r.node}}
	c.Arg(r.options.Lease.Milliseconds())
	for _, k := range accounts {
		script.AddAccount(&c, org, k.account.ID)
		c.Arg(int64(k.account.Limit.Budget), k.account.Limit.budgetWindow().Milliseconds())
	}
	return c
}

// applyRenewal marks the leases that Redis does not have, and extends allowances.
func (r *redisServer) applyRenewal(accounts []*mirrorAccount, values []int64, sent int64) {
	p := r.mirror.shardOf(accounts[0].org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range accounts {
		k.markLost(values[1+i], values[0])
		if k.allowanceLease != nil && k.allowanceLease.id == values[1+i] && k.allowanceLease.id != 0 {
			k.allowance.Renew(r.usableUntil(sent))
		}
	}
}

// unregisteredLease is a lease that Redis does not have.
type unregisteredLease struct {
	account Account
	org     string
	lease   *lease
	amounts amounts
}

// registerLeases writes two kinds of leases to Redis: those with reservations of an outage of
// Redis, and those that Redis has lost.
func (r *redisServer) registerLeases() bool {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	var pending []unregisteredLease
	r.mirror.each(r.now(), func(k *mirrorAccount) {
		if !r.has(k.org) {
			return
		}
		for _, l := range k.leases {
			if l.id == 0 && !l.isEmpty() {
				l.registering = true
				pending = append(pending, unregisteredLease{k.account, k.org, l, amounts{open: l.open, cost: l.reserved}})
			}
		}
	})
	ok := true
	for _, o := range pending {
		ok = r.registerLease(o) && ok
	}
	return ok
}

// registerLease writes one lease to Redis. It skips the limit checks: the requests are open
// already.
func (r *redisServer) registerLease(u unregisteredLease) bool {
	req := &Request{Org: u.org, Accounts: []Account{u.account}}
	id := r.newMark()
	c := r.reserveCall(req, id, u.amounts)
	c.Arg(0, 1, 0)
	r.addLimits(c, req)
	values, err := r.server.Do(c)
	var got script.Reply
	if err == nil {
		got, err = script.Parse(values, 1)
	} else {
		r.put(undo(req, id, u.amounts))
	}
	p := r.mirror.shardOf(u.org)
	p.mu.Lock()
	defer p.mu.Unlock()
	u.lease.registering = false
	if err != nil || got.Status != script.Granted {
		return false
	}
	u.lease.id = got.State(0)[script.StateLease]
	return true
}

// leave sends the queue until the deadline and removes this node from the server's set of nodes.
func (r *redisServer) leave(deadline time.Time) {
	for !r.lost.Load() && !r.queue.isEmpty() && time.Now().Before(deadline) {
		r.flush()
	}
	if !r.lost.Load() {
		r.join(r.send, leaveServer, 0) // without it the node counts until its heartbeat expires
	}
}
