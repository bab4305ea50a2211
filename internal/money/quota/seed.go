package quota

import (
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
)

// provisionalPart divides a budget, or a node's share of it: a hundredth may be used while the ledger
// cannot be queried and nothing is known of the account. The budget is overdrawn by at most that part.
const provisionalPart = 100

// toSeed returns the account as the Seeder needs it.
func (a *Account) toSeed() seed.Account {
	return seed.Account{ID: a.ID, Owner: budget.Owner(a.ID), Window: a.Limit.budgetWindow()}
}

// memoryAccount is the seed.Target for an account in memory.
type memoryAccount struct {
	shard   *shard
	account Account
	now     int64
	logs    Logs
}

// IsSeeded reports whether another request has seeded the account.
func (p memoryAccount) IsSeeded() bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.accounts[p.account.ID]
	return a != nil && a.seeded && !a.provisional && a.spent.Span == p.account.Limit.budgetWindow()
}

// Apply seeds the account. The lock keeps requests from being settled meanwhile.
func (p memoryAccount) Apply(from seed.Seed) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.account(p.account.ID, p.now)
	a.advance(p.now, p.account.Limit)
	if a.seeded && !a.provisional { // another request has seeded it
		return
	}
	logs, reserved := p.logs.Spent(budget.Owner(p.account.ID))
	a.reservedByOthers = reserved
	a.seed(from, logs)
}

// allowProvisional allows a small part of the budget of an account whose spending is unknown.
func (p memoryAccount) allowProvisional() {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.account(p.account.ID, p.now)
	a.advance(p.now, p.account.Limit)
	if !a.seeded {
		a.seeded, a.provisional, a.logs = true, true, nil
		logs, _ := p.logs.Spent(budget.Owner(p.account.ID))
		for _, t := range logs { // only what is spent from now on counts
			a.logs = append(a.logs, logTotal{t.Log, t.Spent})
		}
	}
}
