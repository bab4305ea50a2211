package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store/db"
	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// spentKey identifies a row of the tables spent and spent_minutes, hoursKey one of hours.
type (
	spentKey struct {
		account string
		at      int64 // the hour or the minute
	}
	hoursKey struct {
		org                      string
		hour                     int64
		team, key, model, target string
	}
)

// sums is the sum of rows.
type sums struct {
	requests, unknown, estimated int64
	usage                        llm.Usage
	cost                         int64
	errors, refused              int64
	firstToken                   usage.Histogram
	longest, dearest             int64
}

func (t *sums) add(r *usage.Row) {
	t.requests++
	if r.Cost != nil {
		t.cost += int64(*r.Cost)
		t.dearest = max(t.dearest, int64(*r.Cost))
	} else {
		t.unknown++
	}
	if r.Estimated {
		t.estimated++
	}
	switch r.Outcome {
	case usage.Failed, usage.Lost:
		t.errors++
	case usage.Refused:
		t.refused++
	}
	t.firstToken.Add(r.FirstToken)
	t.longest = max(t.longest, int64(r.Took))
	t.usage.Input += r.Usage.Input
	t.usage.CacheRead += r.Usage.CacheRead
	t.usage.CacheWrite += r.Usage.CacheWrite
	t.usage.Output += r.Usage.Output
	t.usage.Reasoning += r.Usage.Reasoning
}

func hourOf(t time.Time) int64   { return nanos(t) / int64(time.Hour) }
func minuteOf(t time.Time) int64 { return nanos(t) / int64(time.Minute) }

// addSums adds rows to the sums, in a fixed order like the rows.
func addSums(ctx context.Context, c db.Conn, log string, rows []usage.Row) error {
	if err := addHourSums(ctx, c, rows); err != nil {
		return err
	}
	return addBalances(ctx, c, []usage.Batch{{Log: log, Rows: rows}})
}

// addHourSums adds rows to the sums by hour.
func addHourSums(ctx context.Context, c db.Conn, rows []usage.Row) error {
	hours, models, days := map[hoursKey]*sums{}, map[hoursKey]*sums{}, map[hoursKey]*sums{}
	for i := range rows {
		r := &rows[i]
		hour := hourOf(r.Began)
		sumsOf(hours, hoursKey{r.Org, hour, r.Team, r.Key, r.Model, r.Target}).add(r)
		sumsOf(models, hoursKey{org: r.Org, hour: hour, model: r.Model, target: r.Target}).add(r)
		sumsOf(days, hoursKey{org: r.Org, hour: hour / 24, team: r.Team, key: r.Key}).add(r)
	}
	if err := addLabels(ctx, c, rows); err != nil {
		return err
	}
	return addHours(ctx, c, hours, models, days)
}

// addBalances adds rows to the sums of their accounts. The logs are in the order of their names.
func addBalances(ctx context.Context, c db.Conn, batches []usage.Batch) error {
	spent, minutes, logs := map[spentKey]*sums{}, map[spentKey]*sums{}, make([]map[spentKey]*sums, len(batches))
	for n, b := range batches {
		logs[n] = map[spentKey]*sums{}
		for i := range b.Rows {
			r := &b.Rows[i]
			for _, account := range r.Accounts() {
				sumsOf(spent, spentKey{account, hourOf(r.Began)}).add(r)
				sumsOf(logs[n], spentKey{account, 0}).add(r)
				if !isKey(account) {
					sumsOf(minutes, spentKey{account, minuteOf(r.Began)}).add(r)
				}
			}
		}
	}
	if err := addMinutes(ctx, c, minutes); err != nil {
		return err
	}
	for n, b := range batches {
		if err := addLogs(ctx, c, b.Log, logs[n]); err != nil {
			return err
		}
	}
	return addSpent(ctx, c, spent)
}

// isKey reports whether an account is a key's. Keys are many, and an index finds their rows, so
// they have no sums by minute.
func isKey(account string) bool { return strings.HasPrefix(account, "key:") }

func sumsOf[K comparable](m map[K]*sums, k K) *sums {
	if m[k] == nil {
		m[k] = &sums{}
	}
	return m[k]
}

// countColumns are the columns of hours and label_hours that are added.
var countColumns = [...]string{"requests", "unknown", "estimated", "input", "cache_read", "cache_write", "output", "reasoning", "cost",
	"errors", "refused", "token_1", "token_2", "token_3", "token_4", "token_5", "token_6", "token_7", "token_8"}

// addCounts returns the statement that adds counts to the row of a table with the same key. The columns most
// have the maximum.
func addCounts(table, key string, most ...string) db.Insert {
	counts := countColumns[:]
	set := make([]string, len(counts))
	for i, name := range counts {
		set[i] = name + " = " + table + "." + name + " + excluded." + name
	}
	for _, name := range most {
		set = append(set, name+" = CASE WHEN "+table+"."+name+" < excluded."+name+" THEN excluded."+name+" ELSE "+table+"."+name+" END")
	}
	counts = slices.Concat(counts, most)
	return db.Insert{
		Head: `INSERT INTO ` + table + ` (` + key + `, ` + strings.Join(counts, ", ") + `) VALUES `,
		Tail: ` ON CONFLICT (` + key + `) DO UPDATE SET ` + strings.Join(set, ", "),
	}
}

func addHours(ctx context.Context, c db.Conn, hours, models, days map[hoursKey]*sums) error {
	in := addCounts("hours", "org, hour, team, key_id, model, target")
	for _, k := range slices.SortedFunc(maps.Keys(hours), hoursKey.compare) {
		in.Rows = append(in.Rows, hours[k].args(k.org, k.hour, k.team, k.key, k.model, k.target))
	}
	if err := in.Run(ctx, c); err != nil {
		return err
	}
	in = addCounts("model_hours", "hour, org, model, target", "longest", "dearest")
	for _, k := range slices.SortedFunc(maps.Keys(models), hoursKey.compare) {
		in.Rows = append(in.Rows, append(models[k].args(k.hour, k.org, k.model, k.target), models[k].longest, models[k].dearest))
	}
	if err := in.Run(ctx, c); err != nil {
		return err
	}
	in = addCounts("key_days", "day, org, team, key_id")
	for _, k := range slices.SortedFunc(maps.Keys(days), hoursKey.compare) {
		in.Rows = append(in.Rows, days[k].args(k.hour, k.org, k.team, k.key))
	}
	return in.Run(ctx, c)
}

func (k hoursKey) compare(o hoursKey) int {
	return cmp.Or(cmp.Compare(k.org, o.org), cmp.Compare(k.hour, o.hour), cmp.Compare(k.team, o.team),
		cmp.Compare(k.key, o.key), cmp.Compare(k.model, o.model), cmp.Compare(k.target, o.target))
}

// args returns the arguments of a row: its key, and the counts.
func (t *sums) args(key ...any) []any {
	out := append(append(make([]any, 0, len(key)+len(countColumns)), key...), t.requests, t.unknown, t.estimated,
		t.usage.Input, t.usage.CacheRead, t.usage.CacheWrite, t.usage.Output, t.usage.Reasoning, t.cost, t.errors, t.refused)
	for _, n := range t.firstToken {
		out = append(out, n)
	}
	return out
}

func addSpent(ctx context.Context, c db.Conn, sums map[spentKey]*sums) error {
	in := db.Insert{
		Head: `INSERT INTO spent (account, hour, requests, unknown, cost) VALUES `,
		Tail: ` ON CONFLICT (account, hour) DO UPDATE SET requests = spent.requests + excluded.requests, unknown = spent.unknown + excluded.unknown, cost = spent.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(sums) {
		t := sums[k]
		in.Rows = append(in.Rows, []any{k.account, k.at, t.requests, t.unknown, t.cost})
	}
	return in.Run(ctx, c)
}

func addMinutes(ctx context.Context, c db.Conn, sums map[spentKey]*sums) error {
	in := db.Insert{
		Head: `INSERT INTO spent_minutes (account, minute, cost) VALUES `,
		Tail: ` ON CONFLICT (account, minute) DO UPDATE SET cost = spent_minutes.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(sums) {
		in.Rows = append(in.Rows, []any{k.account, k.at, sums[k].cost})
	}
	return in.Run(ctx, c)
}

func addLogs(ctx context.Context, c db.Conn, log string, sums map[spentKey]*sums) error {
	in := db.Insert{
		Head: `INSERT INTO log_spent (account, log, cost) VALUES `,
		Tail: ` ON CONFLICT (account, log) DO UPDATE SET cost = log_spent.cost + excluded.cost`,
	}
	for _, k := range sortedKeys(sums) {
		if cost := sums[k].cost; cost > 0 {
			in.Rows = append(in.Rows, []any{k.account, log, cost})
		}
	}
	return in.Run(ctx, c)
}

func sortedKeys(sums map[spentKey]*sums) []spentKey {
	return slices.SortedFunc(maps.Keys(sums), func(a, b spentKey) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.at, b.at))
	})
}
