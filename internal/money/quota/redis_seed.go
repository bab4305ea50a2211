package quota

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/script"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// seedOnce seeds an account that Redis does not have, because it is new or because Redis was emptied, and reports
// whether Redis has the account now. Concurrent calls for one account share the work.
//
// The seed is the ledger's sum. What the ledger does not have yet comes from the nodes: each has sent, or
// will send, the totals of its logs.
func (r *redisServer) seedOnce(ctx context.Context, org string, account Account, now int64) bool {
	name := script.Key(org, "a:", account.ID)
	f, _ := r.seeding.LoadOrStore(name, sync.OnceValue(func() bool {
		defer r.seeding.Delete(name)
		return r.seedAccount(ctx, org, account, now)
	}))
	return f.(func() bool)() //nolint:forcetypeassert // it has no others
}

// seedAccount queries the ledger and writes the seed.
func (r *redisServer) seedAccount(ctx context.Context, org string, account Account, now int64) bool {
	from, err := r.seeder.Fetch(ctx, account.toSeed(), time.UnixMilli(now), seed.Discard{})
	if err != nil {
		return false
	}
	c := &redis.Call{Script: script.Seed}
	script.AddAccount(c, org, account.ID)
	c.Keys = append(c.Keys, script.Key(org, "a:", budget.Owner(account.ID))+":l")
	c.Arg(int64(account.Limit.Budget), account.Limit.budgetWindow().Milliseconds())
	for _, v := range from.Parts {
		c.Arg(int64(v))
	}
	local, _ := r.options.Logs.Spent(budget.Owner(account.ID))
	for _, t := range from.Logs {
		c.Args = append(c.Args, t.Log)
		c.Arg(int64(t.Spent), int64(spentIn(local, t.Log)))
	}
	for _, t := range local {
		if !slices.ContainsFunc(from.Logs, func(l usage.Total) bool { return l.Log == t.Log }) {
			c.Args = append(c.Args, t.Log)
			c.Arg(0, int64(t.Spent))
		}
	}
	if _, err := r.server.Do(c); err != nil || !r.checkData(r.server.Do, 0) { // the other nodes may have reservations that Redis has lost
		return false
	}
	r.endUnknown(org, account.ID)
	return true
}

// endUnknown ends the use of this node's share for an account that could not be seeded before.
func (r *redisServer) endUnknown(org, id string) {
	p := r.mirror.shardOf(org)
	p.mu.Lock()
	if k := p.accounts[id]; k != nil && k.share.engine == r.unknown {
		k.share = share{}
	}
	p.mu.Unlock()
	r.unknown.shardOf(org).forget(id)
}

// spentIn returns what was spent in a log.
func spentIn(logs []usage.Total, log string) usage.Money {
	for _, t := range logs {
		if t.Log == log {
			return t.Spent
		}
	}
	return 0
}
