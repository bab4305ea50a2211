// Package partition divides tables of the ledger in PostgreSQL by time, so that old rows are dropped with
// their partition. SQLite has no partitions: there every function does nothing.
//
// A divided table has a partition for its first days and everything before (TABLE_first), partitions for some
// days each (TABLE_20261118), and one for rows of all other times (TABLE_rest), so that no row is ever refused.
// The schema creates the first and the last.
package partition

import (
	"cmp"
	"context"
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// Tables returns the tables that are divided. Each has the column began, in nanoseconds since 1970.
func Tables() []string { return []string{"requests", "labels"} }

// Partition is a part of a table by time.
type Partition struct {
	Table, Name string
	From, To    int64 // math.MinInt64: from the first row on
}

// List returns the partitions of a table in the order of time, without the one for all other times.
func List(ctx context.Context, c db.Conn, table string) (list []Partition, err error) {
	if !c.Partitions() {
		return nil, nil
	}
	err = c.Rows(ctx, func(row db.Scan) error {
		p := Partition{Table: table}
		var bounds string
		if err := row(&p.Name, &bounds); err != nil {
			return err
		}
		if found := boundsForm.FindStringSubmatch(bounds); found != nil { // the other one is DEFAULT
			if p.From, err = strconv.ParseInt(found[1], 10, 64); err != nil { // MINVALUE
				p.From = math.MinInt64
			}
			p.To, err = strconv.ParseInt(found[2], 10, 64)
			list = append(list, p)
		}
		return err
	}, `SELECT p.relname, pg_get_expr(p.relpartbound, p.oid) FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhrelid WHERE i.inhparent = to_regclass($1)`, table)
	slices.SortFunc(list, func(a, b Partition) int { return cmp.Compare(a.From, b.From) })
	return list, err
}

var boundsForm = regexp.MustCompile(`FROM \('?(-?[0-9]+|MINVALUE)'?\) TO \('?(-?[0-9]+)'?\)`)

// Range is a part of time, From inclusive and To exclusive.
type Range struct{ From, To int64 }

// Ranges returns the parts of time that have a partition of requests each, and those between, before and
// after them, newest first. Together they are all of time. A query for one of them reads one partition.
func Ranges(ctx context.Context, c db.Conn) ([]Range, error) {
	parts, err := List(ctx, c, Tables()[0])
	if err != nil {
		return nil, err
	}
	var list []Range
	from := int64(math.MinInt64)
	add := func(to int64) {
		if from < to {
			list = append(list, Range{from, to})
			from = to
		}
	}
	for _, p := range parts {
		add(p.From)
		add(p.To)
	}
	add(math.MaxInt64)
	slices.Reverse(list)
	return list, nil
}

// Add adds a partition for a part of time to each table, unless there is one.
func Add(ctx context.Context, c db.Conn, r Range) error {
	for _, table := range Tables() {
		if err := c.Exec(ctx, `SELECT isogloss_add_partition($1, $2, $3)`, table, r.From, r.To); err != nil {
			return err
		}
	}
	return nil
}

// Drop drops a partition whose rows are all older than a time.
func Drop(ctx context.Context, c db.Conn, p Partition, before int64) error {
	return c.Exec(ctx, `SELECT isogloss_drop_partition($1, $2)`, p.Name, before)
}
