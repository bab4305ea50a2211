package clickhouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// refusalTable is the table of the counts of refused requests. The highest count of a place holds: queries read the table
// with FINAL, which is cheap because it is small.
const refusalTable = `CREATE TABLE IF NOT EXISTS refusals (
	minute Int64, org LowCardinality(String), team LowCardinality(String), key_id String, reason LowCardinality(String),
	log LowCardinality(String), node LowCardinality(String), count Int64
) ENGINE = ReplacingMergeTree(count)
PARTITION BY toYYYYMM(toDateTime(minute * 60, 'UTC'))
ORDER BY (minute, org, team, key_id, reason, log)`

// refusal is a row of the table as JSON.
type refusal struct {
	Minute int64  `json:"minute"`
	Org    string `json:"org"`
	Team   string `json:"team"`
	Key    string `json:"key_id"`
	Reason string `json:"reason"`
	Log    string `json:"log"`
	Node   string `json:"node"`
	Count  int64  `json:"count"`
}

const minute = int64(time.Minute)

// AppendRefusals adds counts of refused requests, and rows of some of them to the table of requests. Sums subtract these.
func (d *DB) AppendRefusals(ctx context.Context, b usage.Refusals) error {
	var data []byte
	for _, c := range store.BoundRefusals(b.Counts) {
		line, err := json.Marshal(&refusal{nanos(c.Minute) / minute, c.Org, c.Team, c.Key, string(c.Reason), c.Log, c.Node, c.Count}, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		data = append(append(data, line...), '\n')
	}
	if len(data) > 0 {
		if _, err := d.call(ctx, "INSERT INTO refusals FORMAT JSONEachRow", data, url.Values{"async_insert": {"0"}, "max_partitions_per_insert_block": {"0"}}); err != nil {
			return err
		}
	}
	return d.insertRefused(ctx, b.Rows)
}

// insertRefused inserts the rows that the table does not have.
func (d *DB) insertRefused(ctx context.Context, rows []usage.Row) error {
	fresh := make(map[string]*usage.Row, len(rows))
	var first, last time.Time
	for i := range rows {
		r := &rows[i]
		fresh[r.ID] = r
		if i == 0 || r.Began.Before(first) {
			first = r.Began
		}
		if r.Began.After(last) {
			last = r.Began
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(fresh)), idsPerQuery) {
		quoted := make([]string, len(ids))
		for i, id := range ids {
			quoted[i] = quote(id)
		}
		var where conditions
		where.number("began >= ", nanos(first))
		where.number("began <= ", nanos(last))
		where = append(where, "id IN ("+strings.Join(quoted, ", ")+")")
		err := d.query(ctx, "SELECT id FROM requests"+where.text(), 2*idsPerQuery, nil, func(row []jsontext.Value) error {
			var id string
			err := scan(row, &id)
			delete(fresh, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	var block []Row
	name := sha256.New()
	for _, id := range slices.Sorted(maps.Keys(fresh)) {
		r := *fresh[id]
		r.Outcome, r.Cost = usage.Refused, new(usage.Money)
		block = append(block, Row{Row: r})
		_, _ = name.Write([]byte(id)) // a hash never fails
	}
	return d.Insert(ctx, "refused/"+hex.EncodeToString(name.Sum(nil)), 0, block)
}

// idsPerQuery bounds the ids of a query, whose text is limited.
const idsPerQuery = 500

// Refusals returns the refused requests by key and reason, those with the most first.
func (d *DB) Refusals(ctx context.Context, q store.RefusalQuery) (list []store.Refused, err error) {
	var where conditions
	from, to := q.Minutes()
	where.number("minute >= ", from)
	where.number("minute < ", to)
	where.equal("org", q.Org)
	where.equal("team", q.Team)
	where.equal("key_id", q.Key)
	query := `SELECT org, team, key_id, reason, sum(count) AS n, max(minute) FROM refusals FINAL` + where.text() +
		` GROUP BY org, team, key_id, reason ORDER BY n DESC, org, team, key_id, reason LIMIT ` + strconv.Itoa(store.MaxRefused)
	settings := url.Values{"max_rows_to_group_by": {"0"}}
	err = d.query(ctx, query, store.MaxRefused, settings, func(row []jsontext.Value) error {
		var r store.Refused
		var last int64
		err := scan(row, &r.Org, &r.Team, &r.Key, (*string)(&r.Reason), &r.Count, &last)
		r.Last = time.Unix(0, last*minute).UTC()
		list = append(list, r)
		return err
	})
	if isUnknownTable(err) { // no consumer of this release has created it yet
		return nil, nil
	}
	return list, err
}

// refusedColumn is the expression of a column of a group in the table of refusals.
func refusedColumn(column string) string {
	switch column {
	case hourColumn:
		return "intDiv(minute, 60)"
	case dayColumn:
		return "intDiv(minute, 1440)"
	case "org", "team", "key_id":
		return column
	}
	return "''"
}

// addRefused adds the counts of refused requests to sums.
func (d *DB) addRefused(ctx context.Context, q *store.UsageQuery, by []string, sums []store.Sum) ([]store.Sum, error) {
	if !q.CountsRefused() {
		return sums, nil
	}
	var where conditions
	const hour = int64(time.Hour)
	if !q.From.IsZero() {
		where.number("minute >= ", nanos(q.From)/hour*60)
	}
	if !q.To.IsZero() {
		where.number("minute < ", nanos(q.To.Add(time.Hour-1))/hour*60)
	}
	where.equal("org", q.Org)
	where.equal("team", q.Team)
	where.equal("key_id", q.Key)
	var columns, names []string
	for i, column := range by {
		names = append(names, "g"+strconv.Itoa(i))
		columns = append(columns, refusedColumn(column)+" AS "+names[i])
	}
	query := `SELECT ` + strings.Join(append(columns, "sum(count)"), ", ") + ` FROM refusals FINAL` + where.text()
	if len(names) > 0 {
		query += ` GROUP BY ` + strings.Join(names, ", ")
	}
	var refused []store.Sum
	err := d.query(ctx, query, store.MaxGroups+1, nil, func(row []jsontext.Value) error {
		var s store.Sum
		err := scanGroups(row, q.GroupBy, &s, []any{&s.Refused})
		refused = append(refused, s)
		return err
	})
	switch {
	case isUnknownTable(err):
		return sums, nil
	case isTooWide(err):
		return nil, store.ErrTooWide
	case err != nil:
		return nil, fmt.Errorf("refusals: %w", err)
	}
	if sums = store.AddRefused(sums, refused, q.GroupBy); len(sums) > store.MaxGroups {
		return nil, store.ErrTooWide
	}
	return sums, nil
}

func isUnknownTable(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Code: 60.") // UNKNOWN_TABLE
}
