package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

const (
	seedQueries = 16                     // max concurrent ledger queries
	seedWait    = 250 * time.Millisecond // how long a request waits for the ledger
	seedTimeout = 5 * time.Second        // of a ledger query
	seedParts   = 4                      // parts of a window that are queried separately

	// provisionalPart is the part of a budget (a hundredth) that each node may use while the ledger
	// cannot be queried and nothing is known of the account. The budget is overdrawn by that at
	// most.
	provisionalPart = 100
)

// parts is the spending in each quarter of a window, newest first. Each part is booked at the end
// of its quarter, so it leaves the window up to a quarter late, never early.
type parts [seedParts]usage.Money

func (p parts) sum() (sum usage.Money) {
	for _, v := range p {
		sum += v
	}
	return sum
}

// seeder queries the ledger. Concurrent requests for one account share a query, and the number of
// concurrent queries is bounded.
type seeder struct {
	ledger Ledger
	slots  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	queries  map[string]*query
	failedAt time.Time // when the ledger failed to respond last
}

type query struct {
	done chan struct{}
	seed seed
	err  error
}

// seed is what the ledger has of an account.
type seed struct {
	parts parts
	logs  []usage.Total
}

func newSeeder(l Ledger) *seeder {
	ctx, cancel := context.WithCancel(context.Background())
	return &seeder{ledger: l, slots: make(chan struct{}, seedQueries), ctx: ctx, cancel: cancel, queries: map[string]*query{}}
}

func (s *seeder) close() {
	s.cancel()
	s.wg.Wait()
}

// seedTarget receives a seed.
type seedTarget interface {
	isSeeded() bool // another request has seeded it
	apply(from seed)
}

// fetch returns what an account has spent and applies it to the target. A query that takes longer
// than seedWait continues and is applied later.
func (s *seeder) fetch(ctx context.Context, a Account, now time.Time, to seedTarget) (seed, error) {
	if s.ledger == nil {
		to.apply(seed{})
		return seed{}, nil
	}
	f := s.start(a, now, to)
	if s.isDown() {
		return seed{}, errLedger
	}
	timer := time.NewTimer(seedWait)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.seed, f.err
	case <-ctx.Done():
		return seed{}, ctx.Err()
	case <-timer.C:
		s.fail()
		return seed{}, errLedger
	}
}

var errLedger = errors.New("the ledger does not respond")

// isDown reports whether the ledger failed within the last second. Requests do not wait for it
// then.
func (s *seeder) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.failedAt) < time.Second
}

// fail records that the ledger did not respond.
func (s *seeder) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedAt = time.Now()
}

// start starts a query or joins the one in flight.
func (s *seeder) start(a Account, now time.Time, to seedTarget) *query {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.queries[a.ID]
	if f != nil {
		return f
	}
	f = &query{done: make(chan struct{})}
	if to.isSeeded() {
		close(f.done)
		return f
	}
	s.queries[a.ID] = f
	s.wg.Go(func() {
		if f.seed, f.err = s.query(a, now); f.err == nil {
			to.apply(f.seed)
		} else {
			s.fail()
		}
		s.mu.Lock()
		delete(s.queries, a.ID)
		s.mu.Unlock()
		close(f.done)
	})
	return f
}

func (s *seeder) query(a Account, now time.Time) (out seed, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, seedTimeout)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	since := []time.Time{{}}
	if span := a.Limit.budgetWindow(); span > 0 {
		since = nil
		for n := range seedParts {
			since = append(since, now.Add(-span*time.Duration(n+1)/seedParts))
		}
	}
	spent, err := s.ledger.Spent(ctx, budget.Owner(a.ID), since...)
	if err == nil && len(spent.Since) != len(since) {
		err = errLedger
	}
	if err != nil {
		return out, err
	}
	newer := usage.Money(0)
	for n, sum := range spent.Since {
		out.parts[n] = max(0, sum-newer)
		newer = max(newer, sum)
	}
	out.logs = spent.Logs
	return out, nil
}

// memoryAccount is an account in memory that is to be seeded.
type memoryAccount struct {
	shard   *shard
	account Account
	now     int64
	logs    Logs
}

func (p memoryAccount) isSeeded() bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.accounts[p.account.ID]
	return a != nil && a.seeded && !a.provisional && a.spent.Span == p.account.Limit.budgetWindow()
}

// apply seeds the account. The lock keeps requests from being settled meanwhile.
func (p memoryAccount) apply(from seed) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.account(p.account.ID, p.now)
	a.advance(p.now, p.account.Limit)
	if a.seeded && !a.provisional { // another request has done it
		return
	}
	logs, reserved := p.logs.Spent(budget.Owner(p.account.ID))
	a.elsewhere = reserved
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
