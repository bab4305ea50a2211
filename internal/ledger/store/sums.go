package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/sums"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// spentKey identifies a row of the tables spent and spent_minutes.
type spentKey struct {
	account string
	at      int64 // the hour or the minute
}

// spentSums is what requests have spent.
type spentSums struct{ requests, unknown, cost int64 }

func (t *spentSums) add(r *usage.Row) {
	t.requests++
	if r.Cost != nil {
		t.cost += int64(*r.Cost)
	} else {
		t.unknown++
	}
}

func hourOf(t time.Time) int64   { return sums.HourOf(t) }
func minuteOf(t time.Time) int64 { return nanos(t) / int64(time.Minute) }

// addSums adds rows to the sums, in a fixed order like the rows.
func addSums(ctx context.Context, c db.Conn, log string, rows []usage.Row) error {
	if err := sums.Add(ctx, c, rows); err != nil {
		return err
	}
	return addBalances(ctx, c, []usage.Batch{{Log: log, Rows: rows}})
}

// addBalances adds rows to the sums of their accounts. The logs are in the order of their names.
func addBalances(ctx context.Context, c db.Conn, batches []usage.Batch) error {
	spent, minutes, logs := map[spentKey]*spentSums{}, map[spentKey]*spentSums{}, make([]map[spentKey]*spentSums, len(batches))
	for n, b := range batches {
		logs[n] = map[spentKey]*spentSums{}
		for i := range b.Rows {
			r := &b.Rows[i]
			for _, account := range r.Accounts() {
				sumsOf(spent, spentKey{account, hourOf(r.Began)}).add(r)
				sumsOf(logs[n], spentKey{account, 0}).add(r)
				if !isKey(account) {
					sumsOf(minutes, spentKey{account, minuteOf(r.Began)}).add(r)
				}
			}
		}
	}
	if err := addMinutes(ctx, c, minutes); err != nil {
		return err
	}
	for n, b := range batches {
		if err := addLogs(ctx, c, b.Log, logs[n]); err != nil {
			return err
		}
	}
	return addSpent(ctx, c, spent)
}

// isKey reports whether an account is a key's. Keys are many, and an index finds their rows, so
// they have no sums by minute.
func isKey(account string) bool { return strings.HasPrefix(account, "key:") }

func sumsOf(m map[spentKey]*spentSums, k spentKey) *spentSums {
	if m[k] == nil {
		m[k] = &spentSums{}
	}
	return m[k]
}

func addSpent(ctx context.Context, c db.Conn, list map[spentKey]*spentSums) error {
	in := db.Insert{
		Head: `INSERT INTO spent (account, hour, requests, unknown, cost) `,
		Tail: ` ON CONFLICT (account, hour) DO UPDATE SET requests = spent.requests + excluded.requests, unknown = spent.unknown + excluded.unknown, cost = spent.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(list) {
		t := list[k]
		in.Rows = append(in.Rows, []any{k.account, k.at, t.requests, t.unknown, t.cost})
	}
	return in.Run(ctx, c)
}

func addMinutes(ctx context.Context, c db.Conn, list map[spentKey]*spentSums) error {
	in := db.Insert{
		Head: `INSERT INTO spent_minutes (account, minute, cost) `,
		Tail: ` ON CONFLICT (account, minute) DO UPDATE SET cost = spent_minutes.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(list) {
		in.Rows = append(in.Rows, []any{k.account, k.at, list[k].cost})
	}
	return in.Run(ctx, c)
}

func addLogs(ctx context.Context, c db.Conn, log string, list map[spentKey]*spentSums) error {
	in := db.Insert{
		Head: `INSERT INTO log_spent (account, log, cost) `,
		Tail: ` ON CONFLICT (account, log) DO UPDATE SET cost = log_spent.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(list) {
		if cost := list[k].cost; cost > 0 {
			in.Rows = append(in.Rows, []any{k.account, log, cost})
		}
	}
	return in.Run(ctx, c)
}

func sortedKeys(list map[spentKey]*spentSums) []spentKey {
	return slices.SortedFunc(maps.Keys(list), func(a, b spentKey) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.at, b.at))
	})
}
