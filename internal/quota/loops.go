package quota

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// membersKey is where nodes are counted.
const membersKey = "quota:{members}"

// The probes: soon after Redis was lost, for it may have been a hiccup, and then so
// often that it is found within a second.
const (
	probeFirst   = 200 * time.Millisecond
	probeNext    = 600 * time.Millisecond
	probeTimeout = 250 * time.Millisecond
)

func (r *remote) run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { r.sendLoop(ctx) })
	wg.Go(func() { r.probeLoop(ctx) })
	wg.Go(func() { every(ctx, r.o.Heartbeat, r.beat) })
	wg.Go(func() { r.leaseLoop(ctx) })
	if r.o.HotRate >= 0 {
		wg.Go(func() { every(ctx, r.o.Slice/2, func() { r.endSlices(r.now()) }) })
	}
	wg.Wait()
}

// every calls f at once and then again and again.
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

// jitter is d, give or take a third.
func jitter(d time.Duration) time.Duration {
	return d*2/3 + rand.N(d*2/3) //nolint:gosec // it is not a secret
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sendLoop tells Redis what is queued. While one batch is on its way the next one
// gathers, so that batches are as large as they have to be.
func (r *remote) sendLoop(ctx context.Context) {
	for {
		select {
		case <-r.queue.wake:
		case <-ctx.Done():
			return
		}
		for !r.breaker.lost.Load() && !r.queue.isEmpty() {
			if !r.send() && !pause(ctx, jitter(50*time.Millisecond)) {
				return
			}
		}
	}
}

// probeLoop finds out when a lost Redis is back.
func (r *remote) probeLoop(ctx context.Context) {
	for {
		select {
		case <-r.breaker.opened:
		case <-ctx.Done():
			return
		}
		for wait := probeFirst; r.breaker.lost.Load(); wait = probeNext {
			if !pause(ctx, jitter(wait)) {
				return
			}
			if r.probe() {
				r.recover()
			}
		}
	}
}

func (r *remote) probe() bool {
	if r.connect() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	client := *r.client.Load()
	if client.Do(ctx, client.B().Ping().Build()).Error() != nil {
		return false
	}
	return r.teach() == nil && r.join(ctx)
}

// recover tells a Redis that is back what happened without it, before anybody else
// asks it: what was settled, and what is still open.
func (r *remote) recover() {
	for range 64 { // as long as it gets less; under load there is always something
		if r.queue.isEmpty() {
			break
		}
		if !r.send() {
			return
		}
	}
	if !r.renew() || !r.adopt() {
		return
	}
	outage := time.Duration(r.now()-r.lost.Load()) * time.Millisecond
	r.breaker.close()
	r.queue.nudge()
	r.o.Logger.Info("redis is back; limits are shared again", "outage", outage.String(), "nodes", r.members.Load())
}

// beat says that this node is there, and counts the others.
func (r *remote) beat() {
	if r.breaker.lost.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	r.join(ctx)
}

func (r *remote) join(ctx context.Context) bool {
	client := r.client.Load()
	if client == nil {
		return false
	}
	c := &call{script: &r.scripts.members, keys: []string{membersKey}, args: []string{r.name}}
	c.arg(5 * r.o.Heartbeat.Milliseconds())
	values, err := c.run(ctx, *client)
	r.heard(err)
	if err != nil || len(values) != 1 {
		return false
	}
	r.members.Store(max(1, values[0]))
	return true
}

const renewAccounts = 100 // in one call

// leaseLoop renews what this node holds, and writes down what Redis does not have.
func (r *remote) leaseLoop(ctx context.Context) {
	ticker := time.NewTicker(r.o.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !r.breaker.lost.Load() && r.renew() {
				r.adopt()
			}
		case <-r.orphaned:
			if !r.breaker.lost.Load() {
				r.adopt()
			}
		case <-ctx.Done():
			return
		}
	}
}

// orphan says that there is something to be written down.
func (r *remote) orphan() {
	select {
	case r.orphaned <- struct{}{}:
	default:
	}
}

// renew keeps what this node holds, in one round trip, and notes what Redis has not.
func (r *remote) renew() bool {
	byOrg := map[string][]*known{}
	r.book.each(r.now(), func(k *known) {
		if k.isHeld() {
			byOrg[k.org] = append(byOrg[k.org], k)
		}
	})
	var calls []call
	var held [][]*known
	for org, all := range byOrg {
		for len(all) > 0 {
			n := min(len(all), renewAccounts)
			calls, held = append(calls, r.renewal(org, all[:n])), append(held, all[:n])
			all = all[n:]
		}
	}
	if len(calls) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var failed error
	well := true
	for i, a := range run(ctx, *r.client.Load(), calls) {
		if a.err == nil && len(a.values) == 1+len(held[i]) {
			r.renewed(held[i], a.values)
		} else {
			well, failed = false, a.err
		}
	}
	r.heard(failed)
	return well
}

func (r *remote) renewal(org string, accounts []*known) call {
	p := r.book.page(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	c := call{script: &r.scripts.renew, args: []string{r.name}}
	c.arg(r.o.Lease.Milliseconds())
	for _, k := range accounts {
		c.account(org, k.of.ID)
		c.arg(int64(k.of.Limit.Budget), k.of.Limit.span().Milliseconds())
	}
	return c
}

// renewed notes which leases Redis does not have.
func (r *remote) renewed(accounts []*known, values []int64) {
	p := r.book.page(accounts[0].org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range accounts {
		k.forgotten(values[1+i], values[0])
	}
}

// orphan is what is open on this node and not known to Redis.
type orphan struct {
	of   Account
	org  string
	l    *lease
	want take
}

// adopt writes orphans down in Redis: what was reserved while it was lost, and what
// it has forgotten.
func (r *remote) adopt() bool {
	r.sending.Lock()
	defer r.sending.Unlock()
	var orphans []orphan
	r.book.each(r.now(), func(k *known) {
		for _, l := range k.leases {
			if l.born == 0 && !l.isEmpty() {
				l.adopting = true
				orphans = append(orphans, orphan{k.of, k.org, l, take{open: l.open, cost: l.reserved}})
			}
		}
	})
	well := true
	for _, o := range orphans {
		well = r.writeDown(o) && well
	}
	return well
}

func (r *remote) writeDown(o orphan) bool {
	a := &Ask{Org: o.org, Accounts: []Account{o.of}}
	id := r.mark()
	c := r.reservation(a, id, o.want)
	c.arg(0, 1)
	c.limits(a.Accounts)
	values, err := r.ask(c)
	var got reply
	if err == nil {
		got, err = parse(values, 1)
	} else {
		r.queue.put(undo(a, id, o.want))
	}
	p := r.book.page(o.org)
	p.mu.Lock()
	defer p.mu.Unlock()
	o.l.adopting = false
	if err != nil || got.status != taken {
		return false
	}
	o.l.born = got.state(0)[stateBorn]
	return true
}

// close sends what is left and lets go.
func (r *remote) close() {
	r.endSlices(math.MaxInt64)
	deadline := time.Now().Add(time.Second)
	for !r.breaker.lost.Load() && !r.queue.isEmpty() && time.Now().Before(deadline) {
		r.send()
	}
	r.seeds.close()
	if client := r.client.Load(); client != nil {
		(*client).Close()
	}
}
