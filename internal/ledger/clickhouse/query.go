package clickhouse

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// conditions are the conditions of a query.
type conditions []string

func (c *conditions) equal(column, value string) {
	if value != "" {
		*c = append(*c, column+" = "+quote(value))
	}
}

func (c *conditions) number(condition string, n int64) {
	*c = append(*c, condition+strconv.FormatInt(n, 10))
}

func (c conditions) text() string {
	if len(c) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c, " AND ")
}

// labelValue is the expression of a label's value; empty: the request does not have the label.
func labelValue(name string) string {
	key, tag := strings.CutPrefix(name, labels.TagPrefix)
	if !tag {
		return "end_user"
	}
	return "tag_values[indexOf(tag_names, " + quote(key) + ")]" // number 0 is empty
}

// refusedCount is the index in counts of the number of refused requests. The table of requests has only some of
// them, to show. So a sum subtracts this number from its number of requests, and reads the number of all refused
// requests from their own table.
const refusedCount = 10

// counts are the columns of a sum. The projections of the table have the same.
func counts() []string {
	list := []string{"count()", "countIf(isNull(cost))", "countIf(estimated = 1)", "sum(input)", "sum(cache_read)", "sum(cache_write)", "sum(output)", "sum(reasoning)", "sum(ifNull(cost, 0))",
		"countIf(outcome IN ('failed', 'lost'))", "countIf(outcome = 'refused')"}
	low := int64(0)
	for _, bound := range usage.HistogramBounds() {
		list = append(list, fmt.Sprintf("countIf(first_token > %d AND first_token <= %d)", low, int64(bound)))
		low = int64(bound)
	}
	return append(list, fmt.Sprintf("countIf(first_token > %d)", low))
}

// Usage sums the requests. The result is ordered by its groups.
func (d *DB) Usage(ctx context.Context, q store.UsageQuery) (sums []store.Sum, err error) {
	by, err := columnsOf(q.GroupBy)
	if err != nil {
		return nil, err
	}
	byHour := slices.Contains(by, hourColumn)
	sums, err = d.sums(ctx, &q, by, spansOf(&q, byHour, true))
	if isUnknownSetting(err) {
		sums, err = d.sums(ctx, &q, by, spansOf(&q, byHour, false))
	}
	if isTooWide(err) || err == nil && len(sums) > store.MaxGroups {
		return nil, store.ErrTooWide
	}
	if err == nil && len(sums) > 0 {
		err = d.addUnits(ctx, &q, by, sums)
	}
	if err != nil {
		return nil, err
	}
	return d.addRefused(ctx, &q, by, sums)
}

// sums returns the sums of parts of the time.
func (d *DB) sums(ctx context.Context, q *store.UsageQuery, by []string, spans []span) (sums []store.Sum, err error) {
	settings := url.Values{}
	if slices.ContainsFunc(spans, func(s span) bool { return s.sign < 0 }) {
		settings.Set("enable_shared_storage_snapshot_in_query", "1")          // all parts must see the same rows; since version 25.6
		settings.Set("max_rows_to_group_by", strconv.Itoa(2*store.MaxGroups)) // hours outside of the range may have groups of their own
	}
	err = d.query(ctx, usageQuery(q, by, spans), store.MaxGroups+1, settings, func(row []jsontext.Value) error {
		sum, err := scanSum(row, q.GroupBy)
		sums = append(sums, sum)
		return err
	})
	return sums, err
}

// usageQuery returns the query of sums by columns. Each span is a part of it, so that each is answered from the
// smallest projection.
func usageQuery(q *store.UsageQuery, by []string, spans []span) string {
	where := filterOf(q)
	var columns, outer, names []string
	for i, column := range by {
		names = append(names, "g"+strconv.Itoa(i))
		columns = append(columns, column+" AS "+names[i])
	}
	outer = slices.Clone(names)
	requests := fmt.Sprintf("sum(sign * (c0 - c%d))", refusedCount)
	for i, count := range counts() {
		sum := fmt.Sprintf("sum(sign * c%d)", i)
		switch i {
		case 0:
			sum = requests
		case refusedCount:
			sum = "0"
		}
		columns, outer = append(columns, fmt.Sprintf("%s AS c%d", count, i)), append(outer, sum)
	}
	group := ""
	if len(by) > 0 {
		group = " GROUP BY " + strings.Join(names, ", ")
	}
	var parts []string
	for _, span := range spans {
		parts = append(parts, fmt.Sprintf("SELECT toInt8(%d) AS sign, ", span.sign)+strings.Join(columns, ", ")+" FROM requests"+append(slices.Clip(where), span.where...).text()+group)
	}
	query := "SELECT " + strings.Join(outer, ", ") + " FROM (" + strings.Join(parts, " UNION ALL ") + ")" + group
	if len(by) > 0 {
		query += " HAVING " + requests + " > 0 ORDER BY " + strings.Join(names, ", ") + " LIMIT " + strconv.Itoa(store.MaxGroups+1)
	}
	return query
}

// filterOf returns the conditions of a question about sums, other than time.
func filterOf(q *store.UsageQuery) (where conditions) {
	where.equal("org", q.Org)
	where.equal("team", q.Team)
	where.equal("key_id", q.Key)
	where.equal("model", q.Model)
	where.equal("target", q.Target)
	where.labels(q.User, q.Tag)
	return where
}

// isTooWide reports whether the server has ended a query because of its groups.
func isTooWide(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Code: 158.") // TOO_MANY_ROWS
}

func isUnknownSetting(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Code: 115.") // UNKNOWN_SETTING
}

// span is a part of a range of time. Its sums are added, or with the sign -1 subtracted.
type span struct {
	where conditions
	sign  int
}

// spansOf returns the parts of a range of time, which is rounded to the hour: whole days, and the hours before and
// after them. By hour it has one part. With subtract it takes a day of which the range has more than half, and
// subtracts the other hours: what has no sums by hour is read from rows, and these are fewer.
func spansOf(q *store.UsageQuery, byHour, subtract bool) (list []span) {
	add := func(sign int, column string, from, to int64, open bool) {
		var c conditions
		if from > 0 {
			c.number(column+" >= ", from)
		}
		if !open {
			c.number(column+" < ", to)
		}
		list = append(list, span{c, sign})
	}
	const hour, day, half = int64(time.Hour), 24, 12
	from, to, open := int64(0), int64(0), q.To.IsZero()
	if !q.From.IsZero() {
		from = nanos(q.From) / hour
	}
	if !open {
		to = nanos(q.To.Add(time.Hour-1)) / hour
	}
	start, end := (from+day-1)/day, to/day
	if subtract && day*start-from > half {
		start--
	}
	if subtract && !open && to-day*end > half {
		end++
	}
	if byHour || !open && start >= end {
		add(1, hourColumn, from, to, open)
		return list
	}
	add(1, dayColumn, start, end, open)
	switch {
	case from < day*start:
		add(1, hourColumn, from, day*start, false)
	case from > day*start:
		add(-1, hourColumn, day*start, from, false)
	}
	switch {
	case open:
	case day*end < to:
		add(1, hourColumn, day*end, to, false)
	case day*end > to:
		add(-1, hourColumn, to, day*end, false)
	}
	return list
}

func (c *conditions) labels(user string, tag usage.Tag) {
	if user != "" {
		c.equal(labelValue(labels.User), user)
	}
	if tag.Key != "" {
		c.equal(labelValue(labels.TagPrefix+tag.Key), tag.Value)
		if tag.Value != "" {
			*c = append(*c, "has(tag_values, "+quote(tag.Value)+")") // for the index
		}
	}
}

const (
	hourColumn = "intDiv(began, 3600000000000)"
	dayColumn  = "intDiv(" + hourColumn + ", 24)"
)

// columns are the columns of a group.
func columns(g store.Group) []string {
	switch g {
	case store.ByHour:
		return []string{hourColumn}
	case store.ByDay:
		return []string{dayColumn}
	case store.ByOrg:
		return []string{"org"}
	case store.ByTeam:
		return []string{"org", "team"}
	case store.ByKey:
		return []string{"key_id"}
	case store.ByModel:
		return []string{"model"}
	case store.ByTarget:
		return []string{"target"}
	default:
		if isLabel(g) {
			return []string{labelValue(string(g))}
		}
		return nil
	}
}

func isLabel(g store.Group) bool {
	return g == store.ByUser || strings.HasPrefix(string(g), labels.TagPrefix)
}

// columnsOf returns the columns of groups, each once.
func columnsOf(groups []store.Group) (list []string, err error) {
	for _, g := range groups {
		of := columns(g)
		if of == nil {
			return nil, store.Error(fmt.Sprintf("usage cannot be grouped by %q; use hour, day, org, team, key, model, target, user or tag:KEY", g))
		}
		for _, column := range of {
			if !slices.Contains(list, column) {
				list = append(list, column)
			}
		}
	}
	if labels := slices.DeleteFunc(slices.Clone(groups), func(g store.Group) bool { return !isLabel(g) }); len(slices.Compact(labels)) > 1 {
		return nil, store.Error("usage is grouped by the end user or by one tag; ask for them one after another, or list the requests")
	}
	if slices.Contains(groups, store.ByHour) && slices.Contains(groups, store.ByDay) {
		return nil, store.Error("usage is grouped by hour or by day, not by both")
	}
	return list, nil
}

func scanSum(row []jsontext.Value, groups []store.Group) (s store.Sum, err error) {
	var cost int64
	dest := []any{&s.Requests, &s.Unknown, &s.Estimated,
		&s.Usage.Input, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Output, &s.Usage.Reasoning, &cost, &s.Errors, &s.Refused}
	for i := range s.FirstToken {
		dest = append(dest, &s.FirstToken[i])
	}
	err = scanGroups(row, groups, &s, dest)
	s.Cost = usage.Money(cost)
	return s, err
}

// scanGroups reads the columns of groups into a sum, and those after them into values.
func scanGroups(row []jsontext.Value, groups []store.Group, s *store.Sum, values []any) error {
	var hour, day int64
	fields := map[string]any{hourColumn: &hour, dayColumn: &day, "org": &s.Org, "team": &s.Team, "key_id": &s.Key, "model": &s.Model, "target": &s.Target}
	by, err := columnsOf(groups)
	if err != nil {
		return err
	}
	var dest []any
	for _, column := range by {
		if fields[column] == nil {
			fields[column] = &s.Label
		}
		dest = append(dest, fields[column])
	}
	err = scan(row, append(dest, values...)...)
	if n := hour + 24*day; n != 0 {
		s.Start = time.Unix(n*3600, 0).UTC()
	}
	return err
}

// Rows returns requests, newest first. It looks at the last hour, then at longer times before it: most pages are
// of the newest requests.
func (d *DB) Rows(ctx context.Context, q store.RowQuery) (rows []usage.Row, err error) {
	if q.Limit <= 0 || q.Limit > store.MaxPerPage {
		q.Limit = store.MaxPerPage
	}
	to := time.Now()
	if !q.To.IsZero() && q.To.Before(to) {
		to = q.To
	}
	if q.Before != nil && q.Before.Began.Before(to) {
		to = q.Before.Began
	}
	if q.ID != "" {
		return d.rows(ctx, &q)
	}
	for span := time.Hour; ; span *= 8 {
		part := q
		whole := span > 2*365*24*time.Hour || !q.From.IsZero() && !to.Add(-span).After(q.From)
		if !whole {
			part.From = to.Add(-span)
		}
		rows, err = d.rows(ctx, &part)
		if err != nil || whole || len(rows) >= q.Limit {
			return rows, err
		}
	}
}

func (d *DB) rows(ctx context.Context, q *store.RowQuery) (rows []usage.Row, err error) {
	var where conditions
	where.equal("id", q.ID)
	if q.ID == "" {
		where = conditionsOf(q)
	}
	query := "SELECT " + store.RowColumns + " FROM requests" + where.text() + " ORDER BY began DESC, id DESC LIMIT " + strconv.Itoa(q.Limit)
	err = d.query(ctx, query, q.Limit, nil, func(row []jsontext.Value) error {
		r, err := store.ScanRow(func(dest ...any) error { return scan(row, dest...) })
		rows = append(rows, r)
		return err
	})
	return rows, err
}

func conditionsOf(q *store.RowQuery) (where conditions) {
	if !q.From.IsZero() {
		where.number("began >= ", nanos(q.From))
	}
	if !q.To.IsZero() {
		where.number("began < ", nanos(q.To))
	}
	where.equal("org", q.Org)
	where.equal("team", q.Team)
	where.equal("key_id", q.Key)
	where.equal("key_id", q.Account)
	where.equal("person", q.Person)
	where.equal("model", q.Model)
	where.equal("target", q.Target)
	where.equal("outcome", string(q.Outcome))
	where.equal("fidelity", q.Fidelity)
	where.labels(q.User, q.Tag)
	if q.Status != 0 {
		where.number("status = ", int64(q.Status))
	}
	if q.MinCost > 0 {
		where.number("cost >= ", int64(q.MinCost))
	}
	if q.MinTook > 0 {
		where.number("took >= ", int64(q.MinTook))
	}
	if b := q.Before; b != nil {
		where = append(where, fmt.Sprintf("(began, id) < (%d, %s)", nanos(b.Began), quote(b.ID)))
		where.number("began <= ", nanos(b.Began))
	}
	return where
}
