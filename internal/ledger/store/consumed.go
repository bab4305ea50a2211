package store

import (
	"context"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/sums"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// AddSums adds rows to the sums, without the rows themselves, in a transaction that also stores that they were
// added. The logs are in the order of their names. With balances it adds to the sums of accounts only: another
// store has the others.
func (s *Store) AddSums(ctx context.Context, c db.Conn, batches []usage.Batch, balances bool) (err error) {
	batches = slices.Clone(batches)
	var rows []usage.Row
	for i := range batches {
		b := &batches[i]
		if b.Rows, err = distinct(counted(b.Rows)); err != nil {
			return err
		}
		rows = append(rows, b.Rows...)
		err := c.Exec(ctx, `INSERT INTO logs (log, position, seen, finished) VALUES ($1, 0, $2, 0)
			ON CONFLICT (log) DO UPDATE SET seen = excluded.seen, finished = 0`, b.Log, time.Now().UnixNano())
		if err != nil {
			return err
		}
	}
	if !balances {
		if err := sums.Add(ctx, c, rows); err != nil {
			return err
		}
	}
	// Without rows the spending of keys within an hour comes from their minutes.
	keys := map[spentKey]*spentSums{}
	for i := range rows {
		if r := &rows[i]; r.Key != "" {
			sumsOf(keys, spentKey{usage.Account{Kind: usage.KeyAccount, ID: r.Key}.Name(), minuteOf(r.Began)}).add(r)
		}
	}
	if err := addMinutes(ctx, c, keys); err != nil {
		return err
	}
	if err := addBalances(ctx, c, batches); err != nil {
		return err
	}
	return s.raiseAlerts(ctx, c, rows)
}
