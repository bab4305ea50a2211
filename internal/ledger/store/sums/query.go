package sums

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Group is a column to group usage by.
type Group string

// The groups.
const (
	ByHour   Group = "hour"
	ByDay    Group = "day" // of UTC
	ByOrg    Group = "org"
	ByTeam   Group = "team" // and its organisation
	ByKey    Group = "key"
	ByModel  Group = "model"
	ByTarget Group = "target"
	ByUser   Group = labels.User // end user
)

// ByTag returns the group of a tag.
func ByTag(key string) Group { return Group(labels.TagPrefix + key) }

// Query selects usage. An empty field selects all. From is inclusive, To exclusive; both are
// rounded to the hour, From down and To up.
type Query struct {
	From, To                      time.Time
	Org, Team, Key, Model, Target string
	User                          string
	Tag                           usage.Tag
	GroupBy                       []Group // empty: one sum
}

// Sum is the usage of a group. Fields that it is not grouped by are zero.
type Sum struct {
	Start                         time.Time // of the hour or day
	Org, Team, Key, Model, Target string
	Label                         string // the tag or the end user; empty: requests without one
	Requests                      int64
	Unknown                       int64 // requests with unknown cost, not included in Cost
	Estimated                     int64 // requests with estimated tokens
	Errors                        int64 // requests that failed or were lost
	Refused                       int64 // requests that the gateway refused, which Requests does not have
	Usage                         llm.Usage
	Cost                          usage.Money
	FirstToken                    usage.Histogram // times to the first token of streams
}

// Place is what a sum is grouped by.
type Place struct {
	start                                int64
	org, team, key, model, target, label string
}

// Place returns what the sum is grouped by. It differs between the sums of a result.
func (s *Sum) Place() Place {
	return Place{s.Start.Unix(), s.Org, s.Team, s.Key, s.Model, s.Target, s.Label}
}

// MaxGroups bounds the size of a result.
const MaxGroups = 10_000

// ErrTooWide reports a result with too many groups.
const ErrTooWide = db.Error("the result has more than 10,000 groups; narrow the time range or group by less")

// Read returns the sums of a query, ordered by its groups.
func (q *Query) Read(ctx context.Context, c db.Conn) (list []Sum, err error) {
	by, err := groupsOf(q.GroupBy)
	if err != nil {
		return nil, err
	}
	l, err := q.label()
	if err != nil {
		return nil, err
	}
	var w db.Where
	query := `SELECT ` + by.list("", "CAST(COALESCE(sum(", "), 0) AS BIGINT)") + ` FROM (` + q.from(&w, l, by) + `) parts`
	if names := by.names(); len(names) > 0 {
		groups := strings.Join(names, ", ")
		query += ` GROUP BY ` + groups + ` HAVING sum(requests) > 0 ORDER BY ` + groups + ` LIMIT ` + w.Arg(int64(MaxGroups+1))
	}
	err = c.Rows(ctx, func(row db.Scan) error {
		sum, err := by.scan(row)
		list = append(list, sum)
		return err
	}, query, w.Args...)
	if err == nil && len(list) > 0 && len(list) <= MaxGroups {
		err = q.readUnits(ctx, c, by, l, list)
	}
	if err != nil {
		return nil, err
	}
	refused, err := q.readRefused(ctx, c, by)
	if list = AddRefused(list, refused, q.GroupBy); len(list) > MaxGroups || len(refused) > MaxGroups {
		return nil, ErrTooWide
	}
	return list, err
}

// hours returns the range of time in hours since 1970, its end exclusive.
func (q *Query) hours() (from, to int64) {
	from, to = HourOf(q.From), math.MaxInt64
	if !q.To.IsZero() {
		to = HourOf(q.To.Add(time.Hour - 1))
	}
	return from, to
}

// filter returns the values that the columns must have; empty: any.
func (q *Query) filter(l labels.Label) [columnCount]string {
	return [...]string{l.Name, l.Value, q.Org, q.Team, q.Key, q.Model, q.Target}
}

// label returns the label that a query groups by or filters by. Without a value it is grouped by all of
// them.
func (q *Query) label() (l labels.Label, err error) {
	all := labels.Of(&usage.Labels{User: q.User, Tags: q.tags()})
	for _, g := range q.GroupBy {
		if isLabel(g) {
			all = append(all, labels.Label{Name: string(g)})
		}
	}
	for _, other := range all {
		if l.Name != "" && other.Name != l.Name {
			return l, db.Error("usage has sums by the end user or by one tag; ask for them one after another, or list the requests")
		}
		l = labels.Label{Name: other.Name, Value: cmp.Or(l.Value, other.Value)}
	}
	return l, nil
}

// tags returns the tag of the filter, or nothing.
func (q *Query) tags() []usage.Tag {
	if q.Tag.Key == "" {
		return nil
	}
	return []usage.Tag{q.Tag}
}

func isLabel(g Group) bool { return g == ByUser || strings.HasPrefix(string(g), labels.TagPrefix) }

// from returns the query for the sums that are added. The sums by a label are followed by those of the
// requests without it: all requests less the ones with it.
func (q *Query) from(w *db.Where, l labels.Label, by groups) string {
	all := func() string { return q.parts(w, allTables, by, labels.Label{}) }
	switch {
	case l.Name == "":
		return all()
	case l.Value != "":
		return q.parts(w, labelTables, by, l)
	}
	// The sums with the label are needed twice, so they are made once.
	return `WITH labelled AS (SELECT ` + by.list("", "sum(", ")") + ` FROM (` + q.parts(w, labelTables, by, l) + `) parts GROUP BY ` + strings.Join(by.names(), ", ") + `)
		SELECT * FROM labelled UNION ALL ` + all() + ` UNION ALL SELECT ` + by.list("''", "-", "") + ` FROM labelled`
}

// parts returns the query for the sums of the range of time: of its whole days from sums by day, and of the
// hours before and after them from sums by hour. It reads the first table of each that has all columns.
func (q *Query) parts(w *db.Where, tables []table, by groups, l labels.Label) string {
	filter := q.filter(l)
	first := func(per int64) *table {
		for i := range tables {
			if t := &tables[i]; t.per == per && t.has(by, filter) {
				return t
			}
		}
		return nil
	}
	from, to := q.hours()
	hours, days := first(1), first(24)
	start, end := (from+23)/24, to/24
	if days == nil || by.per == 1 || start >= end {
		return hours.part(w, by, filter, from, to)
	}
	list := []string{days.part(w, by, filter, 24*start, 24*end)}
	if from < 24*start {
		list = append(list, hours.part(w, by, filter, from, 24*start))
	}
	if 24*end < to && !q.To.IsZero() {
		list = append(list, hours.part(w, by, filter, 24*end, to))
	}
	return strings.Join(list, ` UNION ALL `)
}

// has reports whether the table has the columns of groups and of a filter. Tables without labels have an empty
// value of each.
func (t *table) has(by groups, filter [columnCount]string) bool {
	for c := range columnCount {
		wanted := filter[c] != "" || c != valueColumn && slices.Contains(by.columns, c)
		if wanted && !slices.Contains(t.by, c) {
			return false
		}
	}
	return true
}

// part returns the query for the sums of a range of hours.
func (t *table) part(w *db.Where, by groups, filter [columnCount]string, from, to int64) string {
	w.Conditions = nil
	w.Add(t.at+" >= ", from/t.per)
	w.Add(t.at+" < ", to/t.per)
	for c, value := range filter {
		w.AddIf(value != "", column(c).String()+" = ", value)
	}
	var columns []string
	for _, name := range by.names() {
		switch {
		case name == "at" && t.per < by.per:
			name = "hour / 24 AS at" // both databases have integer division
		case name == "at":
			name = t.at + " AS at"
		case name == valueColumn.String() && !slices.Contains(t.by, valueColumn):
			name = "'' AS value"
		}
		columns = append(columns, name)
	}
	return `SELECT ` + strings.Join(append(columns, countColumns[:]...), ", ") + ` FROM ` + t.name + w.Text()
}

// groups are what usage is grouped by.
type groups struct {
	per     int64    // hours: 1, 24, or 0 without groups of time
	columns []column // -1 is the place of the time
}

const atColumn column = -1

// groupsOf returns the columns of groups, each once.
func groupsOf(list []Group) (by groups, err error) {
	known := map[Group][]column{ByHour: {atColumn}, ByDay: {atColumn}, ByOrg: {orgColumn}, ByTeam: {orgColumn, teamColumn}, ByKey: {keyColumn}, ByModel: {modelColumn}, ByTarget: {targetColumn}}
	for _, g := range list {
		if isLabel(g) {
			known[g] = []column{valueColumn}
		}
		if known[g] == nil {
			return by, db.Error(fmt.Sprintf("usage cannot be grouped by %q; use hour, day, org, team, key, model, target, user or tag:KEY", g))
		}
		if per := map[Group]int64{ByHour: 1, ByDay: 24}[g]; per > 0 {
			if by.per > 0 && by.per != per {
				return by, db.Error("usage is grouped by hour or by day, not by both")
			}
			by.per = per
		}
		for _, c := range known[g] {
			if !slices.Contains(by.columns, c) {
				by.columns = append(by.columns, c)
			}
		}
	}
	return by, nil
}

// names returns the names of the columns.
func (by groups) names() (names []string) {
	for _, c := range by.columns {
		if c == atColumn {
			names = append(names, "at")
		} else {
			names = append(names, c.String())
		}
	}
	return names
}

// list returns the columns, and the counts with a text before and after each. value is written in place of the
// column of that name, unless it is empty.
func (by groups) list(value, before, after string) string {
	list := by.names()
	for i, name := range list {
		if value != "" && name == valueColumn.String() {
			list[i] = value
		}
	}
	for _, name := range countColumns {
		list = append(list, before+name+after+" AS "+name)
	}
	return strings.Join(list, ", ")
}

// scan reads a sum.
func (by groups) scan(row db.Scan) (s Sum, err error) {
	var at int64
	dest := append(by.dest(&s, &at), &s.Requests, &s.Unknown, &s.Estimated,
		&s.Usage.Input, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Output, &s.Usage.Reasoning, &s.Cost, &s.Errors, &s.Refused)
	for i := range s.FirstToken {
		dest = append(dest, &s.FirstToken[i])
	}
	err = row(dest...)
	s.Start = by.start(at)
	return s, err
}

// dest returns where the columns of groups are read to.
func (by groups) dest(s *Sum, at *int64) (dest []any) {
	fields := [...]any{valueColumn: &s.Label, orgColumn: &s.Org, teamColumn: &s.Team, keyColumn: &s.Key, modelColumn: &s.Model, targetColumn: &s.Target}
	for _, c := range by.columns {
		if c == atColumn {
			dest = append(dest, at)
		} else {
			dest = append(dest, fields[c])
		}
	}
	return dest
}

// start returns the time of an hour or a day.
func (by groups) start(at int64) time.Time { return db.FromNanos(at * by.per * int64(time.Hour)) }
