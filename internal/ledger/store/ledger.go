package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Append adds the rows of a batch to the ledger and its sums, once per id: existing rows change
// nothing. It returns the position up to which the ledger has the log. If that is less than
// Batch.After, the database was set back to an older state, and Append has stored nothing.
func (s *Store) Append(ctx context.Context, b usage.Batch) (have int64, err error) {
	rows, err := distinct(counted(b.Rows))
	if err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		// The row of the log is locked first, so that the rows of a position come once.
		err := c.Row(ctx, `INSERT INTO logs (log, position, seen, finished) VALUES ($1, 0, $2, 0)
			ON CONFLICT (log) DO UPDATE SET seen = excluded.seen, finished = 0 RETURNING position`, b.Log, time.Now().UnixNano())(&have)
		if err != nil || have < b.After || have >= b.To {
			return err
		}
		have = b.To
		if err := appendRows(ctx, c, b.Log, rows); err != nil {
			return err
		}
		if err := s.raiseAlerts(ctx, c, rows); err != nil {
			return err
		}
		return c.Exec(ctx, `UPDATE logs SET position = $1 WHERE log = $2`, b.To, b.Log)
	})
	return have, err
}

const (
	// finishedLogs are kept for longer than a counter keeps what it knows of a log.
	finishedLogs = 48 * time.Hour
	// lostLogs are those of processes whose disk is gone.
	lostLogs = 30 * 24 * time.Hour
)

// Finish records that a log is complete. It also deletes the positions and totals of logs that
// were complete long ago.
func (s *Store) Finish(ctx context.Context, log string) error {
	now := time.Now()
	const old = ` WHERE log IN (SELECT log FROM logs WHERE finished > 0 AND finished < $1 OR seen < $2)`
	return s.db.Write(ctx, func(ctx context.Context, c db.Conn) error {
		if err := c.Exec(ctx, `UPDATE logs SET finished = $1 WHERE log = $2`, now.UnixNano(), log); err != nil {
			return err
		}
		for _, table := range []string{"log_spent", "usage_positions", "logs"} {
			if err := c.Exec(ctx, `DELETE FROM `+table+old, now.Add(-finishedLogs).UnixNano(), now.Add(-lostLogs).UnixNano()); err != nil {
				return err
			}
		}
		return nil
	})
}

// counted returns the rows without those of refused requests, which AppendRefusals adds.
func counted(rows []usage.Row) []usage.Row {
	refused := func(r usage.Row) bool { return r.Outcome == usage.Refused }
	if !slices.ContainsFunc(rows, refused) { // rows are large
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), refused)
}

// distinct bounds rows and sorts them by time and id. All transactions lock in the same order, which avoids
// deadlocks.
func distinct(rows []usage.Row) ([]usage.Row, error) {
	list := make([]usage.Row, len(rows))
	for i, r := range rows {
		if r.ID == "" {
			return nil, Error("a row of the ledger has no id")
		}
		list[i] = bounds.Row(r)
	}
	slices.SortStableFunc(list, func(a, b usage.Row) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	return slices.CompactFunc(list, func(a, b usage.Row) bool { return a.ID == b.ID && a.Began.Equal(b.Began) }), nil
}

// appendRows counts only rows that were inserted: another node may have sent the same rows
// concurrently.
func appendRows(ctx context.Context, c db.Conn, log string, rows []usage.Row) error {
	added := make(map[string]bool, len(rows))
	if err := insertRows(ctx, c, rows, func(id string) { added[id] = true }); err != nil {
		return err
	}
	if len(added) < len(rows) { // rare, and rows are large
		rows = slices.DeleteFunc(slices.Clone(rows), func(r usage.Row) bool { return !added[r.ID] })
	}
	if err := appendLabels(ctx, c, rows); err != nil {
		return err
	}
	return addSums(ctx, c, log, rows) // last, because busy accounts contend for its locks
}

// insertRows inserts rows that are new. It calls inserted, which may be nil, with the ids of these.
func insertRows(ctx context.Context, c db.Conn, rows []usage.Row, inserted func(id string)) error {
	in := db.Insert{Head: `INSERT INTO requests (` + RowColumns + `) `, Tail: ` ON CONFLICT (began, id) DO NOTHING`, Inserted: inserted}
	for i := range rows {
		in.Rows = append(in.Rows, RowValues(&rows[i]))
	}
	return in.Run(ctx, c)
}
