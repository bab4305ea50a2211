package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// share is the part of an account that this node may use while Redis is lost.
type share struct {
	engine      *engine     // counts the share; nil, or the engine of an earlier outage: the share is not computed yet
	total       usage.Money // the budget of the whole account
	budget      usage.Money
	closed      bool // too little is left to share
	provisional bool
}

// minBudgetPart is the part of a budget, a tenth, that must be left. Otherwise the account is closed for
// the outage.
const minBudgetPart = 10

// An unresponsive Redis may only be slow, and other nodes may still use what is left of a budget.
// So a node uses a fiftieth of its share in the first two seconds and the whole share after ten. A
// short stall overdraws a budget by a fiftieth at most.
const (
	fullShare    = 1000
	initialShare = 20
)

// shareAllowed returns how much of its share the node may use now, in thousandths. For an account that
// cannot be seeded this is the whole share, because no node uses Redis for such an account.
func (r *redisServer) shareAllowed(e *engine) usage.Money {
	if e == r.unknown {
		return fullShare
	}
	lasts := r.now() - r.shareSince.Load()
	if !r.lost.Load() || lasts < 2*second {
		return initialShare
	}
	return usage.Money(min(fullShare, initialShare+(lasts-2*second)*(fullShare-initialShare)/(8*second)))
}

// retryWhileLost is the RetryAfter of requests that are refused because Redis is lost.
const retryWhileLost = 2 * time.Second

// reserveFromShare reserves from this node's share: each rate limit, and the last known rest of each
// budget, divided by the number of nodes. Redis gets the settlement when it is back.
func (r *redisServer) reserveFromShare(ctx context.Context, req *Request, h *reservation) *Refusal {
	now := r.now()
	if !r.lost.Load() && now-r.shareSince.Load() > 5*second { // a single call failed, Redis is not lost
		r.resetShare(now)
	}
	return r.reserveFromEngine(ctx, r.local.Load(), req, h)
}

// reserveFromEngine reserves from the share that the engine e counts.
func (r *redisServer) reserveFromEngine(ctx context.Context, e *engine, req *Request, h *reservation) *Refusal {
	now := r.now()
	s := e.shardOf(req.Org)
	nodes := max(1, r.nodes.Load())
	parts := make([]Account, len(req.Accounts))
	for i := range req.Accounts {
		part, ok := r.shareOfAccount(ctx, e, req, i, nodes)
		if !ok {
			return req.Accounts[i].refuse(Budget, retryWhileLost)
		}
		parts[i] = part
	}
	unknown, refusal := s.reserve(now, parts, req.amounts(), h)
	if unknown >= 0 { // the window was changed concurrently
		return req.Accounts[unknown].refuse(Budget, retryWhileLost)
	}
	if refusal != nil {
		if refusal.Reason == Budget {
			refusal.RetryAfter = retryWhileLost
		}
		return refusal
	}
	h.fallbackAt = now
	p := r.mirror.shardOf(req.Org)
	p.mu.Lock()
	for i := range req.Accounts {
		l := p.account(req.Org, req.Accounts[i], now).unregisteredLease()
		l.add(req.amounts().open, req.Cost)
		*h.leases.At(i) = l
	}
	p.mu.Unlock()
	if !r.lost.Load() {
		r.signalUnregistered()
	}
	r.counters.fallback.Add(1)
	return nil
}

// shareOfAccount returns an account with this node's share as its limit. It reports false if the
// account is closed.
func (r *redisServer) shareOfAccount(ctx context.Context, e *engine, req *Request, i int, nodes int64) (Account, bool) {
	account := req.Accounts[i]
	sh := r.currentShare(req.Org, account)
	if !sh.isCurrent(e, account) {
		sh = r.computeShare(ctx, e, req.Org, account, nodes)
	}
	l := account.Limit
	part := Limit{Requests: perNode(l.Requests, nodes), Tokens: perNode(l.Tokens, nodes), Concurrency: perNode(l.Concurrency, nodes)}
	if l.Budget > 0 {
		part.Budget = max(1, sh.budget*r.shareAllowed(e)/fullShare)
		if sh.provisional {
			part.Budget = sh.budget
		}
	}
	return Account{ID: account.ID, Limit: part}, !sh.closed
}

// isCurrent reports whether the share belongs to this outage and to the present budget.
func (s share) isCurrent(e *engine, account Account) bool {
	return s.engine == e && s.total == account.Limit.Budget
}

// currentShare returns the share computed last.
func (r *redisServer) currentShare(org string, account Account) share {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account(org, account, r.now()).share
}

// perNode divides a limit by the number of nodes; a limit never becomes 0.
func perNode(limit, nodes int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(1, limit/nodes)
}

// computeShare computes the node's share of what an account has left, and initialises its counters.
func (r *redisServer) computeShare(ctx context.Context, e *engine, org string, account Account, nodes int64) share {
	spent, known := r.lastKnown(org, account)
	blind := false
	if !known && account.Limit.Budget > 0 {
		from, err := r.seeder.Fetch(ctx, account.toSeed(), r.clock(), seed.Discard{})
		spent, blind = from.Parts.Sum(), err != nil
		logs, _ := r.options.Logs.Spent(budget.Owner(account.ID))
		for _, t := range logs {
			spent += max(0, t.Spent-spentIn(from.Logs, t.Log))
		}
	}
	now := r.now()
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.account(org, account, now)
	if k.share.isCurrent(e, account) { // another request has computed it
		return k.share
	}
	k.share = share{engine: e, total: account.Limit.Budget}
	if l := account.Limit; l.Budget > 0 {
		left := l.Budget - spent - k.reserved
		k.share.closed = left < max(l.Budget/minBudgetPart, usage.Money(nodes))
		k.share.budget, k.share.provisional = max(1, left/usage.Money(nodes)), blind
	}
	b := carriedOver{provisional: blind}
	if now-k.seenAt < minute {
		b.requests, b.tokens = k.requests/nodes, k.tokens/nodes
	}
	e.shardOf(org).startShare(now, account.ID, b)
	return k.share
}

// lastKnown returns what this node knows of an account's spending.
func (r *redisServer) lastKnown(org string, account Account) (spent usage.Money, known bool) {
	p, now := r.mirror.shardOf(org), r.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.account(org, account, now)
	return k.spent, k.generation != 0
}

// forget deletes an account.
func (s *shard) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.accounts, id)
}

// carriedOver is the part of the current minute that was used before Redis was lost.
type carriedOver struct {
	requests, tokens int64
	provisional      bool
}

// startShare initialises the counters of a share.
func (s *shard) startShare(now int64, id string, b carriedOver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(id, now)
	a.advance(now, Limit{})
	a.seeded, a.provisional = true, b.provisional
	a.requests.Current, a.tokens.Current = max(a.requests.Current, b.requests), max(a.tokens.Current, b.tokens)
}
