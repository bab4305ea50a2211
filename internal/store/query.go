package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/store/db"
	"github.com/isogloss-gateway/isogloss/internal/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Spent returns what an account has spent since each of several times, and in each log. All of it
// is of one moment.
func (s *Store) Spent(ctx context.Context, account string, since ...time.Time) (out quota.Spent, err error) {
	var w db.Where
	parts := []string{`SELECT -1, log, cost FROM log_spent WHERE account = ` + w.Arg(account)}
	for i, from := range since {
		sum, err := spentQuery(&w, account, from)
		if err != nil {
			return out, err
		}
		parts = append(parts, `SELECT `+strconv.Itoa(i)+`, '', CAST(COALESCE(sum(cost), 0) AS BIGINT) FROM (`+sum+`) parts`)
	}
	out.Since = make([]usage.Money, len(since))
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		out.Logs = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var n, cost int64
			var log string
			if err := row(&n, &log, &cost); err != nil {
				return err
			}
			cost = max(0, cost) // a negative sum would raise a budget
			if n < 0 {
				out.Logs = append(out.Logs, usage.Total{Log: log, Account: account, Spent: usage.Money(cost)})
			} else if n < int64(len(since)) {
				out.Since[n] = usage.Money(cost)
			}
			return nil
		}, strings.Join(parts, ` UNION ALL `), w.Args...)
	})
	return out, err
}

// spentQuery returns a query for the costs of an account's requests since a time. Whole hours, and
// whole minutes of teams and organisations, come from the sums; only the rest comes from the rows.
func spentQuery(w *db.Where, account string, since time.Time) (string, error) {
	from, to := nanos(since), roundUp(since, time.Hour)
	parts := []string{`SELECT cost FROM spent WHERE account = ` + w.Arg(account) + ` AND hour >= ` + w.Arg(to/int64(time.Hour))}
	if minute := roundUp(since, time.Minute); from < to {
		parts = append(parts, `SELECT cost FROM spent_minutes WHERE account = `+w.Arg(account)+
			` AND minute >= `+w.Arg(minute/int64(time.Minute))+` AND minute < `+w.Arg(to/int64(time.Minute)))
		if !isKey(account) { // keys have sums by minute of those requests only that have no rows
			to = minute
		}
	}
	if from < to {
		w.Conditions = nil
		if err := addAccount(w, account); err != nil {
			return "", err
		}
		w.Add("began >= ", from)
		w.Add("began < ", to)
		parts = append(parts, `SELECT cost FROM requests`+w.Text())
	}
	return strings.Join(parts, ` UNION ALL `), nil
}

// roundUp rounds a time up to an hour or a minute.
func roundUp(t time.Time, unit time.Duration) int64 {
	return (nanos(t) + int64(unit) - 1) / int64(unit) * int64(unit)
}

// addAccount selects the requests of an account.
func addAccount(w *db.Where, account string) error {
	what, id, _ := strings.Cut(account, ":")
	switch what {
	case "key":
		w.Add("key_id = ", id)
	case "team":
		org, team, _ := strings.Cut(id, "/")
		w.Add("org = ", org)
		w.Add("team = ", team)
	case "org":
		w.Add("org = ", id)
	default:
		return Error(fmt.Sprintf("account %q is none of key:ID, team:ORG/TEAM and org:ORG", account))
	}
	return nil
}

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

// UsageQuery selects usage. An empty field selects all. From is inclusive, To exclusive; both are
// rounded to the hour, From down and To up.
type UsageQuery struct {
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
	Refused                       int64 // requests that the gateway refused
	Usage                         llm.Usage
	Cost                          usage.Money
	FirstToken                    usage.Histogram // times to the first token of streams
}

// maxGroups bounds the size of a result.
const maxGroups = 10_000

// Usage sums the ledger. The result is ordered by its groups.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (sums []Sum, err error) {
	by, err := columnsOf(q.GroupBy)
	if err != nil {
		return nil, err
	}
	l, err := q.label()
	if err != nil {
		return nil, err
	}
	var w db.Where
	query := `SELECT ` + strings.Join(append(slices.Clone(by), sumColumns()...), ", ") + ` FROM ` + q.from(&w, l, by)
	if len(by) > 0 {
		list := strings.Join(by, ", ")
		query += ` GROUP BY ` + list + ` HAVING sum(requests) > 0 ORDER BY ` + list + ` LIMIT ` + w.Arg(int64(maxGroups+1))
	}
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		sums = nil
		return c.Rows(ctx, func(row db.Scan) error {
			sum, err := scanSum(row, by)
			sums = append(sums, sum)
			return err
		}, query, w.Args...)
	})
	if err == nil && len(sums) > maxGroups {
		return nil, ErrTooWide
	}
	return sums, err
}

// label returns the label that a query groups by or filters by. Without a value it is grouped by all of
// them.
func (q *UsageQuery) label() (l labels.Label, err error) {
	all := labels.Of(&usage.Labels{User: q.User, Tags: tagList(q.Tag)})
	for _, g := range q.GroupBy {
		if isLabel(g) {
			all = append(all, labels.Label{Name: string(g)})
		}
	}
	for _, other := range all {
		if l.Name != "" && other.Name != l.Name {
			return l, Error("usage has sums by the end user or by one tag; ask for them one after another, or list the requests")
		}
		l = labels.Label{Name: other.Name, Value: cmp.Or(l.Value, other.Value)}
	}
	return l, nil
}

func isLabel(g Group) bool { return g == ByUser || strings.HasPrefix(string(g), labels.TagPrefix) }

// from returns the table of the sums with its conditions. The sums by a label are followed by those of the
// requests without it: all requests less the ones with it.
func (q *UsageQuery) from(w *db.Where, l labels.Label, by []string) string {
	counts := strings.Join(countColumns[:], ", ")
	switch {
	case l.Name == "":
		return `(` + q.all(w, counts) + `) parts`
	case l.Value != "":
		q.where(w)
		w.Add("label = ", l.Name)
		w.Add("value = ", l.Value)
		return `label_hours` + w.Text()
	}
	all := q.all(w, `'' AS value, `+counts)
	q.where(w)
	w.Add("label = ", l.Name)
	// The sums with the label are needed twice, so they are made once, with the columns of the groups only.
	columns, groups := groupColumns(by)
	sums := make([]string, len(countColumns))
	for i, name := range countColumns {
		sums[i] = `sum(` + name + `) AS ` + name
	}
	return `(WITH labelled AS (SELECT ` + columns + `, value, ` + strings.Join(sums, ", ") + ` FROM label_hours` + w.Text() + ` GROUP BY ` + groups + `)
		SELECT org, hour, team, key_id, model, target, value, ` + counts + ` FROM labelled
		UNION ALL ` + all + `
		UNION ALL SELECT org, hour, team, key_id, model, target, '', -` + strings.ReplaceAll(counts, ", ", ", -") + ` FROM labelled) parts`
}

// groupColumns returns the columns of sums that are grouped, with a constant for others, and the list to
// group by.
func groupColumns(by []string) (columns, groups string) {
	var list []string
	group := []string{"value"}
	for _, name := range []string{"org", "hour", "team", "key_id", "model", "target"} {
		switch {
		case slices.Contains(by, name):
			group = append(group, name)
		case name == "hour" && slices.Contains(by, "hour / 24"):
			name = "24 * (hour / 24) AS hour"
			group = append(group, "hour / 24")
		case name == "hour":
			name = "0 AS hour"
		default:
			name = "'' AS " + name
		}
		list = append(list, name)
	}
	return strings.Join(list, ", "), strings.Join(group, ", ")
}

// where sets the conditions of the query.
func (q *UsageQuery) where(w *db.Where) {
	w.Conditions = nil
	w.AddIf(!q.From.IsZero(), "hour >= ", hourOf(q.From))
	w.AddIf(!q.To.IsZero(), "hour < ", hourOf(q.To.Add(time.Hour-1)))
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	w.AddIf(q.Key != "", "key_id = ", q.Key)
	w.AddIf(q.Model != "", "model = ", q.Model)
	w.AddIf(q.Target != "", "target = ", q.Target)
}

// all returns the query for the sums of all requests, from the smallest tables that have what is asked.
func (q *UsageQuery) all(w *db.Where, counts string) string {
	by := func(groups ...Group) bool {
		return slices.ContainsFunc(q.GroupBy, func(g Group) bool { return slices.Contains(groups, g) })
	}
	models := q.Model != "" || q.Target != "" || by(ByModel, ByTarget)
	switch {
	case q.Team == "" && q.Key == "" && !by(ByTeam, ByKey):
		q.where(w)
		return `SELECT org, hour, '' AS team, '' AS key_id, model, target, ` + counts + ` FROM model_hours` + w.Text()
	case models || by(ByHour) || q.From.IsZero() || q.To.IsZero():
		q.where(w)
		return `SELECT org, hour, team, key_id, model, target, ` + counts + ` FROM hours` + w.Text()
	}
	return q.days(w, counts)
}

// days returns the query for sums by key, without models: whole days, and the hours before and after them.
func (q *UsageQuery) days(w *db.Where, counts string) string {
	from, to := hourOf(q.From), hourOf(q.To.Add(time.Hour-1))
	first, last := (from+23)/24, to/24
	last = max(first, last)
	const groups = `SELECT org, hour, team, key_id, model, target, `
	q.where(w)
	w.Conditions = append(w.Conditions, `(hour < `+w.Arg(24*first)+` OR hour >= `+w.Arg(24*last)+`)`)
	hours := groups + counts + ` FROM hours` + w.Text()
	w.Conditions = nil
	w.Add("day >= ", first)
	w.Add("day < ", last)
	w.AddIf(q.Org != "", "org = ", q.Org)
	w.AddIf(q.Team != "", "team = ", q.Team)
	w.AddIf(q.Key != "", "key_id = ", q.Key)
	return hours + ` UNION ALL SELECT org, 24 * day AS hour, team, key_id, '' AS model, '' AS target, ` + counts + ` FROM key_days` + w.Text()
}

// columnsOf returns the columns of groups, each once. Both databases have integer division.
func columnsOf(groups []Group) (columns []string, err error) {
	known := map[Group][]string{ByHour: {"hour"}, ByDay: {"hour / 24"}, ByOrg: {"org"}, ByTeam: {"org", "team"}, ByKey: {"key_id"}, ByModel: {"model"}, ByTarget: {"target"}}
	for _, g := range groups {
		if isLabel(g) {
			known[g] = []string{"value"}
		}
		if known[g] == nil {
			return nil, Error(fmt.Sprintf("usage cannot be grouped by %q; use hour, day, org, team, key, model, target, user or tag:KEY", g))
		}
		for _, column := range known[g] {
			if !slices.Contains(columns, column) {
				columns = append(columns, column)
			}
		}
	}
	if slices.Contains(columns, "hour") && slices.Contains(columns, "hour / 24") {
		return nil, Error("usage is grouped by hour or by day, not by both")
	}
	return columns, nil
}

// sumColumns returns the sums of the counts.
func sumColumns() (list []string) {
	for _, name := range countColumns {
		list = append(list, `CAST(COALESCE(sum(`+name+`), 0) AS BIGINT)`)
	}
	return list
}

func scanSum(row db.Scan, by []string) (s Sum, err error) {
	var hour, day int64
	fields := map[string]any{"hour": &hour, "hour / 24": &day, "org": &s.Org, "team": &s.Team, "key_id": &s.Key, "model": &s.Model, "target": &s.Target, "value": &s.Label}
	var dest []any
	for _, column := range by {
		dest = append(dest, fields[column])
	}
	dest = append(dest, &s.Requests, &s.Unknown, &s.Estimated,
		&s.Usage.Input, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Output, &s.Usage.Reasoning, &s.Cost, &s.Errors, &s.Refused)
	for i := range s.FirstToken {
		dest = append(dest, &s.FirstToken[i])
	}
	err = row(dest...)
	s.Start = fromNanos((hour + 24*day) * int64(time.Hour))
	return s, err
}
