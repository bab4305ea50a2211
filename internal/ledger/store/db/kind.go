package db

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// backend is the difference between the two databases. Queries do not depend on it.
type backend struct {
	fenced  string // expression: the server accepts no writes
	list    string // query: the texts of a JSON array, the first argument
	lock    string // query: locks out transactions that lock one of the texts of a JSON array; empty: there are none
	rewrite func(query string) string
	insert  func(ctx context.Context, c Conn, in Insert) error
	is      func(err error, c Condition) bool
	migrate func(d *DB, ctx context.Context) error
}

// Condition is an error that both databases have.
type Condition int

// The conditions.
const (
	retryable        Condition = iota // conflict with another transaction, or a closed connection
	Duplicate                         // the id exists
	MissingReference                  // a referenced row does not exist
	noSchema                          // tables are missing or outdated
	readOnly                          // the server accepts no writes
)

const connections = 16

// stepTimeout returns the timeout of a connection attempt or a statement of a call with this timeout: 2 s of 5 s,
// and not less.
func stepTimeout(call time.Duration) time.Duration { return max(2*time.Second, call*2/5) }

// sessionSettings are the timeouts of a PostgreSQL session, in milliseconds. A statement that exceeds one fails in
// the server too, and leaves no lock. work_mem, in kilobytes, lets the sums of a month be made without sorting on disk.
func sessionSettings(call time.Duration) map[string]string {
	return map[string]string{
		"statement_timeout":                   strconv.FormatInt(stepTimeout(call).Milliseconds(), 10),
		"lock_timeout":                        "500",
		"idle_in_transaction_session_timeout": strconv.FormatInt(max(5*time.Second, call).Milliseconds(), 10), // a stopped gateway must not block others
		"work_mem":                            "32768",
	}
}

// setTimeouts returns the query that sets the timeouts of a transaction, for a pooler that does not let
// sessions have them.
func setTimeouts(call time.Duration) string {
	all := sessionSettings(call)
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		settings = append(settings, fmt.Sprintf("set_config('%s', '%s', TRUE)", name, all[name]))
	}
	return "SELECT " + strings.Join(settings, ", ")
}

// isPooler reports an error of PgBouncer, which rejects settings of a session: another client may get
// the session.
func isPooler(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "08P01" && strings.Contains(e.Message, "startup parameter")
}

// Limits of what PostgreSQL may send. The largest legitimate result is a page of keys.
const (
	maxMessage = 8 << 20                 // bytes of a row
	maxResult  = 1000 * (64<<10 + 8<<10) // a page of 1,000 keys with lists of 64 KiB
)

// boundedConn is a connection that fails when the server sends too much without a further query.
type boundedConn struct {
	net.Conn
	got atomic.Int64 // bytes since the last write
}

func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.got.Add(int64(n)) > maxResult {
		return 0, errLargeResult
	}
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	c.got.Store(0)
	return c.Conn.Write(p)
}

var errLargeResult = errors.New("the database sent a result that is too large")

// openPostgres opens a pool. If pooled is true, sessions have no settings. Each connection reads the
// files that the address names again: the password may have changed, and certificates.
func openPostgres(address string, call time.Duration, pooled *atomic.Bool) (*sql.DB, error) {
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err) // the error does not contain the password
	}
	// One round trip in the extended protocol, and no prepared statements: a pooler may switch the server.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.ConnectTimeout = stepTimeout(call)
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(maxMessage)
		return f
	}
	dial := c.DialFunc
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) { // below TLS, whose state SCRAM reads
		nc, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: nc}, nil
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "isogloss"
	}
	db := stdlib.OpenDB(*c, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		now, err := pgx.ParseConfig(address)
		if err != nil {
			return err
		}
		c.Password, c.TLSConfig, c.Fallbacks = now.Password, now.TLSConfig, now.Fallbacks
		if !pooled.Load() {
			c.RuntimeParams = maps.Clone(c.RuntimeParams) // all connections share it
			maps.Copy(c.RuntimeParams, sessionSettings(call))
		}
		return nil
	}))
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxLifetime(30 * time.Minute)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db, nil
}

// advise adds to an error of a connection what the operator can do.
func advise(err error) error {
	var server *pgconn.PgError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("%w; write a host name of the server's certificate in store.url", err)
	case errors.As(err, &authority):
		return fmt.Errorf("%w; write sslrootcert=FILE in store.url with the CA of the server's certificate", err)
	case errors.As(err, &server) && server.Code == "28P01":
		return fmt.Errorf("%w; correct the password in store.url or in its passfile", err)
	}
	return err
}

func postgres() backend {
	states := map[Condition][]string{
		retryable:        {"40001", "40P01", "55P03", "57P01"}, // 57P01: an operator closed the connection
		Duplicate:        {"23505"},
		MissingReference: {"23503"},
		noSchema:         {"42P01", "42703", "3F000"},
		readOnly:         {"25006"},
	}
	return backend{
		fenced: `current_setting('default_transaction_read_only') = 'on' OR pg_is_in_recovery()`,
		list:   `SELECT jsonb_array_elements_text($1::jsonb)`,
		lock: `SELECT pg_advisory_xact_lock(n) FROM (SELECT DISTINCT hashtextextended('isogloss alert ' || name, 0) AS n
			FROM jsonb_array_elements_text($1::jsonb) AS name ORDER BY n) locks`,
		insert:  insertBatch,
		rewrite: func(query string) string { return query },
		is: func(err error, c Condition) bool {
			var e *pgconn.PgError
			return errors.As(err, &e) && slices.Contains(states[c], e.Code)
		},
		migrate: (*DB).migratePostgres,
	}
}

// sqliteReaders is enough for one node: reads are short, and there is one writer.
const sqliteReaders = 4

// openSQLite opens a file twice: for one writer, which takes its lock at the start of a
// transaction, and for readers, which do not wait for it.
func openSQLite(path string) (write, read *sql.DB, err error) {
	if path == "" {
		return nil, nil, errors.New("store: the url names no file; write sqlite:/path/to/isogloss.db")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator's path
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	// Every commit is synced: the spool deletes what was committed.
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

func sqliteFile() backend {
	codes := map[Condition][]int{
		Duplicate:        {sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE},
		MissingReference: {sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY},
	}
	return backend{
		fenced: `FALSE`,
		list:   `SELECT value FROM json_each($1)`,
		insert: insertRowByRow,
		// Queries contain a dollar sign only in placeholders.
		rewrite: func(query string) string { return strings.ReplaceAll(query, "$", "?") },
		is: func(err error, c Condition) bool {
			var e *sqlite.Error
			if !errors.As(err, &e) {
				return false
			}
			switch primary := e.Code() & 0xff; c {
			case retryable:
				// The last one: other processes changed the locks each time that this one looked.
				return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED || primary == sqlite3.SQLITE_PROTOCOL
			case noSchema:
				return primary == sqlite3.SQLITE_ERROR && strings.Contains(e.Error(), "no such ")
			default:
				return slices.Contains(codes[c], e.Code())
			}
		},
		migrate: (*DB).migrateSQLite,
	}
}
