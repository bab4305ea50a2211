package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Spent is what the requests of an account have cost that began at a time or later.
// Whole hours, and whole minutes of a team or an organisation, are taken from the
// sums; only what is left of the first one is summed from the rows.
func (s *Store) Spent(ctx context.Context, account string, since time.Time) (usage.Money, error) {
	var w where
	parts := []string{`SELECT cost FROM spent WHERE account = ` + w.arg(account)}
	from, to := nanos(since), ceil(since, time.Hour)
	parts[0] += ` AND hour >= ` + w.arg(to/int64(time.Hour))
	if minute := ceil(since, time.Minute); from < to && !isKey(account) {
		parts = append(parts, `SELECT cost FROM spent_minutes WHERE account = `+w.arg(account)+
			` AND minute >= `+w.arg(minute/int64(time.Minute))+` AND minute < `+w.arg(to/int64(time.Minute)))
		to = minute
	}
	if from < to {
		if err := w.account(account); err != nil {
			return 0, err
		}
		w.add("began >= ", from)
		w.add("began < ", to)
		parts = append(parts, `SELECT cost FROM requests`+w.text())
	}
	query := `SELECT CAST(COALESCE(sum(cost), 0) AS BIGINT) FROM (` + strings.Join(parts, ` UNION ALL `) + `) parts`
	var sum int64
	err := s.look(ctx, func(ctx context.Context, c conn) error { return c.row(ctx, query, w.args...).Scan(&sum) })
	return usage.Money(sum), err
}

// ceil is the start of an hour or a minute, at a time or next after it.
func ceil(t time.Time, unit time.Duration) int64 {
	return (nanos(t) + int64(unit) - 1) / int64(unit) * int64(unit)
}

// account wants the requests of one account.
func (w *where) account(account string) error {
	what, id, _ := strings.Cut(account, ":")
	switch what {
	case "key":
		w.add("key_id = ", id)
	case "team":
		org, team, _ := strings.Cut(id, "/")
		w.add("org = ", org)
		w.add("team = ", team)
	case "org":
		w.add("org = ", id)
	default:
		return &Error{fmt.Sprintf("account %q is none of key:ID, team:ORG/TEAM and org:ORG", account)}
	}
	return nil
}

// Group is what usage is summed by.
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
)

// UsageQuery says what is summed. Empty fields want all. From is inclusive and To is
// not; both are taken to the hour, From down and To up.
type UsageQuery struct {
	From, To                      time.Time
	Org, Team, Key, Model, Target string
	GroupBy                       []Group // none: one sum
}

// Sum is the usage of one group. Fields that it is not grouped by are zero.
type Sum struct {
	Start                         time.Time // of the hour or the day
	Org, Team, Key, Model, Target string
	Requests                      int64
	Unknown                       int64 // requests of which the cost is not known, and not in Cost
	Estimated                     int64 // requests of which the tokens were counted here
	Usage                         llm.Usage
	Cost                          usage.Money
}

// mostGroups bounds the memory of an answer.
const mostGroups = 10_000

// Usage sums the ledger. The answer is in the order of its groups.
func (s *Store) Usage(ctx context.Context, q UsageQuery) (sums []Sum, err error) {
	by, err := columnsOf(q.GroupBy)
	if err != nil {
		return nil, err
	}
	var w where
	w.addIf(!q.From.IsZero(), "hour >= ", hourOf(q.From))
	w.addIf(!q.To.IsZero(), "hour < ", hourOf(q.To.Add(time.Hour-1)))
	w.addIf(q.Org != "", "org = ", q.Org)
	w.addIf(q.Team != "", "team = ", q.Team)
	w.addIf(q.Key != "", "key_id = ", q.Key)
	w.addIf(q.Model != "", "model = ", q.Model)
	w.addIf(q.Target != "", "target = ", q.Target)
	query := `SELECT ` + strings.Join(append(slices.Clone(by), sumColumns), ", ") + ` FROM hours` + w.text()
	if len(by) > 0 {
		list := strings.Join(by, ", ")
		query += ` GROUP BY ` + list + ` ORDER BY ` + list + ` LIMIT ` + w.arg(int64(mostGroups+1))
	}
	err = s.look(ctx, func(ctx context.Context, c conn) error {
		return c.rows(ctx, func(row scan) error {
			sum, err := scanSum(row, by)
			sums = append(sums, sum)
			return err
		}, query, w.args...)
	})
	if err == nil && len(sums) > mostGroups {
		return nil, ErrTooWide
	}
	return sums, err
}

// columnsOf are the columns of groups, each once. Both databases divide whole numbers
// without a rest.
func columnsOf(groups []Group) (columns []string, err error) {
	known := map[Group][]string{ByHour: {"hour"}, ByDay: {"hour / 24"}, ByOrg: {"org"}, ByTeam: {"org", "team"}, ByKey: {"key_id"}, ByModel: {"model"}, ByTarget: {"target"}}
	for _, g := range groups {
		if known[g] == nil {
			return nil, &Error{fmt.Sprintf("usage cannot be grouped by %q; use hour, day, org, team, key, model or target", g)}
		}
		for _, column := range known[g] {
			if !slices.Contains(columns, column) {
				columns = append(columns, column)
			}
		}
	}
	if slices.Contains(columns, "hour") && slices.Contains(columns, "hour / 24") {
		return nil, &Error{"usage is grouped by hour or by day, not by both"}
	}
	return columns, nil
}

const sumColumns = `CAST(COALESCE(sum(requests), 0) AS BIGINT), CAST(COALESCE(sum(unknown), 0) AS BIGINT), CAST(COALESCE(sum(estimated), 0) AS BIGINT),
	CAST(COALESCE(sum(input), 0) AS BIGINT), CAST(COALESCE(sum(cache_read), 0) AS BIGINT), CAST(COALESCE(sum(cache_write), 0) AS BIGINT),
	CAST(COALESCE(sum(output), 0) AS BIGINT), CAST(COALESCE(sum(reasoning), 0) AS BIGINT), CAST(COALESCE(sum(cost), 0) AS BIGINT)`

func scanSum(row scan, by []string) (s Sum, err error) {
	var hour, day int64
	fields := map[string]any{"hour": &hour, "hour / 24": &day, "org": &s.Org, "team": &s.Team, "key_id": &s.Key, "model": &s.Model, "target": &s.Target}
	var dest []any
	for _, column := range by {
		dest = append(dest, fields[column])
	}
	dest = append(dest, &s.Requests, &s.Unknown, &s.Estimated,
		&s.Usage.Input, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Output, &s.Usage.Reasoning, &s.Cost)
	err = row(dest...)
	s.Start = fromNanos((hour + 24*day) * int64(time.Hour))
	return s, err
}
