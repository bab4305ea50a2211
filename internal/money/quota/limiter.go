package quota

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/few"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Limiter enforces limits. Its methods are safe for concurrent use.
type Limiter struct {
	back     backend
	counters counters
}

// backend counts use, in memory or in Redis.
type backend interface {
	reserve(ctx context.Context, a *Request, h *reservation) *Refusal
	settle(h *reservation, tokens int64, cost usage.Money, totals usage.Totals)
	setTotal(t usage.Total)
	countedUntil() time.Time
	run(ctx context.Context)
	fill(s *Snapshot)
	used(org, account string) (u Use, ok bool)
	count(ctx context.Context, org, account string) (Count, error)
	close()
}

type counters struct {
	reserved, refused, open, sliced, fallback, outages atomic.Int64
}

// Hold is a reservation. The zero Hold reserves nothing.
type Hold struct{ r *reservation }

// reservation records what was reserved and where.
type reservation struct {
	limiter       *Limiter
	done          atomic.Bool
	request       Request
	minute        int64 // minute in which requests and tokens were counted
	shard         *shard
	accounts      few.List[*account] // counters in memory, or of this node's share
	leases        few.List[*lease]   // in Redis
	provisional   bool               // the ledger could not be queried for at least one account
	fromAllowance uint16             // bit i: the cost of account i is from an allowance
	rest          *reservation       // reservation of the other accounts, if fromAllowance is not 0; nil: there are none
	fallbackAt    int64              // when the amounts were taken from this node's share, in ms; 0: they were not
}

// maxAccounts is the maximum number of accounts of a request: the budgets of its key, team and organisation.
const maxAccounts = 3 * budget.Max

// Reserve takes the maximum use of a request from all of its accounts or from none. If several
// limits are exceeded, the refusal names the one with the longest wait. Reserve waits at most 50 ms
// for Redis and, the first time it sees an account, 250 ms for the ledger.
func (l *Limiter) Reserve(ctx context.Context, req Request) (Hold, *Refusal) {
	if len(req.Accounts) == 0 {
		return Hold{}, nil
	}
	if len(req.Accounts) > maxAccounts { // a bug in the caller; admitting it would ignore a limit
		return Hold{}, req.Accounts[maxAccounts].refuse(Budget, 0)
	}
	req.Tokens, req.Cost = max(req.Tokens, 0), max(req.Cost, 0)
	h := &reservation{limiter: l, request: req, accounts: few.Of[*account](len(req.Accounts)), leases: few.Of[*lease](len(req.Accounts))}
	if refusal := l.back.reserve(ctx, &h.request, h); refusal != nil {
		l.counters.refused.Add(1)
		return Hold{}, refusal
	}
	l.counters.reserved.Add(1)
	l.counters.open.Add(1)
	return Hold{h}, nil
}

// Settle ends a reservation and charges the actual use. The totals are what the key, the team and the
// organisation have spent in the log of this process, this request included. The backend charges the
// difference to the previous totals. Settle does not block. Only the first call counts.
func (h Hold) Settle(tokens int64, cost usage.Money, totals usage.Totals) {
	if h.r == nil || !h.r.done.CompareAndSwap(false, true) {
		return
	}
	h.r.limiter.counters.open.Add(-1)
	h.r.limiter.back.settle(h.r, max(tokens, 0), max(cost, 0), totals)
}

// SetTotal sets what an account has spent in the log of another process. It does not block.
func (l *Limiter) SetTotal(t usage.Total) {
	if t.Spent > 0 {
		l.back.setTotal(t)
	}
}

// CountedUntil returns the time before which every settlement is stored.
func (l *Limiter) CountedUntil() time.Time { return l.back.countedUntil() }

// Run renews leases, counts nodes, returns unused slices and sends settlements until ctx ends.
func (l *Limiter) Run(ctx context.Context) { l.back.run(ctx) }

// Snapshot returns the limiter's state for metrics.
func (l *Limiter) Snapshot() Snapshot {
	s := Snapshot{
		Nodes: 1, Open: l.counters.open.Load(), Reserved: l.counters.reserved.Load(), Refused: l.counters.refused.Load(),
		Sliced: l.counters.sliced.Load(), Fallback: l.counters.fallback.Load(), Outages: l.counters.outages.Load(),
	}
	l.back.fill(&s)
	return s
}

// Close sends queued settlements for at most a second and closes the connections. Call it after Run
// has returned.
func (l *Limiter) Close() { l.back.close() }

// Scripts returns the scripts that a Limiter calls, for redis.Options.
func Scripts() []string { return script.All() }
