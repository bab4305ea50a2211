package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a store.
type Options struct {
	// Migrate runs missing migrations when the database is first reached. Without it the store
	// waits until another node has run them.
	Migrate bool
	Logger  *slog.Logger  // default: none
	Timeout time.Duration // of a call; default: 5 s
	// Thresholds of budgets in percent, ascending. Passing one writes an Alert.
	Thresholds []int

	schema fs.FS // for tests; default: the embedded one
}

// Store is an open database. It is safe for concurrent use, also by several processes.
type Store struct {
	kind    backend
	write   *sql.DB
	read    *sql.DB // same as write, except for SQLite
	timeout time.Duration
	log     *slog.Logger
	migrate bool
	steps   []migration

	thresholds []int
	pooled     atomic.Bool // there is a pooler before the database: settings last for a transaction

	cancel context.CancelFunc
	ended  chan struct{} // closed when prepareLoop has ended
	tried  chan struct{} // closed after the first attempt to reach the database
	wake   chan struct{} // requests another check of the tables

	mu    sync.Mutex
	state error // why it cannot be used yet; nil: it can
}

// errStarting is the state before the first attempt.
var errStarting = errors.New("the database was not reached yet")

// Open opens the store at sqlite:PATH or postgres://…. It fails if the URL or the file cannot be
// used. If a server is down, calls fail until it is up.
func Open(_ context.Context, address string, o Options) (*Store, error) {
	s := &Store{
		timeout: o.Timeout, log: o.Logger, migrate: o.Migrate, thresholds: o.Thresholds, state: errStarting,
		ended: make(chan struct{}), tried: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if s.timeout == 0 {
		s.timeout = 5 * time.Second
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.steps, err = readMigrations(o.schema); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		s.kind = sqliteFile()
		s.write, s.read, err = openSQLite(rest)
	case "postgres", "postgresql":
		s.kind = postgres()
		s.write, err = openPostgres(address, &s.pooled)
		s.read = s.write
	default:
		err = fmt.Errorf("store: the url begins with %q; write sqlite:PATH or postgres://USER@HOST/DATABASE", scheme)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.prepareLoop(ctx)
	return s, nil
}

// Close closes the store. Calls in flight fail.
func (s *Store) Close() error {
	s.cancel()
	<-s.ended
	err := s.write.Close()
	if s.read != s.write {
		err = errors.Join(err, s.read.Close())
	}
	return err
}

// Ready returns nil when the database was reached and has the needed tables, or else the reason. It
// does not query the database.
func (s *Store) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// prepareLoop migrates the tables, initially and whenever they are found missing: a server may come
// back empty.
func (s *Store) prepareLoop(ctx context.Context) {
	defer close(s.ended)
	const longest = time.Second
	pause := 50 * time.Millisecond
	for first := true; ; first = false {
		err := s.guard(func() error { return s.prepare(ctx) })
		if isPooler(err) && !s.pooled.Swap(true) {
			err = s.guard(func() error { return s.prepare(ctx) })
		}
		err = advise(err)
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

// begin sets the timeout of a call and waits for the first attempt to reach the database.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
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

// wrapError wraps the error of a call. If tables are missing, it triggers a migration.
func (s *Store) wrapError(err error) error {
	if err == nil {
		return nil
	}
	if s.kind.is(err, noSchema) {
		select {
		case s.wake <- struct{}{}:
		default: // a check is pending
		}
	}
	if errors.Is(err, errFenced) || s.kind.is(err, readOnly) {
		s.reconnect()
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("store: %w", advise(err))
}

// reconnect closes all idle connections, so that the next call finds the server that accepts writes.
func (s *Store) reconnect() {
	s.write.SetMaxIdleConns(0)
	s.write.SetMaxIdleConns(connections)
}

// readOnly runs queries. do may be called several times.
func (s *Store) readOnly(ctx context.Context, do func(context.Context, conn) error) error {
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.wrapError(s.retry(ctx, func() error {
		if s.pooled.Load() {
			return s.transaction(ctx, &sql.TxOptions{ReadOnly: true}, do)
		}
		return s.guard(func() error { return do(ctx, conn{s.read, &s.kind, s.log}) })
	}))
}

// guard turns a panic into an error: the driver panics if a server sends rows that it has not
// described.
func (s *Store) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic in a query", "stack", string(debug.Stack()))
			err = errors.New("the database sent what its protocol does not allow")
		}
	}()
	return do()
}

// maxTries is the maximum number of tries of a transaction after conflicts. Each try may
// wait for a lock for half a second, so the call's timeout usually ends the tries
// earlier.
const maxTries = 10

// readWrite runs a transaction. do may be called several times; only the effects of the last call
// stay.
func (s *Store) readWrite(ctx context.Context, do func(context.Context, conn) error) error {
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.wrapError(s.retry(ctx, func() error { return s.transaction(ctx, nil, do) }))
}

// retry calls do again after conflicts with other transactions and on connections that the server has closed.
func (s *Store) retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == maxTries || !s.kind.is(err, retryable) {
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(try) * 10 * time.Millisecond)): //nolint:gosec // spreads the load, keeps no secret
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Store) transaction(ctx context.Context, o *sql.TxOptions, do func(context.Context, conn) error) error {
	tx, err := s.write.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	err = s.guard(func() error {
		c := conn{tx, &s.kind, s.log}
		if s.pooled.Load() {
			if err := c.exec(ctx, setTimeouts()); err != nil {
				return err
			}
		}
		return do(ctx, c)
	})
	if err != nil {
		_ = tx.Rollback() // the first error says more
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

// conn runs queries. Placeholders are $1, $2, …; they are rewritten for SQLite.
type conn struct {
	h    handle
	kind *backend
	log  *slog.Logger
}

// errText rejects text that a database would reject or change.
var errText = &Error{"a text is not UTF-8 or has a zero byte in it"}

func checkText(args []any) error {
	for _, a := range args {
		if text, ok := a.(string); ok && !storable(text) {
			return errText
		}
	}
	return nil
}

func (c conn) exec(ctx context.Context, query string, args ...any) error {
	if err := checkText(args); err != nil {
		return err
	}
	_, err := c.h.ExecContext(ctx, c.kind.rewrite(query), args...)
	return err
}

// row returns the scan function of the first row. It returns sql.ErrNoRows if there is none.
func (c conn) row(ctx context.Context, query string, args ...any) scan {
	if err := checkText(args); err != nil {
		return func(...any) error { return err }
	}
	return c.h.QueryRowContext(ctx, c.kind.rewrite(query), args...).Scan
}

// rows calls each for every row.
func (c conn) rows(ctx context.Context, each func(scan) error, query string, args ...any) error {
	if err := checkText(args); err != nil {
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

// Scan lets a query be scanned on the same line.
func (s scan) Scan(dest ...any) error { return s(dest...) }
