package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// kind is what tells one database from the other. Queries do not know it.
type kind struct {
	name    string
	rewrite func(query string) string
	insert  func(ctx context.Context, c conn, in insert) error
	is      func(err error, c condition) bool
	migrate func(s *Store, ctx context.Context) error
}

// condition is an error that means the same in both databases.
type condition int

const (
	again     condition = iota // another transaction was in the way
	duplicate                  // there is a row with this id
	orphan                     // a row names another that does not exist
	noSchema                   // there are no tables, or older ones
)

// The bounds of a connection to PostgreSQL. A statement that hits one of them fails
// in the server too, and leaves no lock behind.
const (
	connections      = 16
	connectTimeout   = 2 * time.Second
	statementTimeout = "2000" // milliseconds, as are the next two
	lockTimeout      = "500"
	idleTransaction  = "5000" // a gateway that is stopped must not hold others up
)

func openPostgres(address string) (*sql.DB, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err) // it leaves the password out
	}
	// One round trip in the extended protocol, and nothing is kept in the server: batches
	// come in five hundred sizes, and poolers between us and it may change the server.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnectTimeout = connectTimeout
	c.RuntimeParams["statement_timeout"] = statementTimeout
	c.RuntimeParams["lock_timeout"] = lockTimeout
	c.RuntimeParams["idle_in_transaction_session_timeout"] = idleTransaction
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "isogloss"
	}
	db := stdlib.OpenDB(*c)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxLifetime(30 * time.Minute)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

func postgres() kind {
	states := map[condition][]string{
		again:     {"40001", "40P01", "55P03"},
		duplicate: {"23505"},
		orphan:    {"23503"},
		noSchema:  {"42P01", "42703", "3F000"},
	}
	return kind{
		name:    "postgres",
		insert:  insertTogether,
		rewrite: func(query string) string { return query },
		is: func(err error, c condition) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && slices.Contains(states[c], e.Code)
		},
		migrate: (*Store).migratePostgres,
	}
}

// sqliteReaders is enough for one node: reads are short, and the writer is one.
const sqliteReaders = 4

// openSQLite opens a file twice: for one writer that takes its lock when it begins,
// and for readers that do not wait for it.
func openSQLite(path string) (write, read *sql.DB, err error) {
	if path == "" {
		return nil, nil, errors.New("store: the url names no file; write sqlite:/path/to/isogloss.db")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names it
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	// Every commit is synced: the spool forgets what was committed.
	pragmas := url.Values{"_pragma": {"busy_timeout(2000)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(1)"}, "_txlock": {"immediate"}}
	file := "file:" + (&url.URL{Path: path}).EscapedPath()
	if write, err = sql.Open("sqlite", file+"?"+pragmas.Encode()); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	write.SetMaxOpenConns(1)
	if read, err = sql.Open("sqlite", file+"?"+url.Values{"_pragma": {"busy_timeout(2000)", "query_only(1)"}}.Encode()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("store: %w", err), write.Close())
	}
	read.SetMaxOpenConns(sqliteReaders)
	read.SetMaxIdleConns(sqliteReaders)
	return write, read, nil
}

func sqliteFile() kind {
	codes := map[condition][]int{
		duplicate: {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE},
		orphan:    {sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY},
	}
	return kind{
		name:   "sqlite",
		insert: insertEach,
		// No query has a dollar sign but before the number of an argument.
		rewrite: func(query string) string { return strings.ReplaceAll(query, "$", "?") },
		is: func(err error, c condition) bool {
			var e *sqlite.Error
			if !errors.As(err, &e) {
				return false
			}
			switch primary := e.Code() & 0xff; c {
			case again:
				return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
			case noSchema:
				return primary == sqlite3.SQLITE_ERROR && strings.Contains(e.Error(), "no such ")
			default:
				return slices.Contains(codes[c], e.Code())
			}
		},
		migrate: (*Store).migrateSQLite,
	}
}
