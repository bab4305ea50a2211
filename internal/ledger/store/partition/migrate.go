package partition

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

const (
	day = 24 * time.Hour
	// ahead is the time for which the first partition has room. It is longer than a migration takes,
	// with its interruptions: a table that is being divided refuses later rows.
	ahead = 8 * day
)

// Migrate divides the tables, which become the first partitions of tables with their names. No row is
// copied, and writers wait only for the last step, which reads no table. Each step is a transaction. If
// Migrate is interrupted, it continues when it is called again.
func Migrate(ctx context.Context, tx db.Transaction) error {
	for _, table := range Tables() {
		if err := divide(ctx, tx, table); err != nil {
			return fmt.Errorf("table %s: %w", table, err)
		}
	}
	return tx(ctx, createFunctions)
}

func divide(ctx context.Context, tx db.Transaction, table string) error {
	var end int64
	divided := false
	if err := tx(ctx, func(ctx context.Context, c db.Conn) (err error) {
		if err = c.Row(ctx, `SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass($1)`, table)(&divided); err != nil || divided {
			return err
		}
		end, err = bound(ctx, c, table)
		return err
	}); err != nil || divided {
		return err
	}
	// It reads the whole table. Rows are written meanwhile.
	if err := tx(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Exec(ctx, `ALTER TABLE `+table+` VALIDATE CONSTRAINT `+constraint(table))
	}); err != nil {
		return err
	}
	return tx(ctx, func(ctx context.Context, c db.Conn) error { return swap(ctx, c, table, end) })
}

// constraint is the name of the check that all rows of a table are in its first partition. With it,
// PostgreSQL does not read the table again to make it one.
func constraint(table string) string { return table + "_before" }

// bound limits the table to rows before a time, moves later ones out of it, and returns the time. An
// interrupted migration has done it already.
func bound(ctx context.Context, c db.Conn, table string) (end int64, err error) {
	var check string
	err = c.Row(ctx, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = to_regclass($1) AND conname = $2`, table, constraint(table))(&check)
	if err == nil {
		return strconv.ParseInt(strings.Map(func(r rune) rune {
			if r < '0' || r > '9' {
				return -1
			}
			return r
		}, strings.ReplaceAll(check, "bigint", "")), 10, 64)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	end = time.Now().Truncate(day).Add(ahead + day).UnixNano()
	at := strconv.FormatInt(end, 10)
	return end, run(ctx, c,
		`CREATE TABLE `+table+`_rest (LIKE `+table+` INCLUDING DEFAULTS INCLUDING CONSTRAINTS)`,
		`ALTER TABLE `+table+` ADD CONSTRAINT `+constraint(table)+` CHECK (began < `+at+`) NOT VALID`,
		`WITH moved AS (DELETE FROM `+table+` WHERE began >= `+at+` RETURNING *) INSERT INTO `+table+`_rest SELECT * FROM moved`)
}

// swap replaces a table by one that has it as its first partition, with the same indexes and rights.
func swap(ctx context.Context, c db.Conn, table string, end int64) error {
	first := table + "_first"
	if err := c.Exec(ctx, `LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		return err
	}
	if table == "requests" {
		if err := ownNumbers(ctx, c); err != nil {
			return err
		}
	}
	if err := c.Exec(ctx, `ALTER TABLE `+table+` RENAME TO `+first); err != nil {
		return err
	}
	if err := c.Exec(ctx, `CREATE TABLE `+table+` (LIKE `+table+`_rest INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY RANGE (began)`); err != nil {
		return err
	}
	// Each index of the first partition becomes a part of one of the table with its name.
	indexes, err := texts(ctx, c, `SELECT format('ALTER INDEX %s RENAME TO %I', i.indexrelid::regclass, 'first_' || x.relname) || ';' ||
			CASE WHEN k.oid IS NOT NULL THEN format('ALTER TABLE $t ADD CONSTRAINT %I %s', k.conname, pg_get_constraintdef(k.oid))
			ELSE format('CREATE %s INDEX %I ON $t %s', CASE WHEN i.indisunique THEN 'UNIQUE' ELSE '' END, x.relname, substring(pg_get_indexdef(i.indexrelid) FROM 'USING .*')) END
		FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid AND k.contype = 'p'
		WHERE i.indrelid = to_regclass($1) ORDER BY x.relname`, first)
	if err != nil {
		return err
	}
	for _, both := range indexes {
		rename, create, _ := strings.Cut(both, ";")
		if err := run(ctx, c, rename, strings.Replace(create, "$t", table, 1)); err != nil {
			return err
		}
	}
	if table == "requests" {
		if err := c.Exec(ctx, `ALTER TABLE requests ALTER n SET DEFAULT nextval('requests_n_seq')`); err != nil {
			return err
		}
	}
	if err := run(ctx, c,
		`ALTER TABLE `+table+` ATTACH PARTITION `+first+` FOR VALUES FROM (MINVALUE) TO (`+strconv.FormatInt(end, 10)+`)`,
		`ALTER TABLE `+table+` ATTACH PARTITION `+table+`_rest DEFAULT`,
		`ALTER TABLE `+first+` DROP CONSTRAINT `+constraint(table)); err != nil {
		return err
	}
	return copyGrants(ctx, c, table, first)
}

// ownNumbers replaces the identity of n by a sequence: before version 17 a table with partitions has no
// identity. The index of n alone goes, because nothing needs it.
func ownNumbers(ctx context.Context, c db.Conn) error {
	var next int64
	if err := c.Row(ctx, `SELECT COALESCE(max(n), 0) + 1 FROM (SELECT max(n) AS n FROM requests UNION ALL SELECT max(n) FROM requests_rest) all_rows`)(&next); err != nil {
		return err
	}
	var key string
	if err := c.Row(ctx, `SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = to_regclass('requests') AND contype = 'p'`)(&key); err != nil {
		return err
	}
	return run(ctx, c,
		`ALTER TABLE requests ALTER n DROP IDENTITY`,
		`ALTER TABLE requests DROP CONSTRAINT `+key,
		`CREATE SEQUENCE requests_n_seq START `+strconv.FormatInt(next, 10))
}

// copyGrants gives the accounts of a table the same rights on the one that has its name now.
func copyGrants(ctx context.Context, c db.Conn, table, from string) error {
	grants, err := texts(ctx, c, `SELECT format('GRANT %s ON $t TO %s', a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
		FROM pg_class t, aclexplode(t.relacl) a WHERE t.oid = to_regclass($1) AND a.grantee <> t.relowner`, from)
	if err != nil {
		return err
	}
	for _, grant := range grants {
		if err := c.Exec(ctx, strings.Replace(grant, "$t", table, 1)); err != nil {
			return err
		}
		if to, ok := strings.CutPrefix(grant, `GRANT INSERT ON $t TO `); ok && table == "requests" {
			if err := c.Exec(ctx, `GRANT USAGE ON SEQUENCE requests_n_seq TO `+to); err != nil {
				return err
			}
		}
	}
	return nil
}

// The functions run with the rights of the account that has migrated. An account with the right to call
// them can add partitions, and drop those whose rows are all older than a day. A statement that waits for
// a table blocks all later ones, so they give up soon.
const functions = ` LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '200ms' SET search_path = `

const addBody = ` AS $body$
DECLARE part text := parent || '_' || to_char(to_timestamp(lower / 1000000000) AT TIME ZONE 'UTC', 'YYYYMMDD');
BEGIN
	IF parent NOT IN ('requests', 'labels') OR lower >= upper THEN
		RAISE EXCEPTION 'no such partition';
	END IF;
	EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', parent);
	IF to_regclass(quote_ident(part)) IS NOT NULL THEN
		RETURN;
	END IF;
	EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', parent || '_rest');
	EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, parent);
	EXECUTE format('WITH moved AS (DELETE FROM %I WHERE began >= %s AND began < %s RETURNING *) INSERT INTO %I SELECT * FROM moved', parent || '_rest', lower, upper, part);
	EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', parent, part, lower, upper);
END $body$`

const dropBody = ` AS $body$
BEGIN
	IF before > (extract(epoch FROM clock_timestamp()) - 86400)::bigint * 1000000000 THEN
		RAISE EXCEPTION 'rows of the last day are kept';
	END IF;
	PERFORM FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid WHERE p.oid = to_regclass(quote_ident(part))
		AND i.inhparent IN (to_regclass('requests'), to_regclass('labels'))
		AND substring(pg_get_expr(p.relpartbound, p.oid) FROM 'TO \(''?(-?[0-9]+)')::bigint <= before;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	EXECUTE format('DROP TABLE %I', part);
END $body$`

func createFunctions(ctx context.Context, c db.Conn) error {
	var schema string
	if err := c.Row(ctx, `SELECT quote_ident(current_schema())`)(&schema); err != nil {
		return err
	}
	const add, drop = `isogloss_add_partition(parent text, lower bigint, upper bigint)`, `isogloss_drop_partition(part text, before bigint)`
	return run(ctx, c,
		`CREATE OR REPLACE FUNCTION `+add+` RETURNS void`+functions+schema+`, pg_temp`+addBody,
		`CREATE OR REPLACE FUNCTION `+drop+` RETURNS void`+functions+schema+`, pg_temp`+dropBody,
		`REVOKE ALL ON FUNCTION isogloss_add_partition, isogloss_drop_partition FROM PUBLIC`)
}

// run runs statements one after another.
func run(ctx context.Context, c db.Conn, statements ...string) error {
	for _, statement := range statements {
		if err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// texts returns the rows of a query with one column.
func texts(ctx context.Context, c db.Conn, query string, args ...any) (list []string, err error) {
	err = c.Rows(ctx, func(row db.Scan) error {
		var text string
		err := row(&text)
		list = append(list, text)
		return err
	}, query, args...)
	return list, err
}
