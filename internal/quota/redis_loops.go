package quota

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/redis"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// membersKeys returns the keys of the nodes and of their recovery. Each server has its own: those from a
// snapshot or a replica would have nodes that have not found the server yet.
func (r *redisBackend) membersKeys() []string {
	name := "quota2:{members}:" + strconv.FormatInt(r.server.Epoch(), 36)
	return []string{name, name + ":w"}
}

// Probing starts early, since the outage may be a short stall. The interval is short enough to find
// Redis within a second of its return.
const (
	probeFirst   = 200 * time.Millisecond
	probeNext    = 600 * time.Millisecond
	probeJoined  = 60 * time.Millisecond // while the other nodes are awaited
	probeTimeout = 250 * time.Millisecond
)

func (r *redisBackend) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.sendLoop(ctx) })
	wg.Go(func() { r.probeLoop(ctx) })
	wg.Go(func() { every(ctx, r.options.Heartbeat, r.heartbeat) })
	wg.Go(func() { r.leaseLoop(ctx) })
	if r.options.HotRate >= 0 {
		wg.Go(func() { every(ctx, r.options.Slice/2, func() { r.endSlices(r.now()) }) })
	}
	wg.Wait()
}

// every calls f immediately and then at each interval.
func every(ctx context.Context, d time.Duration, f func()) {
	ticker := time.NewTicker(max(d, time.Millisecond))
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// jitter returns a random duration between two thirds and four thirds of d.
func jitter(d time.Duration) time.Duration {
	return d*2/3 + rand.N(d*2/3) //nolint:gosec // not security-relevant
}

// sleep waits for d and reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sendLoop sends queued changes. While one batch is in flight the next one accumulates.
func (r *redisBackend) sendLoop(ctx context.Context) {
	for {
		select {
		case <-r.queue.wake:
		case <-ctx.Done():
			return
		}
		for !r.server.Lost() && !r.queue.isEmpty() {
			if !r.flush() && !sleep(ctx, jitter(50*time.Millisecond)) {
				return
			}
		}
	}
}

// probeLoop probes Redis during an outage.
func (r *redisBackend) probeLoop(ctx context.Context) {
	for {
		select {
		case <-r.server.Opened():
		case <-ctx.Done():
			return
		}
		var o outage
		for wait := probeFirst; r.server.Lost(); {
			if !sleep(ctx, jitter(wait)) {
				return
			}
			wait = probeNext
			if r.probe(&o) && r.recover(&o) {
				wait = probeJoined
			}
		}
	}
}

// outage is what is known of a Redis that was lost.
type outage struct {
	replaced bool // it is another server, was restarted or emptied
}

// probe reports whether Redis responds.
func (r *redisBackend) probe(o *outage) bool {
	first := r.server.Epoch() == 0
	changed, err := r.server.Identify()
	if err != nil {
		return false
	}
	if r.emptied.Swap(false) || changed && !first {
		o.replaced = true
		r.forgetServer()
	}
	return true
}

// forgetServer marks what the last server knew as lost, and queues what the accounts have spent in the
// logs of this machine.
func (r *redisBackend) forgetServer() {
	var totals []usage.Total
	r.mirror.each(r.now(), func(k *mirrorAccount) {
		k.forgetServer()
		if k.account.Limit.Budget > 0 {
			logs, _ := r.options.Logs.Spent(k.account.ID)
			for _, t := range logs {
				totals = append(totals, usage.Total{Log: t.Log, Org: k.org, Account: t.Account, Spent: t.Spent})
			}
		}
	})
	for _, t := range totals {
		r.setTotal(t)
	}
}

// recover ends an outage. Before requests use Redis again, it sends the settlements of the outage
// and registers the open reservations. A new server is used when all nodes have done so, or when the
// others had time for it. recover reports whether only they are missing.
func (r *redisBackend) recover(o *outage) (waiting bool) {
	for range 64 { // bounded: under load the queue never becomes empty
		if r.queue.isEmpty() {
			break
		}
		if !r.flush() {
			return false
		}
	}
	if !r.renew() || !r.registerLeases() {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	want := int64(0)
	if o.replaced {
		want = r.nodes.Load()
	}
	nodes, wait, ok := r.join(ctx, want)
	if !ok || wait {
		return ok
	}
	r.nodes.Store(nodes)
	lasted := time.Duration(r.now()-r.lostAt.Load()) * time.Millisecond
	r.server.Found()
	r.queue.signal()
	r.options.Logger.Info("redis is back; limits are shared again", "outage", lasted.String(), "nodes", nodes)
	return false
}

// heartbeat marks this node as alive and counts the nodes.
func (r *redisBackend) heartbeat() {
	if r.server.Lost() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	late := time.Since(r.beatAt) > r.nodeTTL()/2
	nodes, _, ok := r.join(ctx, 0)
	if !ok {
		return
	}
	r.nodes.Store(nodes)
	joined := !r.beatAt.IsZero()
	r.beatAt = time.Now()
	if joined && !late && !r.known.Load() {
		r.emptied.Store(true)
		r.server.Lose(errors.New("redis was emptied"))
	}
}

// nodeTTL is how long a node counts after its last heartbeat.
func (r *redisBackend) nodeTTL() time.Duration { return 5 * r.options.Heartbeat }

// join adds this node to those of the server and counts them. A want above 0 is the number of nodes that
// have to join after a loss of data; the nodes agree on the largest, and wait tells this one to wait. With
// leaveServer the node is removed.
func (r *redisBackend) join(ctx context.Context, want int64) (nodes int64, wait, ok bool) {
	c := redis.Call{Script: membersScript, Keys: r.membersKeys(), Args: []string{r.node}}
	c.Arg(r.nodeTTL().Milliseconds(), want)
	got := r.server.Send(ctx, []redis.Call{c})[0]
	if got.Err != nil || len(got.Values) != 3 {
		return 0, false, false
	}
	r.known.Store(got.Values[1] == 0)
	return max(1, min(got.Values[0], maxNodes)), got.Values[2] == 1, true
}

const leaveServer = -1

const (
	renewAccounts = 100     // max accounts per call
	maxNodes      = 1 << 16 // more than share a Redis
)

// leaseLoop renews this node's leases and registers those that Redis does not have.
func (r *redisBackend) leaseLoop(ctx context.Context) {
	ticker := time.NewTicker(r.options.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !r.server.Lost() && r.renew() {
				r.registerLeases()
			}
		case <-r.unregistered:
			if !r.server.Lost() {
				r.registerLeases()
			}
		case <-ctx.Done():
			return
		}
	}
}

// signalUnregistered wakes leaseLoop.
func (r *redisBackend) signalUnregistered() {
	select {
	case r.unregistered <- struct{}{}:
	default:
	}
}

// renew extends all leases of this node in one round trip and marks those that Redis has lost.
func (r *redisBackend) renew() bool {
	byOrg := map[string][]*mirrorAccount{}
	r.mirror.each(r.now(), func(k *mirrorAccount) {
		if k.hasRegisteredLease() {
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
	ok := true
	for i, got := range r.server.Send(ctx, calls) {
		if got.Err == nil && len(got.Values) == 1+len(held[i]) {
			r.applyRenewal(held[i], got.Values)
		} else {
			ok = false
		}
	}
	return ok
}

// renewCall builds a call of the renew script.
func (r *redisBackend) renewCall(org string, accounts []*mirrorAccount) redis.Call {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := redis.Call{Script: renewScript, Args: []string{r.node}}
	c.Arg(r.options.Lease.Milliseconds())
	for _, k := range accounts {
		addAccount(&c, org, k.account.ID)
		c.Arg(int64(k.account.Limit.Budget), k.account.Limit.budgetWindow().Milliseconds())
	}
	return c
}

// applyRenewal marks the leases that Redis does not have.
func (r *redisBackend) applyRenewal(accounts []*mirrorAccount, values []int64) {
	p := r.mirror.shardOf(accounts[0].org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range accounts {
		k.markLost(values[1+i], values[0])
	}
}

// unregisteredLease is a lease that Redis does not have.
type unregisteredLease struct {
	account Account
	org     string
	lease   *lease
	amounts amounts
}

// registerLeases writes to Redis the leases with reservations that were made while Redis was lost,
// and the leases that Redis has lost.
func (r *redisBackend) registerLeases() bool {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	var pending []unregisteredLease
	r.mirror.each(r.now(), func(k *mirrorAccount) {
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
func (r *redisBackend) registerLease(u unregisteredLease) bool {
	req := &Request{Org: u.org, Accounts: []Account{u.account}}
	id := r.newMark()
	c := r.reserveCall(req, id, u.amounts)
	c.Arg(0, 1)
	addLimits(c, req.Accounts)
	values, err := r.server.Do(c)
	var got reply
	if err == nil {
		got, err = parse(values, 1)
	} else {
		r.queue.put(undo(req, id, u.amounts))
	}
	p := r.mirror.shardOf(u.org)
	p.mu.Lock()
	defer p.mu.Unlock()
	u.lease.registering = false
	if err != nil || got.status != granted {
		return false
	}
	u.lease.id = got.state(0)[stateLease]
	return true
}

// close sends the queue for at most a second, leaves the server and closes the client.
func (r *redisBackend) close() {
	r.endSlices(math.MaxInt64)
	deadline := time.Now().Add(time.Second)
	for !r.server.Lost() && !r.queue.isEmpty() && time.Now().Before(deadline) {
		r.flush()
	}
	if !r.server.Lost() {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		_, _, _ = r.join(ctx, leaveServer) // without it the node counts until its heartbeat expires
		cancel()
	}
	r.seeder.close()
	r.server.Close()
}
