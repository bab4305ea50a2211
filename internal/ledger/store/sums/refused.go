package sums

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
)

// refusalColumns are the columns that the table refusals shares with the tables of sums. Others are empty there.
var refusalColumns = []column{orgColumn, teamColumn, keyColumn}

// CountsRefused reports whether the sums of a query can have refused requests: these have no model, target or label to
// filter by.
func (q *Query) CountsRefused() bool {
	return q.Model+q.Target+q.User+q.Tag.Key == ""
}

// readRefused returns the counts of refused requests by the groups of a query.
func (q *Query) readRefused(ctx context.Context, c db.Conn, by groups) (list []Sum, err error) {
	if !q.CountsRefused() {
		return nil, nil
	}
	var w db.Where
	from, to := q.hours()
	w.Add("minute >= ", 60*from)
	if !q.To.IsZero() {
		w.Add("minute < ", 60*to)
	}
	filter := q.filter(labels.Label{})
	for _, column := range refusalColumns {
		w.AddIf(filter[column] != "", column.String()+" = ", filter[column])
	}
	var columns []string
	for _, column := range by.columns {
		switch {
		case column == atColumn && by.per > 1:
			columns = append(columns, "minute / 1440 AS at")
		case column == atColumn:
			columns = append(columns, "minute / 60 AS at")
		case slices.Contains(refusalColumns, column):
			columns = append(columns, column.String())
		default:
			columns = append(columns, "'' AS "+column.String())
		}
	}
	query := `SELECT ` + strings.Join(append(columns, "count"), ", ") + ` FROM refusals` + w.Text()
	names := by.names()
	query = `SELECT ` + strings.Join(append(names, "CAST(COALESCE(sum(count), 0) AS BIGINT)"), ", ") + ` FROM (` + query + `) parts`
	if len(names) > 0 {
		query += ` GROUP BY ` + strings.Join(names, ", ") + ` LIMIT ` + w.Arg(int64(MaxGroups+1))
	}
	err = c.Rows(ctx, func(row db.Scan) error {
		var s Sum
		var at int64
		err := row(append(by.dest(&s, &at), &s.Refused)...)
		s.Start = by.start(at)
		list = append(list, s)
		return err
	}, query, w.Args...)
	return list, err
}

// AddRefused adds the counts of refused requests to the sums of a result, which has the same groups. It keeps the
// order by these.
func AddRefused(list, refused []Sum, groups []Group) []Sum {
	places := make(map[Place]int, len(list))
	for i := range list {
		places[list[i].Place()] = i
	}
	before := len(list)
	for i := range refused {
		r := &refused[i]
		if at, ok := places[r.Place()]; ok {
			list[at].Refused += r.Refused
		} else if r.Refused > 0 {
			list = append(list, *r)
		}
	}
	if len(list) > before {
		slices.SortStableFunc(list, func(a, b Sum) int {
			for _, g := range groups {
				if order := g.compare(&a, &b); order != 0 {
					return order
				}
			}
			return 0
		})
	}
	return list
}

// compare compares two sums by a group.
func (g Group) compare(a, b *Sum) int {
	switch g {
	case ByHour, ByDay:
		return a.Start.Compare(b.Start)
	case ByOrg:
		return cmp.Compare(a.Org, b.Org)
	case ByTeam:
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Team, b.Team))
	case ByKey:
		return cmp.Compare(a.Key, b.Key)
	case ByModel:
		return cmp.Compare(a.Model, b.Model)
	case ByTarget:
		return cmp.Compare(a.Target, b.Target)
	}
	return cmp.Compare(a.Label, b.Label)
}
