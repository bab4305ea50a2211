package retention

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/detail"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/quota/budget"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// sums is a table of sums. Time is its column of time, in units since 1970. Lead is the column before it in
// an index; empty: time is the first. Key is its primary key.
type sums struct {
	table, time, lead string
	unit              time.Duration
	key               string
}

// hourly are the tables that retention.hours is about. A new table of sums needs a line here.
var hourly = []sums{
	{"hours", "hour", "", time.Hour, "hour, org, team, key_id, model, target"},
	{"model_hours", "hour", "", time.Hour, "hour, org, model, target"},
	{"days", "day", "", day, "day, org, team, key_id, model, target"},
	{"model_days", "day", "", day, "day, org, model, target"},
	{"key_days", "day", "", day, "day, org, team, key_id"},
	{"label_hours", "hour", "label", time.Hour, "label, hour, org, value, team, key_id, model, target"},
	{"value_days", "day", "label", day, "label, day, org, value"},
	{"value_model_days", "day", "label", day, "label, day, org, value, model, target"},
	{"unit_hours", "hour", "label", time.Hour, "label, hour, org, value, team, key_id, model, target, unit"},
	{"label_values", "day", "org", day, "org, day, label, value"},
	{"label_days", "day", "org", day, "org, day"},
	{"refusals", "minute", "", time.Minute, "minute, org, team, key_id, reason, log"},
}

// minutes and spent are read by budgets. Minutes go with the rows, because both are only read for the begin
// of a window.
var (
	minutes = sums{"spent_minutes", "minute", "account", time.Minute, "account, minute"}
	spent   = sums{"spent", "hour", "account", time.Hour, "account, hour"}
)

// Portions are as large as a transaction of this time allows: appends to the ledger wait for it.
const (
	portionTime  = 15 * time.Millisecond
	firstPortion = 64
	maxPortion   = 4096
)

// portionSize is the number of rows of the next portion.
type portionSize struct{ rows int64 }

// next adapts the size to the time that a portion has taken.
func (p *portionSize) next(took time.Duration) {
	switch {
	case took > 2*portionTime:
		p.rows = max(1, p.rows/4)
	case took > portionTime:
		p.rows = max(1, p.rows/2)
	case took < portionTime/2:
		p.rows = min(maxPortion, p.rows*2)
	}
}

// portions runs transactions that delete up to a number of rows each, until one deletes fewer. After each
// it rests for at least as long as it took.
func (r *run) portions(ctx context.Context, name string, do func(ctx context.Context, c db.Conn, limit int64) (int64, error)) error {
	for {
		if err := r.extend(ctx); err != nil {
			return err
		}
		limit, n := r.size.rows, int64(0)
		start := time.Now()
		if err := r.o.Store.Write(ctx, func(ctx context.Context, c db.Conn) (err error) {
			n, err = do(ctx, c, limit)
			return err
		}); err != nil {
			r.size.rows = max(1, limit/4) // it may have taken too long
			return err
		}
		took := time.Since(start)
		if n > 0 {
			r.deleted[name] += n
		}
		if n < limit {
			return nil
		}
		r.size.next(took)
		select {
		case <-time.After(max(took, time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deleteRows deletes rows that no partition takes with it, with their labels.
func (r *run) deleteRows(ctx context.Context, before int64) error {
	before, err := r.ownRows(ctx, before)
	if err != nil {
		return err
	}
	old := r.deleted["rows"]
	err = r.portions(ctx, "rows", func(ctx context.Context, c db.Conn, limit int64) (int64, error) {
		return deleteOldest(ctx, c, before, limit)
	})
	r.rows.Add(r.deleted["rows"] - old)
	return err
}

// deleteHours deletes sums. It keeps the sums of hours that still have rows, because lists find rows by
// these sums, and the sums of spending within a budget's window.
func (r *run) deleteHours(ctx context.Context, reach time.Time) error {
	before := r.now.Add(-r.policy.Hours)
	var first sql.NullInt64
	if err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT min(began) FROM requests`)(&first)
	}); err != nil {
		return err
	}
	if first.Valid {
		before = earlier(before, time.Unix(0, first.Int64))
	}
	for _, s := range hourly {
		if err := r.deleteSums(ctx, s, before.UnixNano()); err != nil {
			return err
		}
	}
	return r.deleteSums(ctx, spent, earlier(before, reach).UnixNano())
}

// deleteSums deletes the sums of a table that end before a time.
func (r *run) deleteSums(ctx context.Context, s sums, before int64) error {
	limit := before / int64(s.unit)
	old := r.deleted[s.table]
	defer func() { r.sums.Add(r.deleted[s.table] - old) }()
	if s.lead == "" {
		return r.deletePart(ctx, s, "", limit)
	}
	for lead := ""; ; {
		var next sql.NullString
		if err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
			return c.Row(ctx, `SELECT min(`+s.lead+`) FROM `+s.table+` WHERE `+s.lead+` > $1`, lead)(&next)
		}); err != nil || !next.Valid {
			return err
		}
		lead = next.String
		if err := r.deletePart(ctx, s, lead, limit); err != nil {
			return err
		}
	}
}

// deletePart deletes the sums with a value of the lead.
func (r *run) deletePart(ctx context.Context, s sums, lead string, before int64) error {
	from := ` FROM ` + s.table + ` WHERE ` + s.time + ` < $1`
	args := []any{before}
	if s.lead != "" {
		from += ` AND ` + s.lead + ` = $2`
		args = append(args, lead)
	}
	if s == spent {
		from += ` AND hour > 0`
	}
	found := 0 // most have nothing, and a read locks nothing
	err := r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT 1`+from+` LIMIT 1`, args...)(&found)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.portions(ctx, s.table, func(ctx context.Context, c db.Conn, limit int64) (n int64, err error) {
		if s == spent {
			return foldSpent(ctx, c, from, args, limit, lead)
		}
		err = c.Rows(ctx, func(db.Scan) error { n++; return nil }, s.deleteSome(from, limit)+` RETURNING 1`, args...)
		return n, err
	})
}

// foldSpent adds sums to the one of hour 0, which budgets without a window count.
func foldSpent(ctx context.Context, c db.Conn, from string, args []any, limit int64, account string) (n int64, err error) {
	var requests, unknown, cost int64
	err = c.Rows(ctx, func(row db.Scan) error {
		var a, b, d int64
		err := row(&a, &b, &d)
		n, requests, unknown, cost = n+1, requests+a, unknown+b, cost+d
		return err
	}, spent.deleteSome(from, limit)+` RETURNING requests, unknown, cost`, args...)
	if err != nil || n == 0 {
		return n, err
	}
	return n, c.Exec(ctx, `INSERT INTO spent (account, hour, requests, unknown, cost) VALUES ($1, 0, $2, $3, $4) ON CONFLICT (account, hour) DO UPDATE SET
		requests = spent.requests + excluded.requests, unknown = spent.unknown + excluded.unknown, cost = spent.cost + excluded.cost`, account, requests, unknown, cost)
}

// deleteSome returns a statement that deletes some rows.
func (s sums) deleteSome(from string, limit int64) string {
	return `DELETE FROM ` + s.table + ` WHERE (` + s.key + `) IN (SELECT ` + s.key + from + ` LIMIT ` + strconv.FormatInt(limit, 10) + `)`
}

// longestWindow returns the longest window of a budget. A budget without one is counted by spent.
func (r *run) longestWindow(ctx context.Context) (longest time.Duration, err error) {
	for _, w := range r.policy.Windows {
		longest = max(longest, w)
	}
	err = r.o.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		for _, table := range []string{"keys", "teams", "orgs"} {
			if err := c.Rows(ctx, func(row db.Scan) error {
				var window int64
				var list budget.List
				if err := row(&window, &list); err != nil {
					return err
				}
				more, err := list.Budgets()
				if err != nil {
					return nil //nolint:nilerr // an invalid list is not counted by anything
				}
				longest = max(longest, time.Duration(window))
				for _, b := range more {
					longest = max(longest, b.Window)
				}
				return nil
			}, `SELECT DISTINCT budget_window, substr(budgets, 1, 256) FROM `+table+` WHERE budget_window > 0 OR budgets <> ''`); err != nil {
				return err
			}
		}
		return nil
	})
	return longest, err
}

// deleteOldest deletes the oldest rows before a time and their labels, up to a number. Sums stay.
func deleteOldest(ctx context.Context, c db.Conn, before, limit int64) (n int64, err error) {
	type label struct {
		labels.Label
		began int64
		id    string
	}
	var list []label
	err = c.Rows(ctx, func(row db.Scan) error {
		var began int64
		var id, text string
		if err := row(&began, &id, &text); err != nil {
			return err
		}
		var r usage.Row
		if err := detail.Decode(&r, text); err != nil {
			c.Log.Warn("a row of the ledger is invalid; it is deleted without its labels", "request", id)
		}
		for _, l := range labels.Of(&r.Labels) {
			list = append(list, label{l, began, id})
		}
		n++
		return nil
	}, `DELETE FROM requests WHERE (began, id) IN (SELECT began, id FROM requests WHERE began < $1 ORDER BY began, id LIMIT $2) RETURNING began, id, detail`, before, limit)
	for i := 0; i < len(list) && err == nil; i++ {
		l := &list[i]
		err = c.Exec(ctx, `DELETE FROM labels WHERE label = $1 AND value = $2 AND began = $3 AND request_id = $4`, l.Name, l.Value, l.began, l.id)
	}
	return n, err
}
