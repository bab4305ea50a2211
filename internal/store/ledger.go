package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// batchRows is how many rows go into one transaction.
const batchRows = 500

// Append adds rows to the ledger, and to its sums, each once by its id: rows that are
// there already change nothing. Batches of any size are cut into transactions of 500
// rows, so an error may leave a part of them behind; sending all again is right.
func (s *Store) Append(ctx context.Context, rows []usage.Row) error {
	for batch := range slices.Chunk(rows, batchRows) {
		rows, err := distinct(batch)
		if err != nil {
			return err
		}
		err = s.change(ctx, func(ctx context.Context, c conn) error { return appendRows(ctx, c, rows) })
		if err != nil {
			return err
		}
	}
	return nil
}

// distinct bounds rows and orders them by id. All transactions take their locks in
// the same order, so that they wait for each other and do not block each other.
func distinct(rows []usage.Row) ([]usage.Row, error) {
	list := make([]usage.Row, len(rows))
	for i, r := range rows {
		if r.ID == "" {
			return nil, &Error{"a row of the ledger has no id"}
		}
		list[i] = bounded(r)
	}
	slices.SortStableFunc(list, func(a, b usage.Row) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b usage.Row) bool { return a.ID == b.ID }), nil
}

const rowColumns = `id, began, took, input, cache_read, cache_write, output, reasoning, cost, status, stream, estimated,
	node, key_id, team, org, endpoint, dialect, model, target, outcome`

// appendRows counts only what was really inserted: another node may have sent the
// same rows at the same time.
func appendRows(ctx context.Context, c conn, rows []usage.Row) error {
	added := make(map[string]bool, len(rows))
	in := insert{head: `INSERT INTO requests (` + rowColumns + `) VALUES `, tail: ` ON CONFLICT (id) DO NOTHING`, took: func(id string) { added[id] = true }}
	for _, r := range rows {
		in.rows = append(in.rows, []any{r.ID, nanos(r.Began), int64(r.Took),
			r.Usage.Input, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Output, r.Usage.Reasoning, moneyArg(r.Cost), int64(r.Status), r.Stream, r.Estimated,
			r.Node, r.Key, r.Team, r.Org, r.Endpoint, r.Dialect, r.Model, r.Target, string(r.Outcome)})
	}
	if err := in.run(ctx, c); err != nil {
		return err
	}
	if len(added) < len(rows) { // seldom, and rows are large
		rows = slices.DeleteFunc(slices.Clone(rows), func(r usage.Row) bool { return !added[r.ID] })
	}
	if err := appendAttempts(ctx, c, rows); err != nil {
		return err
	}
	return addSums(ctx, c, rows) // last, because busy accounts share its locks
}

const attemptColumns = `request_id, n, began, took, input, cache_read, cache_write, output, reasoning, cost, status, charged, target, fault`

func appendAttempts(ctx context.Context, c conn, rows []usage.Row) error {
	in := insert{head: `INSERT INTO attempts (` + attemptColumns + `) VALUES `}
	for _, r := range rows {
		for n, a := range r.Attempts {
			in.rows = append(in.rows, []any{r.ID, int64(n), nanos(a.Began), int64(a.Took),
				a.Usage.Input, a.Usage.CacheRead, a.Usage.CacheWrite, a.Usage.Output, a.Usage.Reasoning, moneyArg(a.Cost), int64(a.Status), a.Charged, a.Target, a.Fault})
		}
	}
	return in.run(ctx, c)
}

func moneyArg(m *usage.Money) any {
	if m == nil {
		return nil
	}
	return int64(*m)
}
