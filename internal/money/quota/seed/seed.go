// Package seed queries the ledger for what accounts have spent before.
package seed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Ledger returns what an account has spent according to the rows in the store.
type Ledger interface {
	Spent(ctx context.Context, account string, since ...time.Time) (Spent, error)
}

// Spent is what an account has spent at one moment.
type Spent struct {
	Since []usage.Money // since each of the given times
	Logs  []usage.Total // in each log
}

const (
	// MaxQueries is the number of concurrent ledger queries.
	MaxQueries = 16

	wait    = 250 * time.Millisecond // how long a request waits for the ledger
	timeout = 5 * time.Second        // of a ledger query

	// PartCount is the number of parts of a window that are queried separately.
	PartCount = 4
)

// Parts is the spending in each quarter of a window, newest first. Each part is booked at the end
// of its quarter, so it leaves the window up to a quarter late, never early.
type Parts [PartCount]usage.Money

// Sum returns the spending in the window.
func (p Parts) Sum() (sum usage.Money) {
	for _, v := range p {
		sum += v
	}
	return sum
}

// Seed is the spending of an account that the ledger knows.
type Seed struct {
	Parts Parts
	Logs  []usage.Total
}

// Account is an account whose spending is queried.
type Account struct {
	ID, Owner string
	Window    time.Duration // 0: all time
}

// Target receives a seed.
type Target interface {
	IsSeeded() bool // whether another request has seeded the account
	Apply(from Seed)
}

// Discard is a Target that does nothing, for callers that use the result of Fetch instead.
type Discard struct{}

// IsSeeded returns false.
func (Discard) IsSeeded() bool { return false }

// Apply does nothing.
func (Discard) Apply(Seed) {}

// Seeder queries the ledger. Concurrent requests for one account share a query, and the number of
// concurrent queries is bounded.
type Seeder struct {
	logger *slog.Logger // for panics in queries
	ledger Ledger
	slots  chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	queries  map[string]*query
	failedAt time.Time // when a query failed or timed out last
}

type query struct {
	done chan struct{}
	seed Seed
	err  error
}

// New returns a Seeder. A nil ledger means that nothing was spent before.
func New(l Ledger, logger *slog.Logger) *Seeder {
	ctx, cancel := context.WithCancel(context.Background())
	return &Seeder{ledger: l, logger: logger, slots: make(chan struct{}, MaxQueries), ctx: ctx, cancel: cancel, queries: map[string]*query{}}
}

// Close ends all queries.
func (s *Seeder) Close() {
	s.cancel()
	s.wg.Wait()
}

// Fetch returns what an account has spent and applies it to the target. It waits at most a quarter of
// a second. A slower query continues in the background, and its result is applied later.
func (s *Seeder) Fetch(ctx context.Context, a Account, now time.Time, to Target) (Seed, error) {
	if s.ledger == nil {
		to.Apply(Seed{})
		return Seed{}, nil
	}
	f := s.start(a, now, to)
	if s.IsDown() {
		return Seed{}, errLedger
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.seed, f.err
	case <-ctx.Done():
		return Seed{}, ctx.Err()
	case <-timer.C:
		s.fail()
		return Seed{}, errLedger
	}
}

var errLedger = errors.New("the ledger does not respond")

// IsDown reports whether the ledger failed within the last second. Requests do not wait for it
// then.
func (s *Seeder) IsDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.failedAt) < time.Second
}

// fail records that the ledger did not respond.
func (s *Seeder) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failedAt = time.Now()
}

// Start starts a query or joins the one in flight.
func (s *Seeder) Start(a Account, now time.Time, to Target) { s.start(a, now, to) }

func (s *Seeder) start(a Account, now time.Time, to Target) *query {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.queries[a.ID]
	if f != nil {
		return f
	}
	f = &query{done: make(chan struct{})}
	if to.IsSeeded() {
		close(f.done)
		return f
	}
	s.queries[a.ID] = f
	s.wg.Go(func() {
		f.err = crash.Try(s.logger, func() (err error) {
			f.seed, err = s.query(a, now)
			return err
		})
		if f.err == nil {
			to.Apply(f.seed)
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

func (s *Seeder) query(a Account, now time.Time) (out Seed, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	since := []time.Time{{}}
	if a.Window > 0 {
		since = nil
		for n := range PartCount {
			since = append(since, now.Add(-a.Window*time.Duration(n+1)/PartCount))
		}
	}
	spent, err := s.ledger.Spent(ctx, a.Owner, since...)
	if err == nil && len(spent.Since) != len(since) {
		err = errLedger
	}
	if err != nil {
		return out, err
	}
	newer := usage.Money(0)
	for n, sum := range spent.Since {
		out.Parts[n] = max(0, sum-newer)
		newer = max(newer, sum)
	}
	out.Logs = spent.Logs
	return out, nil
}
