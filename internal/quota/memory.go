package quota

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// memory is the backend of one node.
type memory struct {
	engine *engine
	seeds  *seeder
	clock  func() time.Time
}

// NewMemory is a Keeper for one process.
func NewMemory(o Options) *Keeper {
	o = o.withDefaults()
	k := &Keeper{}
	k.back = &memory{engine: newEngine(), seeds: newSeeder(o.Ledger), clock: steady(o.Clock)}
	return k
}

// steady is a clock that is not set back or forth while the process runs: it goes on
// from where it was by the time that has passed.
func steady(clock func() time.Time) func() time.Time {
	start := clock()
	return func() time.Time { return start.Add(clock().Sub(start)) }
}

func (m *memory) reserve(ctx context.Context, a *Ask, h *held) *Refusal {
	s := m.engine.shard(a.Org)
	for {
		now := m.clock()
		unknown, refusal := s.reserve(now.UnixMilli(), a.Accounts, a.take(), h)
		if unknown < 0 {
			if h.blind {
				m.see(s, h, now)
			}
			return refusal
		}
		m.seed(ctx, s, a.Accounts[unknown], now)
	}
}

// seed asks the ledger for an account that is seen for the first time.
func (m *memory) seed(ctx context.Context, s *shard, a Account, now time.Time) {
	_, err := m.seeds.ask(ctx, a, now, place{s, a, now.UnixMilli()})
	if err != nil {
		s.guess(now.UnixMilli(), a)
	}
}

// see asks again for accounts of which nothing is known yet, without waiting.
func (m *memory) see(s *shard, h *held, now time.Time) {
	for _, of := range h.ask.Accounts {
		if of.Limit.Budget > 0 {
			m.seeds.fly(of, now, place{s, of, now.UnixMilli()})
		}
	}
}

func (m *memory) settle(h *held, tokens int64, cost usage.Money) {
	h.shard.settle(m.clock().UnixMilli(), h, tokens, cost)
}

func (m *memory) charge(a *Ask) { m.engine.shard(a.Org).charge(m.clock().UnixMilli(), a) }

func (m *memory) run(ctx context.Context) { <-ctx.Done() }

func (m *memory) close() { m.seeds.close() }

func (m *memory) fill(s *Snapshot) { s.Accounts = m.engine.count() }

func (e *engine) count() (n int) {
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		n += len(s.accounts)
		s.mu.Unlock()
	}
	return n
}
