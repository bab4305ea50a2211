package clickhouse

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// table returns the table of requests. Rows of an organisation and an hour are together. The server recognises a
// block that is inserted again, among the last 10,000. The sums by hour and day are projections: a part of the table
// has its own, so they never differ from its rows, and the server reads the smallest that answers a question. The
// indexes let a list of rare requests skip nearly all rows.
func table() string {
	const day = dayColumn + ", org, "
	return tableHead + projection("model_hours", hourColumn+", org, model, target") + projection("key_hours", hourColumn+", org, team, key_id") + projection("hours", hourColumn+", org, team, key_id, model, target") +
		projection("key_days", day+"team, key_id") + projection("days", day+"team, key_id, model, target") +
		projection("user_days", day+"model, target, end_user") + projection("user_key_days", day+"team, key_id, end_user") +
		projection("tag_hours", hourColumn+", org, tag_names, tag_values") + projection("tag_team_hours", hourColumn+", org, team, tag_names, tag_values") +
		projection("tag_days", day+"tag_names, tag_values, model, target") + projection("tag_key_days", day+"team, key_id, tag_names, tag_values") + tableTail
}

// projection returns the sums by columns.
func projection(name, by string) string {
	return ",\n\tPROJECTION " + name + " (SELECT " + by + ", " + strings.Join(counts(), ", ") + " GROUP BY " + by + ")"
}

const tableHead = `CREATE TABLE IF NOT EXISTS requests (
	began Int64, id String, took Int64,
	input Int64, cache_read Int64, cache_write Int64, output Int64, reasoning Int64, cost Nullable(Int64),
	status Int64, stream UInt8, estimated UInt8,
	node LowCardinality(String), key_id String, person String, team LowCardinality(String), org LowCardinality(String),
	endpoint LowCardinality(String), dialect LowCardinality(String), model LowCardinality(String), target LowCardinality(String),
	outcome LowCardinality(String), fidelity LowCardinality(String), first_token Int64,
	end_user String, tag_names Array(LowCardinality(String)), tag_values Array(String), units Map(LowCardinality(String), Int64), detail String,
	log LowCardinality(String), partition Int64, position Int64,
	INDEX by_id id TYPE bloom_filter(0.001) GRANULARITY 1,
	INDEX by_began began TYPE minmax GRANULARITY 1,
	INDEX by_key key_id TYPE bloom_filter(0.01) GRANULARITY 1, INDEX by_person person TYPE bloom_filter(0.01) GRANULARITY 1,
	INDEX by_user end_user TYPE bloom_filter(0.01) GRANULARITY 1, INDEX by_units mapKeys(units) TYPE bloom_filter(0.01) GRANULARITY 1, INDEX by_tag tag_values TYPE bloom_filter(0.01) GRANULARITY 1,
	INDEX by_model model TYPE set(100) GRANULARITY 1, INDEX by_target target TYPE set(100) GRANULARITY 1, INDEX by_outcome outcome TYPE set(10) GRANULARITY 1,
	INDEX by_status status TYPE set(20) GRANULARITY 1, INDEX by_fidelity fidelity TYPE set(10) GRANULARITY 1,
	INDEX by_cost cost TYPE minmax GRANULARITY 1, INDEX by_took took TYPE minmax GRANULARITY 1`

const tableTail = `
) ENGINE = MergeTree
PARTITION BY toYYYYMM(toDateTime(intDiv(began, 1000000000), 'UTC'))
ORDER BY (org, intDiv(began, 3600000000000), team, key_id, began, id)
SETTINGS non_replicated_deduplication_window = 10000`

// unitColumn adds the column of units to a table of an older release.
const unitColumn = "ALTER TABLE requests ADD COLUMN IF NOT EXISTS units Map(LowCardinality(String), Int64) AFTER tag_values, " +
	"ADD INDEX IF NOT EXISTS by_units mapKeys(units) TYPE bloom_filter(0.01) GRANULARITY 1"

// Create creates the tables that are not there, and adds what a table of an older release lacks.
func (d *DB) Create(ctx context.Context) error {
	for _, statement := range []string{table(), unitColumn, refusalTable} {
		if _, err := d.call(ctx, statement, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Row is a row with its place in the log of its gateway.
type Row struct {
	usage.Row
	Log      string
	Position int64
}

// extra has the columns that only this table has.
type extra struct {
	FirstToken int64            `json:"first_token"`
	User       string           `json:"end_user"`
	Names      []string         `json:"tag_names"`
	Values     []string         `json:"tag_values"`
	Units      map[string]int64 `json:"units,omitzero"` // amounts of the units without a column, by key
	Log        string           `json:"log"`
	Partition  int              `json:"partition"`
	Position   int64            `json:"position"`
}

// Insert inserts a block. The token identifies it: a block with a known token changes nothing.
func (d *DB) Insert(ctx context.Context, token string, partition int, rows []Row) error {
	data, err := encode(partition, rows)
	if err != nil {
		return err
	}
	// One block of the insert must be one block of the table, or the token would name several.
	most := strconv.Itoa(max(1_048_576, len(rows)+1))
	_, err = d.call(ctx, insertQuery, data, url.Values{"insert_deduplicate": {"1"}, "insert_deduplication_token": {token}, "async_insert": {"0"},
		"max_insert_block_size": {most}, "min_insert_block_size_rows": {most}, "min_insert_block_size_bytes": {"0"}, "max_partitions_per_insert_block": {"0"}})
	return err
}

const insertQuery = "INSERT INTO requests FORMAT JSONEachRow"

// encode returns rows as JSON, one on each line.
func encode(partition int, rows []Row) (data []byte, err error) {
	for i := range rows {
		r := bounds.Row(rows[i].Row)
		more := extra{FirstToken: int64(r.FirstToken), User: r.User, Units: usage.MapOf(r.Usage.Other, usage.Key), Log: rows[i].Log, Partition: partition, Position: rows[i].Position}
		for _, tag := range r.Tags {
			more.Names, more.Values = append(more.Names, tag.Key), append(more.Values, tag.Value)
		}
		line, err := json.Marshal(&more, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		data = append(data, '{')
		for n, value := range store.RowValues(&r) {
			data = append(appendValue(append(append(append(data, '"'), columnNames[n]...), `":`...), value), ',')
		}
		data = append(append(data, line[1:]...), '\n')
	}
	return data, nil
}

// columnNames are the names of store.RowValues.
var columnNames = strings.FieldsFunc(store.RowColumns, func(c rune) bool { return unicode.IsSpace(c) || c == ',' })

// appendValue appends a value of store.RowValues as JSON.
func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		b, _ = jsontext.AppendQuote(b, v) // what is no UTF-8 is replaced
	case int64:
		b = strconv.AppendInt(b, v, 10)
	case bool:
		if v {
			return append(b, '1')
		}
		return append(b, '0')
	default:
		b = append(b, "null"...)
	}
	return b
}

func nanos(t time.Time) int64 {
	if t.Year() < 1970 {
		return 0
	}
	return t.UnixNano()
}

// Positions returns the positions of the last events of logs that the table has in a partition, among events
// since a time.
func (d *DB) Positions(ctx context.Context, partition int, logs []string, since time.Time) (map[string]int64, error) {
	at := map[string]int64{}
	quoted := make([]string, len(logs))
	for i, log := range logs {
		quoted[i] = quote(log)
	}
	query := fmt.Sprintf(`SELECT log, max(position) FROM requests WHERE partition = %d AND began >= %d AND log IN (%s) GROUP BY log`, partition, nanos(since), strings.Join(quoted, ", "))
	return at, d.query(ctx, query, len(logs), nil, func(row []jsontext.Value) error {
		var log string
		var position int64
		err := scan(row, &log, &position)
		at[log] = position
		return err
	})
}
