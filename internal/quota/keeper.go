package quota

import (
	"context"
	"sync/atomic"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// Keeper holds accounts to their limits. Its methods may be called at once from
// many goroutines.
type Keeper struct {
	back  backend
	stats stats
}

// backend is memory or Redis.
type backend interface {
	reserve(ctx context.Context, a *Ask, h *held) *Refusal
	settle(h *held, tokens int64, cost usage.Money)
	charge(a *Ask)
	run(ctx context.Context)
	fill(s *Snapshot)
	count(ctx context.Context, org, account string) (Count, error)
	close()
}

type stats struct {
	reserved, refused, open, sliced, fallback, outages atomic.Int64
}

// Hold is a reservation. The zero Hold reserves nothing.
type Hold struct{ h *held }

// held is one reservation: what was taken, and from where.
type held struct {
	keeper *Keeper
	done   atomic.Bool
	ask    Ask
	minute int64 // the window that requests and tokens were counted in
	shard  *shard
	from   [3]*account // in memory, or of this node's share
	leases [3]*lease   // in Redis
	blind  bool        // the ledger could not be asked about one of the accounts
	local  int64       // when it was taken from this node's share, in ms; 0 where it was not
}

// maxAccounts are those of a key, its team and its organisation.
const maxAccounts = 3

// Reserve takes the most that a request can use from all of its accounts, or from
// none. Where several limits are in the way, the refusal names the one that takes
// longest to be out of it. The context bounds the wait; so do 50 ms for Redis and
// 250 ms for the ledger, which is asked at first sight of an account alone.
func (k *Keeper) Reserve(ctx context.Context, a Ask) (Hold, *Refusal) {
	if len(a.Accounts) == 0 {
		return Hold{}, nil
	}
	if len(a.Accounts) > maxAccounts { // there is no such request; to let it pass would be to forget a limit
		return Hold{}, &Refusal{Account: a.Accounts[maxAccounts].ID, Reason: Budget}
	}
	a.Tokens, a.Cost = max(a.Tokens, 0), max(a.Cost, 0)
	h := &held{keeper: k, ask: a}
	if refusal := k.back.reserve(ctx, &h.ask, h); refusal != nil {
		k.stats.refused.Add(1)
		return Hold{}, refusal
	}
	k.stats.reserved.Add(1)
	k.stats.open.Add(1)
	return Hold{h}, nil
}

// Settle ends a reservation with what was really used. It does not wait for
// anybody. Only the first call counts.
func (h Hold) Settle(tokens int64, cost usage.Money) {
	if h.h == nil || !h.h.done.CompareAndSwap(false, true) {
		return
	}
	h.h.keeper.stats.open.Add(-1)
	h.h.keeper.back.settle(h.h, max(tokens, 0), max(cost, 0))
}

// Charge adds what a request of a dead process has cost, once for each id, and not
// if it was settled before it died. Its tokens were counted when they were reserved,
// so they are not counted again. It does not wait for anybody.
func (k *Keeper) Charge(id, org string, accounts []Account, _ int64, cost usage.Money) {
	if len(accounts) > 0 && len(accounts) <= maxAccounts && cost > 0 {
		k.back.charge(&Ask{ID: id, Org: org, Accounts: accounts, Cost: cost})
	}
}

// Run keeps leases, membership, slices and settlements going until ctx ends.
func (k *Keeper) Run(ctx context.Context) { k.back.run(ctx) }

// Snapshot says how it goes.
func (k *Keeper) Snapshot() Snapshot {
	s := Snapshot{
		Nodes: 1, Open: k.stats.open.Load(), Reserved: k.stats.reserved.Load(), Refused: k.stats.refused.Load(),
		Sliced: k.stats.sliced.Load(), Fallback: k.stats.fallback.Load(), Outages: k.stats.outages.Load(),
	}
	k.back.fill(&s)
	return s
}

// Close sends what is queued, for a second at most, and lets go of the connections.
// Call it after Run has ended.
func (k *Keeper) Close() { k.back.close() }
