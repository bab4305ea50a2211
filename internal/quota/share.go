package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// share is the part of an account that this node may use while Redis is lost.
type share struct {
	in     *engine     // in which it is counted; another one: it is not known yet
	of     usage.Money // the whole budget
	budget usage.Money
	closed bool
	blind  bool
}

// closedPart is the tenth of a budget that is not used without Redis: an account that
// has less left is closed.
const closedPart = 10

// While Redis is silent it may only be slow, and others may be given what is left of
// a budget. So a node uses a fiftieth of its share in the first two seconds, and the
// whole of it after ten. A budget is overdrawn by a hiccup by a fiftieth at most, and one for
// few requests not at all.
const (
	trustAll   = 1000
	trustFirst = 20
)

// trust is how much of its share a node may use, of a thousand.
func (r *remote) trust() usage.Money {
	lasts := r.now() - r.started.Load()
	if !r.breaker.lost.Load() || lasts < 2*second {
		return trustFirst
	}
	return usage.Money(min(trustAll, trustFirst+(lasts-2*second)*(trustAll-trustFirst)/(8*second)))
}

// away is when to come back where only Redis is in the way.
const away = 2 * time.Second

// fallBack reserves from this node's share: a rate's limit divided by the number of
// nodes, and a budget's last known rest divided by it. What is used is booked in
// Redis when that is back.
func (r *remote) fallBack(ctx context.Context, a *Ask, h *held) *Refusal {
	now := r.now()
	if !r.breaker.lost.Load() && now-r.started.Load() > 5*second { // a call was lost, not Redis
		r.restart(now)
	}
	e := r.local.Load()
	s := e.shard(a.Org)
	nodes := max(1, r.members.Load())
	var parts [maxAccounts]Account
	for i := range a.Accounts {
		part, ok := r.part(ctx, e, a, i, nodes)
		if !ok {
			return &Refusal{Account: a.Accounts[i].ID, Reason: Budget, RetryAfter: away}
		}
		parts[i] = part
	}
	unknown, refusal := s.reserve(now, parts[:len(a.Accounts)], a.take(), h)
	if unknown >= 0 { // its shape was changed between the two
		return &Refusal{Account: a.Accounts[unknown].ID, Reason: Budget, RetryAfter: away}
	}
	if refusal != nil {
		if refusal.Reason == Budget {
			refusal.RetryAfter = away
		}
		return refusal
	}
	h.local = now
	p := r.book.page(a.Org)
	p.mu.Lock()
	for i := range a.Accounts {
		h.leases[i] = p.account(a.Org, a.Accounts[i], now).spare()
		h.leases[i].add(1, a.Cost)
	}
	p.mu.Unlock()
	if !r.breaker.lost.Load() {
		r.orphan()
	}
	r.stats.fallback.Add(1)
	return nil
}

// part is one account with this node's share of its limits. It is not ok where the
// account is closed.
func (r *remote) part(ctx context.Context, e *engine, a *Ask, i int, nodes int64) (Account, bool) {
	of := a.Accounts[i]
	sh := r.shareOf(a.Org, of)
	if !sh.isOf(e, of) {
		sh = r.divide(ctx, e, a.Org, of, nodes)
	}
	l := of.Limit
	part := Limit{Requests: split(l.Requests, nodes), Tokens: split(l.Tokens, nodes), Concurrency: split(l.Concurrency, nodes)}
	if l.Budget > 0 {
		part.Budget = max(1, sh.budget*r.trust()/trustAll)
		if sh.blind {
			part.Budget = sh.budget
		}
	}
	return Account{ID: of.ID, Limit: part}, !sh.closed
}

// isOf is false where an outage has begun since, or the operator has set another budget.
func (s share) isOf(e *engine, of Account) bool { return s.in == e && s.of == of.Limit.Budget }

func (r *remote) shareOf(org string, of Account) share {
	p := r.book.page(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.account(org, of, r.now()).share
}

// split is a node's share of a number, and never nothing.
func split(limit, nodes int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(1, limit/nodes)
}

// divide finds a node's share of what an account has left, and starts to count it.
func (r *remote) divide(ctx context.Context, e *engine, org string, of Account, nodes int64) share {
	m := r.recall(org, of)
	spent, blind := m.spent, false
	if m.seeded == 0 && of.Limit.Budget > 0 {
		p, err := r.seeds.ask(ctx, of, r.clock(), nowhere{})
		spent, blind = p.sum(), err != nil
	}
	now := r.now()
	p := r.book.page(org)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.account(org, of, now)
	if k.share.isOf(e, of) { // another request has done it
		return k.share
	}
	k.share = share{in: e, of: of.Limit.Budget}
	if l := of.Limit; l.Budget > 0 {
		left := l.Budget - spent - k.reserved
		k.share.closed = left < max(l.Budget/closedPart, usage.Money(nodes))
		k.share.budget, k.share.blind = max(1, left/usage.Money(nodes)), blind
	}
	b := beginning{blind: blind}
	if now-k.at < minute {
		b.requests, b.tokens = k.requests/nodes, k.tokens/nodes
	}
	e.shard(org).begin(now, of.ID, b)
	return k.share
}

// beginning is what a node's share has used of the minute already.
type beginning struct {
	requests, tokens int64
	blind            bool
}

func (s *shard) begin(now int64, id string, b beginning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(id, now)
	a.advance(now, Limit{})
	a.known, a.blind = true, b.blind
	a.requests.cur, a.tokens.cur = max(a.requests.cur, b.requests), max(a.tokens.cur, b.tokens)
}
