package quota

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

const (
	seedQueries = 16                     // of the ledger at once
	seedWait    = 250 * time.Millisecond // for which a request waits for one
	seedLong    = 5 * time.Second        // after which a query is given up
	seedParts   = 4

	// blindPart is the part of a budget that may be used on each node while the ledger
	// cannot be asked and nothing is known of the account: service goes on, and the
	// budget is overdrawn by that at most.
	blindPart = 100
)

// parts is what was spent in each quarter of a window, the newest first. Each is
// booked at the end of its quarter: it leaves the window up to a quarter late, never
// early.
type parts [seedParts]usage.Money

func (p parts) sum() (sum usage.Money) {
	for _, v := range p {
		sum += v
	}
	return sum
}

// seeder asks the ledger: once for an account however many requests wait for it, and
// for few accounts at once.
type seeder struct {
	ledger Ledger
	slots  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	flights map[string]*flight
	failed  time.Time // when the ledger did not answer last
}

type flight struct {
	done  chan struct{}
	parts parts
	err   error
}

func newSeeder(l Ledger) *seeder {
	ctx, cancel := context.WithCancel(context.Background())
	return &seeder{ledger: l, slots: make(chan struct{}, seedQueries), ctx: ctx, cancel: cancel, flights: map[string]*flight{}}
}

func (s *seeder) close() {
	s.cancel()
	s.wg.Wait()
}

// bed is where a seed goes.
type bed interface {
	isKnown() bool // somebody else was quicker
	apply(p parts)
}

// ask waits for what an account has spent until now, and for it to be applied. A
// query that takes longer goes on, and so is applied later.
func (s *seeder) ask(ctx context.Context, a Account, now time.Time, to bed) (parts, error) {
	if s.ledger == nil {
		to.apply(parts{})
		return parts{}, nil
	}
	f := s.fly(a, now, to)
	if s.isDown() {
		return parts{}, errLedger
	}
	timer := time.NewTimer(seedWait)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.parts, f.err
	case <-ctx.Done():
		return parts{}, ctx.Err()
	case <-timer.C:
		s.fail()
		return parts{}, errLedger
	}
}

var errLedger = errors.New("the ledger does not answer")

// isDown reports whether the ledger did not answer just now. Nobody waits for it then.
func (s *seeder) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.failed) < time.Second
}

func (s *seeder) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = time.Now()
}

// fly starts a query, or joins the one that is under way.
func (s *seeder) fly(a Account, now time.Time, to bed) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[a.ID]
	if f != nil {
		return f
	}
	f = &flight{done: make(chan struct{})}
	if to.isKnown() {
		close(f.done)
		return f
	}
	s.flights[a.ID] = f
	s.wg.Go(func() {
		if f.parts, f.err = s.query(a, now); f.err == nil {
			to.apply(f.parts)
		} else {
			s.fail()
		}
		s.mu.Lock()
		delete(s.flights, a.ID)
		s.mu.Unlock()
		close(f.done)
	})
	return f
}

func (s *seeder) query(a Account, now time.Time) (p parts, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, seedLong)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return p, ctx.Err()
	}
	span := a.Limit.span()
	if span == 0 {
		p[0], err = s.ledger.Spent(ctx, a.ID, time.Time{})
		return p, err
	}
	all, err := s.ledger.Spent(ctx, a.ID, now.Add(-span))
	for n := seedParts - 1; n > 0 && err == nil && all > 0; n-- {
		var newer usage.Money
		newer, err = s.ledger.Spent(ctx, a.ID, now.Add(-span*time.Duration(n)/seedParts))
		p[n], all = max(0, all-newer), min(all, newer)
	}
	p[0] = all
	return p, err
}

// place is an account in memory that waits for its seed.
type place struct {
	shard *shard
	of    Account
	now   int64
}

func (p place) isKnown() bool {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.accounts[p.of.ID]
	return a != nil && a.known && !a.blind && a.span == p.of.Limit.span()
}

// apply takes over what the ledger says.
func (p place) apply(seed parts) {
	p.shard.mu.Lock()
	defer p.shard.mu.Unlock()
	a := p.shard.account(p.of.ID, p.now)
	a.advance(p.now, p.of.Limit)
	if a.known && !a.blind { // another request has done it
		return
	}
	a.known, a.blind = true, false
	for n, v := range seed {
		a.spend(v, a.newest-int64(n*buckets/seedParts))
	}
}

// guess opens a small part of the budget of an account of which nothing is known.
func (s *shard) guess(now int64, of Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.account(of.ID, now)
	a.advance(now, of.Limit)
	if !a.known {
		a.known, a.blind = true, true
	}
}
