package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// migration is a file of the schema. Files are numbered without gaps, never change after a release,
// and only add: see DESIGN.md of package store.
type migration struct {
	version    int64
	name       string
	statements []string
}

// Statements, and lines of one, that begin with one of these comments are for one of the databases.
const (
	onlySQLite   = "/* SQLite */"
	onlyPostgres = "/* PostgreSQL */"
)

// define begins lines with a name. They take the place of :NAME in the other statements of the file.
const define = "DEFINE "

// concurrently marks a statement that PostgreSQL runs outside of a transaction. SQLite does not
// have the keyword.
const concurrently = " CONCURRENTLY"

// readMigrations reads the files. The first one has all tables of its version, whatever its number is.
func readMigrations(from fs.FS) ([]migration, error) {
	files, err := fs.Glob(from, "schema/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []migration
	for i, file := range files { // in the order of their names
		name := strings.TrimPrefix(file, "schema/")
		number, _, _ := strings.Cut(name, "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || i > 0 && n != steps[i-1].version+1 {
			return nil, fmt.Errorf("store: schema file %s does not have the number after that of the file before it", name)
		}
		text, err := fs.ReadFile(from, file)
		if err != nil {
			return nil, err
		}
		steps = append(steps, migration{n, name, splitStatements(string(text))})
	}
	if steps == nil {
		return nil, errors.New("store: there is no schema file")
	}
	return steps, nil
}

// splitStatements splits a file into statements. Each ends with a semicolon at the end of a line that is in no
// function's body.
func splitStatements(text string) []string {
	var lines, statements, defined []string
	body := false
	end := func() {
		statement := strings.Join(lines, "\n")
		lines = nil
		if rest, ok := strings.CutPrefix(statement, define); ok {
			name, text, _ := strings.Cut(rest, "\n")
			defined = append(defined, ":"+name, text)
			return
		}
		statements = append(statements, strings.NewReplacer(defined...).Replace(statement))
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "--")
		if line = strings.TrimRight(line, " \n"); line == "" {
			continue
		}
		body = body != (strings.Count(line, "$body$") == 1)
		if last := strings.TrimSuffix(line, ";"); last != line && !body {
			lines = append(lines, last)
			end()
			continue
		}
		lines = append(lines, line)
	}
	if lines != nil {
		end()
	}
	return statements
}

// Timeouts of the goroutine that migrates. Creating an index of a large table takes long, and
// nothing waits for it.
const (
	checkTimeout   = 3 * time.Second
	migrateTimeout = time.Hour
)

// prepare returns nil when the database has the tables that this program needs, or newer ones.
func (d *DB) prepare(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var have int64
	err := d.retry(short, func() (err error) { // SQLite does not wait while another process initialises the file
		have, err = d.version(short, Conn{d.write, &d.kind, d.log})
		return err
	})
	first, need := d.steps[0].version, d.steps[len(d.steps)-1].version
	switch {
	case err != nil:
		return err
	case have > 0 && have < first:
		return fmt.Errorf("its tables have version %d, and this program migrates from version %d on; start the older program that docs/operations/upgrade.md names once, which migrates them", have, first)
	case have >= need:
		return nil
	case !d.migrate:
		return fmt.Errorf("its tables have version %d, but version %d is needed; let one node migrate them", have, need)
	}
	d.setState(ErrMigrating)
	if have > 0 {
		d.log.Info("store is being migrated; a large one takes minutes", "from", have, "to", need)
	}
	long, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	return d.kind.migrate(d, long)
}

// version returns the number of the last migration.
func (d *DB) version(ctx context.Context, c Conn) (int64, error) {
	var v sql.NullInt64
	err := c.Row(ctx, `SELECT max(version) FROM schema_steps`)(&v)
	if err != nil && d.kind.is(err, noSchema) {
		return 0, nil
	}
	return v.Int64, err
}

const stepsTable = `CREATE TABLE IF NOT EXISTS schema_steps (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, taken BIGINT NOT NULL)`

// missingSteps creates the table of migrations and returns those that are missing in it.
func (d *DB) missingSteps(ctx context.Context, c Conn) ([]migration, error) {
	if err := c.Exec(ctx, stepsTable); err != nil {
		return nil, err
	}
	have, err := d.version(ctx, c)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(d.steps), func(st migration) bool { return st.version <= have }), nil
}

// applyStep runs a migration and records it.
func (d *DB) applyStep(ctx context.Context, c Conn, st migration) error {
	d.log.Info("store migrates", "step", st.name)
	for _, statement := range st.statements {
		if err := c.Exec(ctx, statement); err != nil {
			return fmt.Errorf("schema %s: %w", st.name, err)
		}
	}
	return c.Exec(ctx, `INSERT INTO schema_steps (version, name, taken) VALUES ($1, $2, $3)`, st.version, st.name, time.Now().UnixNano())
}

// adapt returns the statements without those, and without the lines, for the other database.
func adapt(statements []string, other string) (list []string) {
	for _, statement := range statements {
		var lines []string
		for i, line := range strings.Split(statement, "\n") {
			if !strings.HasPrefix(strings.TrimLeft(line, " "), other) {
				lines = append(lines, line)
			} else if i == 0 {
				break
			}
		}
		if lines != nil {
			list = append(list, strings.Join(lines, "\n"))
		}
	}
	return list
}

// migrateSQLite runs all migrations in one transaction.
func (d *DB) migrateSQLite(ctx context.Context) error {
	return d.transaction(ctx, nil, func(ctx context.Context, c Conn) error {
		steps, err := d.missingSteps(ctx, c)
		if err != nil {
			return err
		}
		for _, st := range steps {
			st.statements = adapt(st.statements, onlyPostgres)
			for i, statement := range st.statements {
				st.statements[i] = strings.ReplaceAll(statement, concurrently, "")
			}
			if err := d.applyStep(ctx, c, st); err != nil {
				return err
			}
		}
		return nil
	})
}

// migratePostgres runs the migrations on one connection, with a lock that other nodes respect.
func (d *DB) migratePostgres(ctx context.Context) error {
	ctx, unlock, err := d.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	link, err := d.write.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() {
		// The settings end with the connection.
		_ = link.Raw(func(any) error { return driver.ErrBadConn })
		_ = link.Close() // closed already
	}()
	c := Conn{link, &d.kind, d.log}
	// The lock timeout stays: a statement that waits for a table blocks all later ones, so it
	// gives up soon and the migration is tried again. A pooler's sessions have no timeouts.
	if !d.pooled.Load() {
		if err := c.Exec(ctx, `SET statement_timeout = 0`); err != nil {
			return err
		}
	}
	steps, err := d.missingSteps(ctx, c)
	if err != nil {
		return err
	}
	for _, st := range steps {
		st.statements = adapt(st.statements, onlySQLite)
		if err := d.applyStepPostgres(ctx, link, st); err != nil {
			return err
		}
	}
	return nil
}

// The lock of migrations is a row with an end, which its holder extends: an advisory lock belongs to a
// session, which a pooler gives to other clients, and an index that is built concurrently is in no
// transaction.
const (
	lockTable = `CREATE TABLE IF NOT EXISTS schema_lock (one BIGINT NOT NULL PRIMARY KEY, holder TEXT NOT NULL, until BIGINT NOT NULL)`
	lockLasts = 15 * time.Second
)

// lockMigrations takes the lock. The context that it returns ends when the lock is lost.
func (d *DB) lockMigrations(ctx context.Context) (_ context.Context, unlock func(), err error) {
	holder := rand.Text()
	take := func(ctx context.Context) (bool, error) {
		var got string
		now := time.Now()
		err := d.transaction(ctx, nil, func(ctx context.Context, c Conn) error {
			return c.Row(ctx, `INSERT INTO schema_lock (one, holder, until) VALUES (1, $1, $2)
				ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until
				WHERE schema_lock.until < $3 OR schema_lock.holder = excluded.holder RETURNING holder`, holder, now.Add(lockLasts).UnixNano(), now.UnixNano())(&got)
		})
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	}
	short, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	const maxTries = 10
	for tries := 0; ; tries++ {
		err := d.transaction(short, nil, func(ctx context.Context, c Conn) error { return c.Exec(ctx, lockTable) })
		if err == nil || tries == maxTries || short.Err() != nil { // two nodes that create it at once conflict
			if err != nil {
				return nil, nil, err
			}
			break
		}
	}
	for {
		locked, err := take(short)
		if err != nil {
			return nil, nil, err
		}
		if locked {
			break
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-short.Done():
			return nil, nil, errors.New("another node migrates the tables")
		}
	}
	held, lose := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer lose()
		for held.Err() == nil {
			select {
			case <-held.Done():
				return
			case <-time.After(lockLasts / 5):
			}
			if kept, err := take(held); err != nil || !kept {
				return
			}
		}
	}()
	return held, func() {
		lose()
		<-done
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		_ = d.transaction(free, nil, func(ctx context.Context, c Conn) error { // it ends by itself otherwise
			return c.Exec(ctx, `DELETE FROM schema_lock WHERE holder = $1`, holder)
		})
	}, nil
}

func (d *DB) applyStepPostgres(ctx context.Context, link *sql.Conn, st migration) error {
	for _, statement := range st.statements {
		if strings.Contains(statement, concurrently) {
			return d.applyStep(ctx, Conn{link, &d.kind, d.log}, st)
		}
	}
	tx, err := link.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := d.applyStep(ctx, Conn{tx, &d.kind, d.log}, st); err != nil {
		_ = tx.Rollback() // the first error says more
		return err
	}
	return tx.Commit()
}
