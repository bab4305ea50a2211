package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/seed"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/timing"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// memory is the backend of a single node.
type memory struct {
	engine *engine
	seeder *seed.Seeder
	logs   Logs
	clock  func() time.Time
}

// NewMemory returns a Limiter for a single process.
func NewMemory(o Options) *Limiter {
	o = o.withDefaults()
	k := &Limiter{}
	k.back = &memory{engine: newEngine(), seeder: seed.New(o.Ledger, o.Logger), logs: o.Logs, clock: timing.Monotonic(o.Clock)}
	return k
}

func (m *memory) reserve(ctx context.Context, req *Request, h *reservation) *Refusal {
	s := m.engine.shardOf(req.Org)
	if m.logs.Shared() {
		m.readOthers(s, req.Accounts)
	}
	for {
		now := m.clock()
		unknown, refusal := s.reserve(now.UnixMilli(), req.Accounts, req.amounts(), h)
		if unknown < 0 {
			if h.provisional {
				m.retrySeed(s, h, now)
			}
			return refusal
		}
		m.seed(ctx, s, req.Accounts[unknown], now)
	}
}

// readOthers updates accounts with what the other processes of this machine have spent and reserved.
func (m *memory) readOthers(s *shard, accounts []Account) {
	for _, of := range accounts {
		if of.Limit.Budget == 0 {
			continue
		}
		logs, reserved := m.logs.Spent(budget.Owner(of.ID))
		now := m.clock().UnixMilli()
		s.mu.Lock()
		a := s.account(of.ID, now)
		a.advance(now, of.Limit)
		a.reservedByOthers = reserved
		for _, t := range logs {
			if a.seeded {
				a.setTotal(t.Log, t.Spent)
			}
		}
		s.mu.Unlock()
	}
}

// seed loads the spending of an account from the ledger, and allows a small part of the budget if
// the ledger does not respond.
func (m *memory) seed(ctx context.Context, s *shard, account Account, now time.Time) {
	to := m.target(s, account, now)
	if _, err := m.seeder.Fetch(ctx, account.toSeed(), now, to); err != nil {
		to.allowProvisional()
	}
}

// retrySeed queries the ledger again for provisional accounts, without waiting.
func (m *memory) retrySeed(s *shard, h *reservation, now time.Time) {
	for _, of := range h.request.Accounts {
		if of.Limit.Budget > 0 {
			m.seeder.Start(of.toSeed(), now, m.target(s, of, now))
		}
	}
}

func (m *memory) target(s *shard, account Account, now time.Time) memoryAccount {
	return memoryAccount{s, account, now.UnixMilli(), m.logs}
}

func (m *memory) settle(h *reservation, tokens int64, _ usage.Money, totals usage.Totals) {
	h.shard.settle(m.clock().UnixMilli(), h, tokens, func(a *account, id string) {
		if a.seeded {
			a.setTotal(m.logs.Name(), totals.Of(id))
		}
	})
}

func (m *memory) setTotal(t usage.Total) {
	m.engine.shardOf(t.Org).setTotal(m.clock().UnixMilli(), t)
}

func (m *memory) countedUntil() time.Time { return time.Now() }

func (m *memory) run(ctx context.Context) { <-ctx.Done() }

func (m *memory) close() { m.seeder.Close() }

func (m *memory) fill(s *Snapshot) { s.Accounts = m.engine.count() }

// count returns the number of accounts.
func (e *engine) count() (n int) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		n += len(s.accounts)
		s.mu.Unlock()
	}
	return n
}
