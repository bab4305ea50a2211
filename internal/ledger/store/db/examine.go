package db

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"
)

// Facts is what a database says of itself.
type Facts struct {
	Missing bool   // there is no file yet
	Version string // of the server; empty: SQLite
	Pooler  Pooler
	Standby bool          // it accepts no writes
	Latency time.Duration // of a query
	Clock   time.Duration // by how much the server's clock is ahead of this machine's
	Have    int64         // version of the tables; 0: there are none
	First   int64         // the oldest version that this program migrates
	Need    int64         // the version that this program has
}

// Pooler is the kind of pooler before a database.
type Pooler string

// The kinds of poolers.
const (
	NoPooler          Pooler = ""
	TransactionPooler Pooler = "transaction"
	SessionPooler     Pooler = "session"
	StatementPooler   Pooler = "statement" // transactions are not possible
)

// examineTimeout is that of a connection attempt and of a statement of Examine.
const examineTimeout = 5 * time.Second

// Examine returns the facts of the database at an address, whose migrations are those of schema. It writes nothing:
// it creates neither a file nor a table.
func Examine(ctx context.Context, address string, schema fs.FS) (f Facts, err error) {
	steps, err := readMigrations(schema)
	if err != nil {
		return f, err
	}
	f.First, f.Need = steps[0].version, steps[len(steps)-1].version
	d := &DB{kind: postgres()}
	file, sqlite := strings.CutPrefix(address, "sqlite:")
	if sqlite {
		d.kind = sqliteFile()
		if _, err := os.Stat(file); err != nil {
			f.Missing = errors.Is(err, os.ErrNotExist)
			if f.Missing {
				err = nil
			}
			return f, err
		}
		d.write, err = sql.Open("sqlite", untouched(file))
	} else {
		d.write, err = openPostgres(address, examineTimeout, &d.pooled)
	}
	if err != nil {
		return f, err
	}
	defer func() { _ = d.write.Close() }() // nothing was written
	if !sqlite {
		return f, advise(d.guardExamine(func() error { return d.examinePostgres(ctx, &f) }))
	}
	begun := time.Now()
	f.Have, err = d.version(ctx, Conn{d.write, &d.kind, nil})
	f.Latency = time.Since(begun)
	return f, err
}

// untouched returns the name of a SQLite file that is read without creating the files beside it: another user, such as
// root, would leave files there that the gateway cannot write. If the file is not in use, nobody changes it meanwhile.
func untouched(path string) string {
	query := url.Values{"mode": {"ro"}, "_pragma": {"query_only(1)", "busy_timeout(2000)"}}
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); err != nil {
			query.Set("immutable", "1")
		}
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// guardExamine is guard for a database without a log.
func (d *DB) guardExamine(do func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the database sent what its protocol does not allow")
		}
	}()
	return do()
}

// examinePostgres fills the facts of a server, over two connections: a pooler in transaction mode gives both the same session.
func (d *DB) examinePostgres(ctx context.Context, f *Facts) error {
	d.write.SetMaxOpenConns(2)
	first, err := d.write.Conn(ctx)
	if isPooler(err) {
		d.pooled.Store(true)
		first, err = d.write.Conn(ctx)
	}
	if err != nil {
		return err
	}
	defer func() { _ = first.Close() }()
	c := Conn{first, &d.kind, nil}
	var epoch float64
	begun := time.Now()
	err = c.Row(ctx, `SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp())::float8, `+c.Fenced())(&f.Version, &epoch, &f.Standby)
	if f.Latency = time.Since(begun); err != nil {
		return err
	}
	f.Clock = time.Unix(0, int64(epoch*1e9)).Sub(begun.Add(f.Latency / 2))
	if d.pooled.Load() {
		if f.Pooler, err = poolerOf(ctx, first, d.write); err != nil {
			return err
		}
	}
	if f.Pooler == StatementPooler {
		return nil // the connection is closed
	}
	f.Have, err = d.version(ctx, c)
	return err
}

// poolerOf returns the mode of the pooler to which a connection leads.
func poolerOf(ctx context.Context, first *sql.Conn, pool *sql.DB) (Pooler, error) {
	session := func(link *sql.Conn) (pid int, err error) {
		tx, err := link.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return 0, err
		}
		defer func() { _ = tx.Rollback() }() // nothing was written
		err = tx.QueryRowContext(ctx, `SELECT pg_backend_pid()`).Scan(&pid)
		return pid, err
	}
	one, err := session(first)
	switch {
	case err != nil && strings.Contains(err.Error(), "statement pooling"):
		return StatementPooler, nil
	case err != nil:
		return NoPooler, err
	}
	link, err := pool.Conn(ctx)
	if err != nil {
		return NoPooler, err
	}
	defer func() { _ = link.Close() }()
	other, err := session(link)
	switch {
	case err != nil:
		return NoPooler, err
	case other == one:
		return TransactionPooler, nil
	}
	return SessionPooler, nil
}
