package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store/db"
	"github.com/isogloss-gateway/isogloss/internal/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/usage"
)

// RowQuery selects rows of the ledger. An empty field selects all. From is inclusive, To exclusive.
type RowQuery struct {
	ID                            string // of one request
	From, To                      time.Time
	Org, Team, Key, Model, Target string
	User                          string
	Tag                           usage.Tag
	Outcome                       usage.Outcome
	Before                        *RowMark // last row of the previous page; nil: the first page
	Limit                         int
}

// RowMark is the end of a page.
type RowMark struct {
	Began time.Time
	ID    string
}

// Rows returns rows of the ledger, newest first.
func (s *Store) Rows(ctx context.Context, q RowQuery) (rows []usage.Row, err error) {
	var w db.Where
	from, began, id := rowsFrom(&w, &q)
	w.AddIf(q.ID != "", "id = ", q.ID)
	w.AddIf(!q.From.IsZero(), began+" >= ", nanos(q.From))
	w.AddIf(!q.To.IsZero(), began+" < ", nanos(q.To))
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	w.AddIf(q.Key != "", "key_id = ", q.Key)
	w.AddIf(q.Model != "", "model = ", q.Model)
	w.AddIf(q.Target != "", "target = ", q.Target)
	w.AddIf(q.Outcome != "", "outcome = ", string(q.Outcome))
	if q.Before != nil {
		w.Conditions = append(w.Conditions, "("+began+", "+id+") < ("+w.Arg(nanos(q.Before.Began))+", "+w.Arg(q.Before.ID)+")")
	}
	query := `SELECT ` + rowColumns + ` FROM ` + from + w.Text() + ` ORDER BY ` + began + ` DESC, ` + id + ` DESC LIMIT ` + w.Arg(clampLimit(q.Limit))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		rows = nil
		err := c.Rows(ctx, func(row db.Scan) error {
			r, err := scanRow(row)
			rows = append(rows, r)
			return err
		}, query, w.Args...)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := readLabels(ctx, c, rows); err != nil {
			return err
		}
		return readAttempts(ctx, c, rows)
	})
	return rows, err
}

// rowsFrom returns the tables of a query and the columns of the time and the id. The index of a label
// has its requests in the order of time, so that a page of them reads no others.
func rowsFrom(w *db.Where, q *RowQuery) (from, began, id string) {
	from, began, id = `requests`, `began`, `id`
	for i, l := range labels.Of(&usage.Labels{User: q.User, Tags: tagList(q.Tag)}) {
		is := `label = ` + w.Arg(l.Name) + ` AND value = ` + w.Arg(l.Value)
		if i == 0 {
			from, began, id = `(SELECT request_id, began AS at FROM labels WHERE `+is+`) labelled JOIN requests ON id = request_id`, `at`, `request_id`
		} else {
			w.Conditions = append(w.Conditions, `EXISTS (SELECT 1 FROM labels WHERE labels.request_id = requests.id AND `+is+`)`)
		}
	}
	return from, began, id
}

// tagList returns the tag of a filter, or nothing.
func tagList(t usage.Tag) []usage.Tag {
	if t.Key == "" {
		return nil
	}
	return []usage.Tag{t}
}

func scanRow(row db.Scan) (r usage.Row, err error) {
	var began, took int64
	var cost sql.NullInt64
	u := &r.Usage
	err = row(&r.ID, &began, &took, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &cost, &r.Status, &r.Stream, &r.Estimated,
		&r.Node, &r.Key, &r.Team, &r.Org, &r.Endpoint, &r.Dialect, &r.Model, &r.Target, &r.Outcome)
	r.Began, r.Took, r.Cost = fromNanos(began), time.Duration(took), money(cost)
	return r, err
}

// readAttempts loads the attempts of rows.
func readAttempts(ctx context.Context, c db.Conn, rows []usage.Row) error {
	w, in, places := whereIn(rows)
	return c.Rows(ctx, func(row db.Scan) error {
		var id string
		var n, began, took int64
		var cost sql.NullInt64
		var a usage.Attempt
		u := &a.Usage
		err := row(&id, &n, &began, &took, &u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning, &cost, &a.Status, &a.Charged, &a.Target, &a.Fault)
		a.Began, a.Took, a.Cost = fromNanos(began), time.Duration(took), money(cost)
		r := &rows[places[id]]
		r.Attempts = append(r.Attempts, a)
		return err
	}, `SELECT `+attemptColumns+` FROM attempts WHERE request_id IN (`+in+`) ORDER BY request_id, n`, w.Args...)
}

// whereIn returns the placeholders of the ids of rows, and the places of the rows by their ids.
func whereIn(rows []usage.Row) (w db.Where, in string, places map[string]int) {
	places = make(map[string]int, len(rows))
	ids := make([]string, len(rows))
	for i := range rows {
		places[rows[i].ID] = i
		ids[i] = w.Arg(rows[i].ID)
	}
	return w, strings.Join(ids, ", "), places
}

func money(n sql.NullInt64) *usage.Money {
	if !n.Valid {
		return nil
	}
	return new(usage.Money(n.Int64))
}
