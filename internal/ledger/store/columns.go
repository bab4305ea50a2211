package store

import (
	"database/sql"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/detail"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// RowColumns are the columns of a row, of which SQLite, PostgreSQL and ClickHouse have the same. RowValues has their
// values and ScanRow their fields, in this order. The column detail has all other fields.
const RowColumns = `id, began, took, input, cache_read, cache_write, output, reasoning, cost, status, stream, estimated,
	node, key_id, person, team, org, endpoint, dialect, model, target, outcome, fidelity, detail`

// RowValues returns the values of the columns: string, int64, bool, and nil for an unknown cost.
func RowValues(r *usage.Row) []any {
	u := &r.Usage
	return []any{r.ID, nanos(r.Began), int64(r.Took), u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, moneyArg(r.Cost), int64(r.Status), r.Stream, r.Estimated,
		r.Node, r.Key, r.Person, r.Team, r.Org, r.Endpoint, r.Dialect, r.Model, r.Target, string(r.Outcome), r.Fidelity, detail.Encode(r)}
}

// ScanRow returns the row of which scan reads the columns.
func ScanRow(scan db.Scan) (r usage.Row, err error) {
	var began, took int64
	var cost sql.NullInt64
	var text string
	u := &r.Usage
	err = scan(&r.ID, &began, &took, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &cost, &r.Status, &r.Stream, &r.Estimated,
		&r.Node, &r.Key, &r.Person, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target, (*string)(&r.Outcome), &r.Fidelity, &text)
	r.Began, r.Took, r.Cost = fromNanos(began), time.Duration(took), money(cost)
	if err == nil {
		err = detail.Decode(&r, text)
	}
	return r, err
}

func moneyArg(m *usage.Money) any {
	if m == nil {
		return nil
	}
	return int64(*m)
}

func money(n sql.NullInt64) *usage.Money {
	if !n.Valid {
		return nil
	}
	return new(usage.Money(n.Int64))
}
