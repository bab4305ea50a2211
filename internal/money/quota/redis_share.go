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
	at          int64       // when it was computed, in ms
	left        usage.Money // of the budget, then; it is divided by the number of nodes
	closed      bool        // too little is left to share
	provisional bool        // the ledger did not respond
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

// usesShare reports whether limits are this node's share.
func (r *redisServer) usesShare() bool { return r.lost.Load() || r.evicts.Load() }

// shareAllowed returns how much of its share the node may use now, in thousandths. For an account that
// cannot be seeded this is the whole share, because no node uses Redis for such an account.
func (r *redisServer) shareAllowed(e *engine) usage.Money {
	if e == r.unknown {
		return fullShare
	}
	lasts := r.now() - r.shareSince.Load()
	if !r.usesShare() || lasts < 2*second {
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
	if !r.usesShare() && now-r.shareSince.Load() > 5*second { // a single call failed, Redis is not lost
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
	if !r.usesShare() {
		r.signalUnregistered()
	}
	r.counters.fallback.Add(1)
	return nil
}

// shareOfAccount returns an account with this node's share as its limit. It reports false if the
// account is closed.
func (r *redisServer) shareOfAccount(ctx context.Context, e *engine, req *Request, i int, nodes int64) (Account, bool) {
	account := req.Accounts[i]
	sh := r.currentShare(ctx, e, req.Org, account, nodes)
	l := account.Limit
	part := Limit{Requests: perNode(l.Requests, nodes), Tokens: perNode(l.Tokens, nodes), Concurrency: perNode(l.Concurrency, nodes)}
	if l.Budget > 0 {
		if l.Window > 0 && r.now()-sh.at >= l.Window.Milliseconds() { // what was spent before has left the window
			sh.left, sh.closed = l.Budget, false
		}
		part.Budget, part.Window = max(1, sh.left/usage.Money(nodes)), l.Window
		if !sh.provisional {
			part.Budget = max(1, part.Budget*r.shareAllowed(e)/fullShare)
		}
	}
	return Account{ID: account.ID, Limit: part}, !sh.closed
}

// isCurrent reports whether the share belongs to this outage and to the present budget. If the ledger has not
// responded, it is queried again after five seconds.
func (s share) isCurrent(e *engine, account Account, now int64) bool {
	return s.engine == e && s.total == account.Limit.Budget && (!s.provisional || now-s.at < 5*second)
}

// perNode divides a limit by the number of nodes; a limit never becomes 0.
func perNode(limit, nodes int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(1, limit/nodes)
}

// currentShare returns the node's share of what an account has left. The first time it computes the share, and
// initialises its counters.
func (r *redisServer) currentShare(ctx context.Context, e *engine, org string, account Account, nodes int64) share {
	p, now := r.mirror.shardOf(org), r.now()
	p.mu.Lock()
	k := p.account(org, account, now)
	sh, spent, known, blind := k.share, k.spent, k.generation != 0, false
	p.mu.Unlock()
	if sh.isCurrent(e, account, now) {
		return sh
	}
	if !known && account.Limit.Budget > 0 {
		from, err := r.seeder.Fetch(ctx, account.toSeed(), r.clock(), seed.Discard{})
		spent, blind = from.Parts.Sum(), err != nil
		logs, _ := r.options.Logs.Spent(budget.Owner(account.ID))
		for _, t := range logs {
			spent += max(0, t.Spent-spentIn(from.Logs, t.Log))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, k = r.now(), p.account(org, account, now)
	if k.share.isCurrent(e, account, now) { // another request has computed it
		return k.share
	}
	k.share = share{engine: e, total: account.Limit.Budget, at: now}
	if l := account.Limit; l.Budget > 0 {
		left := l.Budget - spent - k.reserved
		k.share.closed = left < max(l.Budget/minBudgetPart, usage.Money(nodes))
		k.share.left, k.share.provisional = left, blind
	}
	var requests, tokens int64
	if now-k.seenAt < minute {
		requests, tokens = k.requests/nodes, k.tokens/nodes
	}
	e.shardOf(org).startShare(now, account, requests, tokens, blind)
	return k.share
}

// forget deletes an account.
func (s *shard) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.accounts, id)
}

// startShare initialises the counters of a share with what was used of the current minute before Redis was lost.
func (s *shard) startShare(now int64, account Account, requests, tokens int64, provisional bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(account.ID, now)
	a.advance(now, account.Limit)
	a.seeded, a.provisional = true, provisional
	a.requests.Current, a.tokens.Current = max(a.requests.Current, requests), max(a.tokens.Current, tokens)
}
