package db

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

// Options configure a database.
type Options struct {
	// Schema has the migrations: schema/0001_NAME.sql and so on. The first number may be higher.
	Schema fs.FS
	// Migrate runs missing migrations when the database is first reached. Without it the database
	// is not used until another node has run them.
	Migrate bool
	Logger  *slog.Logger  // default: none
	Timeout time.Duration // of a call; default: 5 s. A statement of PostgreSQL has two fifths of it, and 2 s at least
}

// DB is an open database. It is safe for concurrent use, also by several processes.
type DB struct {
	kind    backend
	write   *sql.DB
	read    *sql.DB // same as write, except for SQLite
	timeout time.Duration
	log     *slog.Logger
	migrate bool
	steps   []migration

	pooled atomic.Bool // there is a pooler before the database: settings last for a transaction

	cancel context.CancelFunc
	ended  chan struct{} // closed when prepareLoop has ended
	tried  chan struct{} // closed after the first attempt to reach the database that no lock of another process ended
	wake   chan struct{} // requests another check of the tables

	mu    sync.Mutex
	state error // why it cannot be used yet; nil: it can
}

// States before the database can be used.
var (
	errStarting  = errors.New("the database was not reached yet")
	ErrMigrating = errors.New("its tables are being migrated; it can be used when that is done")
)

// Open opens the database at sqlite:PATH or postgres://…. It fails if the URL or the file cannot be
// used. If a server is down, calls fail until it is up.
func Open(address string, o Options) (*DB, error) {
	d := &DB{
		timeout: o.Timeout, log: o.Logger, migrate: o.Migrate, state: errStarting,
		ended: make(chan struct{}), tried: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if d.timeout == 0 {
		d.timeout = 5 * time.Second
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if d.steps, err = readMigrations(o.Schema); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		d.kind = sqliteFile()
		d.write, d.read, err = openSQLite(rest)
	case "postgres", "postgresql":
		d.kind = postgres()
		d.write, err = openPostgres(address, d.timeout, &d.pooled)
		d.read = d.write
	default:
		err = fmt.Errorf("store: the url begins with %q; write sqlite:PATH or postgres://USER@HOST/DATABASE", scheme)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	go d.prepareLoop(ctx)
	return d, nil
}

// Close closes the database. Calls in flight fail.
func (d *DB) Close() error {
	d.cancel()
	<-d.ended
	err := d.write.Close()
	if d.read != d.write {
		err = errors.Join(err, d.read.Close())
	}
	return err
}

// Ready returns nil when the database was reached and has the needed tables, or else the reason. It
// does not query the database.
func (d *DB) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state
}

func (d *DB) setState(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = err
}

// prepareLoop migrates the tables, initially and whenever they are found missing: a server may come
// back empty.
func (d *DB) prepareLoop(ctx context.Context) {
	defer close(d.ended)
	const longest = time.Second
	pause := 50 * time.Millisecond
	for waiting := true; ; {
		err := d.guard(func() error { return d.prepare(ctx) })
		if isPooler(err) && !d.pooled.Swap(true) {
			err = d.guard(func() error { return d.prepare(ctx) })
		}
		err = advise(err)
		d.setState(err)
		// Calls wait for a lock that another process holds, as they do later. They fail when their time is over.
		if waiting && (err == nil || !d.kind.is(err, retryable)) {
			waiting = false
			close(d.tried)
		}
		var later <-chan time.Time
		if err != nil {
			d.log.Warn("store is not ready", "error", err)
			later = time.After(pause/2 + rand.N(pause)) //nolint:gosec // spreads the load, keeps no secret
			pause = min(2*pause, longest)
		} else {
			pause = 50 * time.Millisecond
		}
		select {
		case <-later:
		case <-d.wake:
		case <-ctx.Done():
			return
		}
	}
}

// begin sets the timeout of a call and waits for the first attempt to reach the database.
func (d *DB) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	select {
	case <-d.tried:
	case <-ctx.Done():
		return ctx, cancel, fmt.Errorf("store: %w: %w", d.Ready(), ctx.Err())
	}
	if err := d.Ready(); err != nil {
		return ctx, cancel, fmt.Errorf("store: %w", err)
	}
	return ctx, cancel, nil
}

// wrapError wraps the error of a call. If tables are missing, it triggers a migration.
func (d *DB) wrapError(err error) error {
	if err == nil {
		return nil
	}
	if d.kind.is(err, noSchema) {
		select {
		case d.wake <- struct{}{}:
		default: // a check is pending
		}
	}
	if errors.Is(err, ErrFenced) || d.kind.is(err, readOnly) {
		d.reconnect()
	}
	var own Error
	if errors.As(err, &own) {
		return err
	}
	return fmt.Errorf("store: %w", advise(err))
}

// Is reports whether an error of the database is a condition.
func (d *DB) Is(err error, c Condition) bool { return d.kind.is(err, c) }

// reconnect closes all idle connections, so that the next call finds the server that accepts writes.
func (d *DB) reconnect() {
	d.write.SetMaxIdleConns(0)
	d.write.SetMaxIdleConns(connections)
}

// Read runs queries. do may be called several times.
func (d *DB) Read(ctx context.Context, do func(context.Context, Conn) error) error {
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return d.wrapError(d.retry(ctx, func() error {
		if d.pooled.Load() {
			return d.transaction(ctx, &sql.TxOptions{ReadOnly: true}, do)
		}
		return d.guard(func() error { return do(ctx, Conn{d.read, &d.kind, d.log}) })
	}))
}

// guard turns a panic into an error: the driver panics if a server sends rows that it has not
// described.
func (d *DB) guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			d.log.Error("panic in a query", "stack", string(debug.Stack()))
			err = errors.New("the database sent what its protocol does not allow")
		}
	}()
	return do()
}

// Write runs a transaction. do may be called several times; only the effects of the last call
// stay.
func (d *DB) Write(ctx context.Context, do func(context.Context, Conn) error) error {
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return d.wrapError(d.retry(ctx, func() error { return d.transaction(ctx, nil, do) }))
}

// retry calls do again after conflicts with other transactions and on connections that the server has closed,
// until the context ends. A number of tries is no limit: SQLite reports some locks at once, and on a slow disk
// another process holds them for seconds.
func (d *DB) retry(ctx context.Context, do func() error) error {
	var conflict error
	for try := 1; ; try++ {
		err := do()
		switch {
		case err == nil:
			return nil
		case d.kind.is(err, retryable):
			conflict = err
		case conflict != nil && ctx.Err() != nil: // the time was over during this try
			return fmt.Errorf("%w: %w", conflict, ctx.Err())
		default:
			return err
		}
		select {
		case <-time.After(rand.N(time.Duration(min(try, 10)) * 10 * time.Millisecond)): //nolint:gosec // spreads the load, keeps no secret
		case <-ctx.Done():
			return conflict
		}
	}
}

func (d *DB) transaction(ctx context.Context, o *sql.TxOptions, do func(context.Context, Conn) error) error {
	tx, err := d.write.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	err = d.guard(func() error {
		c := Conn{tx, &d.kind, d.log}
		if d.pooled.Load() {
			if err := c.Exec(ctx, setTimeouts(d.timeout)); err != nil {
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
