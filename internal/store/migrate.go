package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed schema/*.sql
var ownSchema embed.FS

// step is one file of the schema. Files are numbered without gaps, are never changed
// once they were released, and only ever add: see DESIGN.md.
type step struct {
	version    int64
	name       string
	statements []string
}

// concurrently marks a statement that PostgreSQL runs outside of a transaction.
// SQLite does not know the word.
const concurrently = " CONCURRENTLY"

func readSteps(from fs.FS) ([]step, error) {
	if from == nil {
		from = ownSchema
	}
	files, err := fs.Glob(from, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []step
	for i, file := range files { // in the order of their names
		name := strings.TrimPrefix(file, "schema/")
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("store: schema file %s should be number %d", name, i+1)
		}
		text, err := fs.ReadFile(from, file)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step{int64(i + 1), name, split(string(text))})
	}
	return steps, nil
}

// split cuts a file into statements: each ends with a semicolon at the end of a line.
func split(text string) []string {
	var lines, statements []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimRight(line, " \n"); line == "" {
			continue
		}
		end := strings.HasSuffix(line, ";")
		lines = append(lines, strings.TrimSuffix(line, ";"))
		if end {
			statements = append(statements, strings.Join(lines, "\n"))
			lines = nil
		}
	}
	if lines != nil {
		statements = append(statements, strings.Join(lines, "\n"))
	}
	return statements
}

// The bounds of the goroutine that prepares. An index of a large table takes long,
// and nobody waits for it.
const (
	lookTimeout    = 3 * time.Second
	migrateTimeout = time.Hour
)

// prepare returns nil when the tables are those that this program needs, or newer.
func (s *Store) prepare(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var have int64
	err := s.insist(short, func() (err error) { // SQLite does not wait while another makes a new file ready for several
		have, err = s.version(short, conn{s.write, &s.kind})
		return err
	})
	need := int64(len(s.steps))
	switch {
	case err != nil:
		return err
	case have >= need:
		return nil
	case !s.migrate:
		return fmt.Errorf("its tables are of version %d and %d is needed; let one node migrate them", have, need)
	}
	long, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	return s.kind.migrate(s, long)
}

// version is the number of the last step that was taken.
func (s *Store) version(ctx context.Context, c conn) (int64, error) {
	var v sql.NullInt64
	err := c.row(ctx, `SELECT max(version) FROM schema_steps`).Scan(&v)
	if err != nil && s.kind.is(err, noSchema) {
		return 0, nil
	}
	return v.Int64, err
}

const stepsTable = `CREATE TABLE IF NOT EXISTS schema_steps (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, taken BIGINT NOT NULL)`

// missing makes the table of steps and returns the steps that it does not have.
func (s *Store) missing(ctx context.Context, c conn) ([]step, error) {
	if err := c.exec(ctx, stepsTable); err != nil {
		return nil, err
	}
	have, err := s.version(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.steps[min(have, int64(len(s.steps))):], nil
}

// take runs the statements of a step and notes that it was taken.
func (s *Store) take(ctx context.Context, c conn, st step) error {
	s.log.Info("store migrates", "step", st.name)
	for _, statement := range st.statements {
		if err := c.exec(ctx, statement); err != nil {
			return fmt.Errorf("schema %s: %w", st.name, err)
		}
	}
	return c.exec(ctx, `INSERT INTO schema_steps (version, name, taken) VALUES ($1, $2, $3)`, st.version, st.name, time.Now().UnixNano())
}

// migrateSQLite takes all steps in one transaction, which is alone by its lock.
func (s *Store) migrateSQLite(ctx context.Context) error {
	return s.transact(ctx, func(ctx context.Context, c conn) error {
		steps, err := s.missing(ctx, c)
		if err != nil {
			return err
		}
		for _, st := range steps {
			for i := range st.statements {
				st.statements[i] = strings.ReplaceAll(st.statements[i], concurrently, "")
			}
			if err := s.take(ctx, c, st); err != nil {
				return err
			}
		}
		return nil
	})
}

// migrationLock is a number that nobody else takes for an advisory lock.
const migrationLock = 0x6973_6f67_6c6f_7373 // "isogloss"

// migratePostgres takes the steps on one connection, which holds a lock.
func (s *Store) migratePostgres(ctx context.Context) error {
	link, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// The lock and the settings end with the connection.
		_ = link.Raw(func(any) error { return driver.ErrBadConn })
		_ = link.Close() // it is closed already
	}()
	c := conn{link, &s.kind}
	if err := lockSteps(ctx, c); err != nil {
		return err
	}
	// The limit on locks stays. Behind a statement that waits for a table everybody waits
	// for the table, so it gives up soon and the step is tried again.
	if err := c.exec(ctx, `SET statement_timeout = 0`); err != nil {
		return err
	}
	steps, err := s.missing(ctx, c)
	if err != nil {
		return err
	}
	for _, st := range steps {
		if err := s.takePostgres(ctx, link, st); err != nil {
			return err
		}
	}
	return nil
}

// lockSteps asks for the lock again and again. It does not wait inside of a
// statement: an index that is built concurrently waits for all statements to end.
func lockSteps(ctx context.Context, c conn) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	for {
		var locked bool
		if err := c.row(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&locked); err != nil || locked {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("another node migrates the tables")
		}
	}
}

func (s *Store) takePostgres(ctx context.Context, link *sql.Conn, st step) error {
	for _, statement := range st.statements {
		if strings.Contains(statement, concurrently) {
			return s.take(ctx, conn{link, &s.kind}, st)
		}
	}
	tx, err := link.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.take(ctx, conn{tx, &s.kind}, st); err != nil {
		_ = tx.Rollback() // the error of the step says more
		return err
	}
	return tx.Commit()
}
