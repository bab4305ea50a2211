package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// Options say how a store is opened.
type Options struct {
	// Migrate brings the tables up to date when the database is first reached. Without
	// it the store waits until another node has done it.
	Migrate bool
	Logger  *slog.Logger  // the zero value logs nothing
	Timeout time.Duration // the most that a call takes; the zero value is 5 s

	schema fs.FS // for tests; the zero value is our own
}

// Store is an open database. It is safe for concurrent use, and for several
// processes at once.
type Store struct {
	kind    kind
	write   *sql.DB
	read    *sql.DB // the same as write but for SQLite
	timeout time.Duration
	log     *slog.Logger
	migrate bool
	steps   []step

	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine that prepares has ended
	tried  chan struct{} // closed after the first try to reach the database
	wake   chan struct{} // asks for another look at the tables

	mu    sync.Mutex
	state error // why it cannot be used yet; nil: it can
}

// errStarting is the state before the first try.
var errStarting = errors.New("the database was not reached yet")

// Open returns the store at sqlite:PATH or postgres://…. It fails when the url or the
// file cannot be used, and not when a server is down: it is reached when it comes up,
// and until then calls fail.
func Open(_ context.Context, address string, o Options) (*Store, error) {
	s := &Store{
		timeout: o.Timeout, log: o.Logger, migrate: o.Migrate, state: errStarting,
		ended: make(chan struct{}), tried: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if s.timeout == 0 {
		s.timeout = 5 * time.Second
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.steps, err = readSteps(o.schema); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		s.kind = sqliteFile()
		s.write, s.read, err = openSQLite(rest)
	case "postgres", "postgresql":
		s.kind = postgres()
		s.write, err = openPostgres(address)
		s.read = s.write
	default:
		err = fmt.Errorf("store: the url begins with %q; write sqlite:PATH or postgres://USER@HOST/DATABASE", scheme)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.prepareAlways(ctx)
	return s, nil
}

// Close ends the store. Calls that are under way fail.
func (s *Store) Close() error {
	s.cancel()
	<-s.ended
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	return err
}

// Ready returns nil when the database was reached and has the tables that are needed,
// else why not. It does not ask the database.
func (s *Store) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// prepareAlways brings the tables up to date, now and whenever they are found to be
// missing, because a server may come back empty.
func (s *Store) prepareAlways(ctx context.Context) {
	defer close(s.ended)
	const longest = time.Second
	pause := 50 * time.Millisecond
	for first := true; ; first = false {
		err := s.prepare(ctx)
		s.mu.Lock()
		s.state = err
		s.mu.Unlock()
		if first {
			close(s.tried)
		}
		var later <-chan time.Time
		if err != nil {
			s.log.Warn("store is not ready", "error", err)
			later = time.After(pause/2 + rand.N(pause)) //nolint:gosec // spreads the load, keeps no secret
			pause = min(2*pause, longest)
		} else {
			pause = 50 * time.Millisecond
		}
		select {
		case <-later:
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// enter bounds a call and waits for the first try to reach the database.
func (s *Store) enter(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	select {
	case <-s.tried:
	case <-ctx.Done():
		return ctx, cancel, fmt.Errorf("store: %w: %w", errStarting, ctx.Err())
	}
	if err := s.Ready(); err != nil {
		return ctx, cancel, fmt.Errorf("store: %w", err)
	}
	return ctx, cancel, nil
}

// leave looks at the error of a call.
func (s *Store) leave(err error) error {
	if err == nil {
		return nil
	}
	if s.kind.is(err, noSchema) {
		select {
		case s.wake <- struct{}{}:
		default: // it will look already
		}
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("store: %w", err)
}

// look reads.
func (s *Store) look(ctx context.Context, do func(context.Context, conn) error) error {
	ctx, cancel, err := s.enter(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.leave(do(ctx, conn{s.read, &s.kind}))
}

// tries is how often a transaction is begun that others were in the way of. Each may
// have waited for a lock for half a second, so the bound of the call is met first.
const tries = 10

// change writes in one transaction. do may be called several times; only the effects
// of the last call stay.
func (s *Store) change(ctx context.Context, do func(context.Context, conn) error) error {
	ctx, cancel, err := s.enter(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.leave(s.insist(ctx, func() error { return s.transact(ctx, do) }))
}

// insist does something again while others are in its way.
func (s *Store) insist(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == tries || !s.kind.is(err, again) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(try) * 10 * time.Millisecond)): //nolint:gosec // spreads the load, keeps no secret
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Store) transact(ctx context.Context, do func(context.Context, conn) error) error {
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(ctx, conn{tx, &s.kind}); err != nil {
		_ = tx.Rollback() // the error of do says more
		return err
	}
	return tx.Commit()
}

// handle is a pool, a connection or a transaction.
type handle interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// conn runs queries. They number their arguments $1, $2, … and are rewritten here
// where a database writes them in another way.
type conn struct {
	h    handle
	kind *kind
}

// errText is for what a database would refuse, or read as another text.
var errText = &Error{"a text is not UTF-8 or has a zero byte in it"}

func clean(args []any) error {
	for _, a := range args {
		if text, ok := a.(string); ok && !storable(text) {
			return errText
		}
	}
	return nil
}

func (c conn) exec(ctx context.Context, query string, args ...any) error {
	if err := clean(args); err != nil {
		return err
	}
	_, err := c.h.ExecContext(ctx, c.kind.rewrite(query), args...)
	return err
}

// row returns how the first row is read, which may be that there is none.
func (c conn) row(ctx context.Context, query string, args ...any) scan {
	if err := clean(args); err != nil {
		return func(...any) error { return err }
	}
	return c.h.QueryRowContext(ctx, c.kind.rewrite(query), args...).Scan
}

// rows calls each for every row.
func (c conn) rows(ctx context.Context, each func(scan) error, query string, args ...any) error {
	if err := clean(args); err != nil {
		return err
	}
	rows, err := c.h.QueryContext(ctx, c.kind.rewrite(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scan reads the columns of a row.
type scan func(dest ...any) error

// Scan is for reading a row in the line that asks for it.
func (s scan) Scan(dest ...any) error { return s(dest...) }
