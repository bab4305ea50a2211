package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// convertLedger moves the rows of the old tables into the new one and drops the old ones, in the
// transaction of the migration. Sums stay as they are.
func convertLedger(ctx context.Context, c db.Conn) error {
	const portion = 500
	for after := (RowMark{}); ; {
		rows, err := oldRows(ctx, c, after, portion)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			break
		}
		if err := insertRows(ctx, c, rows, nil); err != nil {
			return err
		}
		after = RowMark{rows[len(rows)-1].Began, rows[len(rows)-1].ID}
	}
	for _, table := range []string{"old_requests", "old_attempts", "old_labels"} {
		if err := c.Exec(ctx, `DROP TABLE `+table); err != nil {
			return err
		}
	}
	return nil
}

// oldRows returns rows of the old tables, oldest first.
func oldRows(ctx context.Context, c db.Conn, after RowMark, limit int64) (rows []usage.Row, err error) {
	err = c.Rows(ctx, func(row db.Scan) error {
		var r usage.Row
		var began, took int64
		var cost sql.NullInt64
		u := &r.Usage
		err := row(&r.ID, &began, &took, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &cost, &r.Status, &r.Stream, &r.Estimated,
			&r.Node, &r.Key, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target, &r.Outcome)
		r.Began, r.Took, r.Cost = fromNanos(began), time.Duration(took), money(cost)
		rows = append(rows, r)
		return err
	}, `SELECT id, began, took, input, cache_read, cache_write, output, reasoning, cost, status, stream, estimated,
		node, key_id, team, org, endpoint, dialect, model, target, outcome FROM old_requests
		WHERE (began, id) > ($1, $2) ORDER BY began, id LIMIT $3`, nanos(after.Began), after.ID, limit)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var w db.Where
	places, ids := make(map[string]int, len(rows)), make([]string, len(rows))
	for i := range rows {
		places[rows[i].ID], ids[i] = i, w.Arg(rows[i].ID)
	}
	in := ` WHERE request_id IN (` + strings.Join(ids, ", ") + `) ORDER BY request_id, `
	err = c.Rows(ctx, func(row db.Scan) error {
		var id string
		var began, took int64
		var cost sql.NullInt64
		var a usage.Attempt
		u := &a.Usage
		err := row(&id, &began, &took, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &cost, &a.Status, &a.Charged, &a.Target, &a.Fault)
		a.Began, a.Took, a.Cost = fromNanos(began), time.Duration(took), money(cost)
		r := &rows[places[id]]
		r.Attempts = append(r.Attempts, a)
		return err
	}, `SELECT request_id, began, took, input, cache_read, cache_write, output, reasoning, cost, status, charged, target, fault FROM old_attempts`+in+`n`, w.Args...)
	if err != nil {
		return nil, err
	}
	return rows, c.Rows(ctx, func(row db.Scan) error {
		var id string
		var l labels.Label
		err := row(&id, &l.Name, &l.Value)
		r := &rows[places[id]]
		if key, ok := strings.CutPrefix(l.Name, labels.TagPrefix); ok {
			r.Tags = append(r.Tags, usage.Tag{Key: key, Value: l.Value})
		} else {
			r.User = l.Value
		}
		return err
	}, `SELECT request_id, label, value FROM old_labels`+in+`label`, w.Args...)
}
