package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/allowance"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// onlyBudget reports whether the account has a budget and no other limit. Only money is reserved in
// advance: rates have slices.
func (a *Account) onlyBudget() bool {
	l := &a.Limit
	return l.Budget > 0 && l.Requests == 0 && l.Tokens == 0 && l.Concurrency == 0
}

// left returns what is left of the budget, as last known.
func (k *mirrorAccount) left() usage.Money { return k.account.Limit.Budget - k.spent - k.reserved }

// usableUntil returns how long an allowance can be used that a call, sent at the given time, has
// granted or renewed. Redis keeps the lease for at least that long.
func (r *redisBackend) usableUntil(sent int64) int64 {
	return sent + r.options.Lease.Milliseconds()/2
}

// reserveWithAllowances reserves from this node's allowances, and in Redis for the accounts that have none.
func (r *redisServer) reserveWithAllowances(ctx context.Context, req *Request, h *reservation) *Refusal {
	p, now, nodes := r.mirror.shardOf(req.Org), r.now(), r.nodes.Load()
	p.mu.Lock()
	for i := range req.Accounts {
		if !req.Accounts[i].onlyBudget() {
			continue
		}
		k := p.account(req.Org, req.Accounts[i], now)
		if want := k.wants(now, req.Cost, nodes); want > 0 {
			p.mu.Unlock()
			r.refill(p, k, &Request{Org: req.Org, Accounts: req.Accounts[i : i+1], Cost: want}, now)
			p.mu.Lock()
		}
	}
	refusal := p.takeAllowances(now, req, h)
	p.mu.Unlock()
	switch {
	case refusal == nil && h.fromAllowance == 0:
		return r.noteRefusal(req, r.reserveShared(ctx, req, h))
	case refusal == nil && h.fromAllowance == 1<<len(req.Accounts)-1:
		r.counters.sliced.Add(1)
		return nil
	case refusal == nil:
		h.rest = &reservation{limiter: h.limiter, request: *req}
		h.rest.request.Accounts = h.withoutAllowance()
		h.rest.accounts, h.rest.leases = few.Of[*account](len(h.rest.request.Accounts)), few.Of[*lease](len(h.rest.request.Accounts))
		refusal = r.noteRefusal(&h.rest.request, r.reserveShared(ctx, &h.rest.request, h.rest))
	}
	if refusal != nil {
		r.settleAllowances(h, 0, usage.Totals{})
	}
	return refusal
}

// withoutAllowance returns the accounts whose cost is not from an allowance.
func (h *reservation) withoutAllowance() (rest []Account) {
	for i, a := range h.request.Accounts {
		if h.fromAllowance&(1<<i) == 0 {
			rest = append(rest, a)
		}
	}
	return rest
}

// takeAllowances takes the cost of a request from each of its accounts whose allowance is large enough. It
// refuses the request if Redis has just refused this cost or a lower one. The caller holds the lock.
func (p *mirrorShard) takeAllowances(now int64, req *Request, h *reservation) (refusal *Refusal) {
	for i := range req.Accounts {
		k := p.accounts[req.Accounts[i].ID]
		switch {
		case k == nil || !req.Accounts[i].onlyBudget():
		case k.allowanceLease != nil && k.allowanceLease.id != 0 && k.allowance.Take(now, req.Cost):
			h.fromAllowance |= 1 << i
			*h.leases.At(i) = k.allowanceLease
		case k.refusal != nil && k.allowance.Refused(now, req.Cost):
			refusal = k.refusal
		}
	}
	return refusal
}

// wants counts a request and returns the amount that it has to add to the allowance, 0 for none. Only one
// request of an account adds to it at a time. The caller holds the lock.
func (k *mirrorAccount) wants(now int64, cost usage.Money, nodes int64) (want usage.Money) {
	if k.allowance.Count(now, cost) && k.generation > 1 && !k.refilling { // up to 1, what is left is not known
		want = k.allowance.Refill(now, cost, k.left(), nodes)
	}
	k.refilling = k.refilling || want > 0
	return want
}

// refill reserves the cost of req in Redis and adds it to the allowance of an account.
func (r *redisServer) refill(p *mirrorShard, k *mirrorAccount, req *Request, now int64) {
	want, nodes := amounts{cost: req.Cost}, r.nodes.Load()
	var h reservation
	got, err := r.take(req, r.newMark(), want, sliceFraction*max(1, nodes), &h)
	ok := err == nil && got.Status == script.Granted
	p.mu.Lock()
	defer p.mu.Unlock()
	k.refilling = false
	if ok {
		r.grant(p, k, *h.leases.At(0), want.cost, now)
	} else {
		k.allowance.Fail(now, nodes)
	}
}

// grant adds a reservation to the allowance. The caller holds the lock.
func (r *redisServer) grant(p *mirrorShard, k *mirrorAccount, l *lease, amount usage.Money, sent int64) {
	if l.id == 0 { // Redis has lost the lease meanwhile
		r.report(k.org, k.account, l, allowance.Report{Reserved: amount})
		return
	}
	if k.allowanceLease != l {
		if k.allowanceLease != nil && !k.allowance.IsEmpty() {
			r.report(k.org, k.account, k.allowanceLease, k.allowance.End())
		}
		k.allowanceLease = l
	}
	k.allowance.Grant(sent, amount, r.usableUntil(sent))
	p.withAllowance[k] = true
}

// noteRefusal records a refusal by a budget. Then this node does not call Redis for each request of a
// busy account with nothing left. It also returns the account's allowance, because a request for all
// that is left of the budget needs that money. The result is the given refusal.
func (r *redisServer) noteRefusal(req *Request, refusal *Refusal) *Refusal {
	if refusal == nil || refusal.Reason != Budget || r.usesShare() {
		return refusal
	}
	p, now := r.mirror.shardOf(req.Org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range req.Accounts {
		a := &req.Accounts[i]
		if k := p.accounts[a.ID]; k != nil && a.onlyBudget() && *refusal == *a.refuse(Budget, refusal.RetryAfter) && k.allowance.IsHot() {
			k.refusal = refusal
			k.allowance.Refuse(now, req.Cost, r.nodes.Load())
			if k.allowance.Free() > 0 {
				r.report(k.org, k.account, k.allowanceLease, k.allowance.End())
			}
		}
	}
	return refusal
}

// settleAllowances ends a reservation from allowances.
func (r *redisBackend) settleAllowances(h *reservation, cost usage.Money, totals usage.Totals) {
	p := r.mirror.shardOf(h.request.Org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, a := range h.request.Accounts {
		l, k := *h.leases.At(i), p.accounts[a.ID]
		switch {
		case h.fromAllowance&(1<<i) == 0:
		case k != nil && k.allowanceLease == l && l.id != 0:
			k.allowance.Settle(h.request.Cost, cost, totals.Of(a.ID), time.Now())
			p.withAllowance[k] = true
		default: // Redis has lost the lease
			r.report(h.request.Org, a, l, allowance.Report{Reserved: h.request.Cost, Total: totals.Of(a.ID)})
		}
	}
}

// report queues a report and subtracts it from the lease. The caller holds the lock.
func (r *redisBackend) report(org string, a Account, l *lease, report allowance.Report) {
	it := &change{id: r.newMark(), org: org, accounts: []Account{a}, reserved: report.Reserved, log: r.options.Logs.Name()}
	it.places.At(0).total = report.Total
	it.releaseFrom(l, 0)
	r.put(it)
}

// reportDue queues the reports that are due.
func (r *redisBackend) reportDue(now int64) {
	r.reports(func(k *mirrorAccount) (allowance.Report, bool) {
		return k.allowance.Report(now, k.left(), r.serverOf(k.org).nodes.Load())
	})
}

// reportAll queues reports that return all allowances.
func (r *redisBackend) reportAll() {
	r.reports(func(k *mirrorAccount) (allowance.Report, bool) { return k.allowance.End(), true })
}

// reports calls due for each account with an allowance, and queues the reports that due returns.
func (r *redisBackend) reports(due func(*mirrorAccount) (allowance.Report, bool)) {
	for i := range r.mirror.shards {
		p := &r.mirror.shards[i]
		p.mu.Lock()
		for k := range p.withAllowance {
			if k.allowance.IsEmpty() {
				delete(p.withAllowance, k)
			} else if report, ok := due(k); ok {
				r.report(k.org, k.account, k.allowanceLease, report)
			}
		}
		p.mu.Unlock()
	}
}

// reportAccounts queues reports of what accounts have spent from their allowances. Call it before a
// settlement is queued: the totals of the settlement include this spending, which would also count as
// reserved until the next report.
func (r *redisBackend) reportAccounts(org string, accounts []Account) {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range accounts {
		if k := p.accounts[accounts[i].ID]; k != nil && p.withAllowance[k] {
			if owed, _ := k.allowance.Owed(); owed > 0 {
				r.report(k.org, k.account, k.allowanceLease, k.allowance.Spent())
			}
		}
	}
}

// reportedUntil returns the time before which all spending from allowances is reported, at most the
// given time.
func (b *mirror) reportedUntil(until time.Time) time.Time {
	for i := range b.shards {
		p := &b.shards[i]
		p.mu.Lock()
		for k := range p.withAllowance {
			if owed, since := k.allowance.Owed(); owed > 0 && since.Before(until) {
				until = since
			}
		}
		p.mu.Unlock()
	}
	return until
}
