package store

import (
	"context"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/partition"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// RowQuery selects rows of the ledger. An empty field selects all. From is inclusive, To exclusive.
type RowQuery struct {
	ID                            string // of one request
	From, To                      time.Time
	Org, Team, Key, Model, Target string
	Person                        string // name of a person
	Account                       string // key of a person, in addition to Key
	User                          string
	Tag                           usage.Tag
	Outcome                       usage.Outcome
	Status                        int
	Fidelity                      string
	MinCost                       usage.Money // unknown costs are less
	MinTook                       time.Duration
	Before                        *RowMark // last row of the previous page; nil: the first page
	Limit                         int
}

// exact is the fidelity of most requests.
const exact = "exact"

// RowMark is the end of a page.
type RowMark struct {
	Began time.Time
	ID    string
}

// Rows returns rows of the ledger, newest first.
func (s *Store) Rows(ctx context.Context, q RowQuery) (rows []usage.Row, err error) {
	q.Limit = int(clampLimit(q.Limit))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		rows = nil
		if q.ID != "" {
			rows, err = find(ctx, c, q.ID)
			return err
		}
		parts, err := q.parts(ctx, c)
		for i := 0; i < len(parts) && err == nil && len(rows) < q.Limit; i++ {
			parts[i].Limit -= len(rows)
			rows, err = parts[i].read(ctx, c, rows)
		}
		return err
	})
	return rows, err
}

// parts returns queries for the parts of time, newest first, in which rows may be: the hours in which the
// sums have such requests. Queries that an index answers are one part.
func (q *RowQuery) parts(ctx context.Context, c db.Conn) (parts []RowQuery, err error) {
	indexed := q.Key+q.Account+q.Person+q.User+q.Tag.Key != ""
	if indexed || q.Org == "" && q.Model == "" && q.Target == "" && q.MinCost <= 0 && q.MinTook <= 0 {
		return []RowQuery{*q}, nil
	}
	var w db.Where
	w.AddIf(!q.From.IsZero(), "hour >= ", hourOf(q.From))
	w.AddIf(!q.To.IsZero(), "hour <= ", hourOf(q.To))
	if q.Before != nil {
		w.Add("hour <= ", hourOf(q.Before.Began))
	}
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Model != "", "model = ", q.Model)
	w.AddIf(q.Target != "", "target = ", q.Target)
	w.AddIf(q.MinCost > 0, "dearest >= ", int64(q.MinCost))
	w.AddIf(q.MinTook > 0, "longest >= ", int64(q.MinTook))
	if q.Org != "" && q.Team != "" {
		w.Conditions = append(w.Conditions, `hour IN (SELECT hour FROM spent WHERE account = `+w.Arg(usage.Account{Kind: usage.TeamAccount, Org: q.Org, ID: q.Team}.Name())+`)`)
	}
	next := int64(-1)
	err = c.Rows(ctx, func(row db.Scan) error {
		var hour int64
		if err := row(&hour); err != nil {
			return err
		}
		from, to := fromNanos(hour*int64(time.Hour)), fromNanos((hour+1)*int64(time.Hour))
		if hour != next {
			parts = append(parts, *q)
			if last := &parts[len(parts)-1]; last.To.IsZero() || to.Before(last.To) {
				last.To = to
			}
		}
		if last := &parts[len(parts)-1]; from.After(q.From) {
			last.From = from
		} else {
			last.From = q.From
		}
		next = hour - 1
		return nil
	}, `SELECT hour FROM model_hours`+w.Text()+q.refusedHours(&w)+` ORDER BY hour DESC`, w.Args...)
	return parts, err
}

// refusedHours returns the part of a query for the hours that have refused requests. Sums do not have these. Rows of
// some model or target are not distinguished: an hour too many is only searched in vain.
func (q *RowQuery) refusedHours(w *db.Where) string {
	if q.Outcome != "" && q.Outcome != usage.Refused || q.Target != "" || q.MinCost > 0 {
		return ` UNION SELECT hour FROM model_hours WHERE FALSE` // it makes the hours distinct
	}
	w.Conditions = nil
	w.AddIf(!q.From.IsZero(), "minute >= ", 60*hourOf(q.From))
	w.AddIf(!q.To.IsZero(), "minute < ", 60*hourOf(q.To)+60)
	if q.Before != nil {
		w.Add("minute < ", 60*hourOf(q.Before.Began)+60)
	}
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	return ` UNION SELECT minute / 60 AS hour FROM refusals` + w.Text()
}

// read appends the rows of the query.
func (q *RowQuery) read(ctx context.Context, c db.Conn, rows []usage.Row) ([]usage.Row, error) {
	var w db.Where
	from, began, id := rowsFrom(&w, q)
	to := q.To
	if q.Before != nil { // a time alone bounds the search in the index; SQLite does not take it from a pair
		to = q.Before.Began.Add(1)
	}
	w.AddIf(!q.From.IsZero(), began+" >= ", nanos(q.From))
	w.AddIf(!to.IsZero(), began+" < ", nanos(to))
	q.where(&w)
	if q.Before != nil {
		w.Conditions = append(w.Conditions, "("+began+", "+id+") < ("+w.Arg(nanos(q.Before.Began))+", "+w.Arg(q.Before.ID)+")")
	}
	query := `SELECT ` + RowColumns + ` FROM ` + from + w.Text() + ` ORDER BY ` + began + ` DESC, ` + id + ` DESC LIMIT ` + w.Arg(int64(q.Limit))
	err := c.Rows(ctx, func(row db.Scan) error {
		r, err := ScanRow(row)
		rows = append(rows, r)
		return err
	}, query, w.Args...)
	return rows, err
}

// where adds the conditions other than time.
func (q *RowQuery) where(w *db.Where) {
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	w.AddIf(q.Key != "", "key_id = ", q.Key)
	w.AddIf(q.Account != "", "key_id = ", q.Account)
	w.AddIf(q.Person != "", "person <> '' AND person = ", q.Person)
	w.AddIf(q.Model != "", "model = ", q.Model)
	w.AddIf(q.Target != "", "target = ", q.Target)
	// The first of two conditions is that of an index.
	w.AddIf(q.Outcome == usage.Answered, "outcome = ", string(q.Outcome))
	w.AddIf(q.Outcome != "" && q.Outcome != usage.Answered, "outcome <> 'answered' AND outcome = ", string(q.Outcome))
	w.AddIf(q.Status == http.StatusOK, "status = ", int64(q.Status))
	w.AddIf(q.Status != 0 && q.Status != http.StatusOK, "status <> 200 AND status = ", int64(q.Status))
	w.AddIf(q.Fidelity == exact, "fidelity = ", q.Fidelity)
	w.AddIf(q.Fidelity != "" && q.Fidelity != exact, "fidelity <> 'exact' AND fidelity = ", q.Fidelity)
	w.AddIf(q.MinCost > 0, "cost >= ", int64(q.MinCost))
	w.AddIf(q.MinTook > 0, "took >= ", int64(q.MinTook))
}

// find returns the row with an id. It searches one partition after the other, because a part does not say
// which partition it is in.
func find(ctx context.Context, c db.Conn, id string) (rows []usage.Row, err error) {
	ranges, err := partition.Ranges(ctx, c)
	for i := 0; i < len(ranges) && err == nil && len(rows) == 0; i++ {
		args, within := []any{id}, "TRUE"
		if len(ranges) > 1 {
			args, within = append(args, ranges[i].From, ranges[i].To), "began >= $2 AND began < $3"
		}
		err = c.Rows(ctx, func(row db.Scan) error {
			r, err := ScanRow(row)
			rows = append(rows, r)
			return err
		}, findRow(within), args...)
	}
	return rows, err
}

// findRow returns the query for the row with an id. It asks the index of each part of 4,096 rows, the newest
// first: an index by id alone would be written all over, because ids have no order. In SQLite the words CROSS
// JOIN keep the order of the tables; it would read all requests otherwise.
func findRow(within string) string {
	return `WITH RECURSIVE parts(part) AS (
		SELECT max(n / 4096) FROM requests WHERE ` + within + `
		UNION ALL SELECT part - 1 FROM parts WHERE part > (SELECT min(n / 4096) FROM requests WHERE ` + within + `))
	SELECT ` + RowColumns + ` FROM parts CROSS JOIN requests WHERE n / 4096 = part AND id = $1 AND ` + within + ` LIMIT 1`
}

// rowsFrom returns the tables of a query and the columns of the time and the id. The index of a label
// has its requests in the order of time, so that a page of them reads no others.
func rowsFrom(w *db.Where, q *RowQuery) (from, began, id string) {
	from, began, id = `requests`, `began`, `id`
	for i, l := range labels.Of(&usage.Labels{User: q.User, Tags: tagList(q.Tag)}) {
		is := `label = ` + w.Arg(l.Name) + ` AND value = ` + w.Arg(l.Value)
		if i == 0 {
			from, began, id = `(SELECT request_id, began AS at FROM labels WHERE `+is+`) labelled JOIN requests ON began = at AND id = request_id`, `at`, `request_id`
		} else {
			w.Conditions = append(w.Conditions, `EXISTS (SELECT 1 FROM labels l WHERE l.began = requests.began AND l.request_id = requests.id AND `+is+`)`)
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
