package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// spentKey is a row of the tables spent and spent_minutes, hoursKey one of hours.
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

// total is what rows come to.
type total struct {
	requests, unknown, estimated int64
	usage                        llm.Usage
	cost                         int64
}

func (t *total) add(r usage.Row) {
	t.requests++
	if r.Cost != nil {
		t.cost += int64(*r.Cost)
	} else {
		t.unknown++
	}
	if r.Estimated {
		t.estimated++
	}
	t.usage.Input += r.Usage.Input
	t.usage.CacheRead += r.Usage.CacheRead
	t.usage.CacheWrite += r.Usage.CacheWrite
	t.usage.Output += r.Usage.Output
	t.usage.Reasoning += r.Usage.Reasoning
}

func hourOf(t time.Time) int64   { return nanos(t) / int64(time.Hour) }
func minuteOf(t time.Time) int64 { return nanos(t) / int64(time.Minute) }

// accounts are those that a row is charged to, written as quota writes them.
func accounts(r usage.Row) []string {
	var list []string
	if r.Key != "" {
		list = append(list, "key:"+r.Key)
	}
	if r.Team != "" {
		list = append(list, "team:"+r.Org+"/"+r.Team)
	}
	if r.Org != "" {
		list = append(list, "org:"+r.Org)
	}
	return list
}

// addSums adds rows to the sums. Sums are written in a fixed order, for the same
// reason as rows.
func addSums(ctx context.Context, c conn, rows []usage.Row) error {
	hours, spent, minutes := map[hoursKey]*total{}, map[spentKey]*total{}, map[spentKey]*total{}
	for _, r := range rows {
		hour := hourOf(r.Began)
		at(hours, hoursKey{r.Org, hour, r.Team, r.Key, r.Model, r.Target}).add(r)
		for _, account := range accounts(r) {
			at(spent, spentKey{account, hour}).add(r)
			if !isKey(account) {
				at(minutes, spentKey{account, minuteOf(r.Began)}).add(r)
			}
		}
	}
	if err := addHours(ctx, c, hours); err != nil {
		return err
	}
	if err := addMinutes(ctx, c, minutes); err != nil {
		return err
	}
	return addSpent(ctx, c, spent)
}

// isKey reports whether an account is a key's. There are many of them, and their
// rows are found by an index.
func isKey(account string) bool { return strings.HasPrefix(account, "key:") }

func at[K comparable](m map[K]*total, k K) *total {
	if m[k] == nil {
		m[k] = &total{}
	}
	return m[k]
}

func addHours(ctx context.Context, c conn, sums map[hoursKey]*total) error {
	in := insert{
		head: `INSERT INTO hours (org, hour, team, key_id, model, target, requests, unknown, estimated, input, cache_read, cache_write, output, reasoning, cost) VALUES `,
		tail: ` ON CONFLICT (org, hour, team, key_id, model, target) DO UPDATE SET requests = hours.requests + excluded.requests,
			unknown = hours.unknown + excluded.unknown, estimated = hours.estimated + excluded.estimated,
			input = hours.input + excluded.input, cache_read = hours.cache_read + excluded.cache_read, cache_write = hours.cache_write + excluded.cache_write,
			output = hours.output + excluded.output, reasoning = hours.reasoning + excluded.reasoning, cost = hours.cost + excluded.cost`,
	}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b hoursKey) int {
		return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.hour, b.hour), cmp.Compare(a.team, b.team),
			cmp.Compare(a.key, b.key), cmp.Compare(a.model, b.model), cmp.Compare(a.target, b.target))
	}) {
		t := sums[k]
		in.rows = append(in.rows, []any{k.org, k.hour, k.team, k.key, k.model, k.target, t.requests, t.unknown, t.estimated,
			t.usage.Input, t.usage.CacheRead, t.usage.CacheWrite, t.usage.Output, t.usage.Reasoning, t.cost})
	}
	return in.run(ctx, c)
}

func addSpent(ctx context.Context, c conn, sums map[spentKey]*total) error {
	in := insert{
		head: `INSERT INTO spent (account, hour, requests, unknown, cost) VALUES `,
		tail: ` ON CONFLICT (account, hour) DO UPDATE SET requests = spent.requests + excluded.requests, unknown = spent.unknown + excluded.unknown, cost = spent.cost + excluded.cost`,
	}
	for _, k := range inOrder(sums) {
		t := sums[k]
		in.rows = append(in.rows, []any{k.account, k.at, t.requests, t.unknown, t.cost})
	}
	return in.run(ctx, c)
}

func addMinutes(ctx context.Context, c conn, sums map[spentKey]*total) error {
	in := insert{
		head: `INSERT INTO spent_minutes (account, minute, cost) VALUES `,
		tail: ` ON CONFLICT (account, minute) DO UPDATE SET cost = spent_minutes.cost + excluded.cost`,
	}
	for _, k := range inOrder(sums) {
		in.rows = append(in.rows, []any{k.account, k.at, sums[k].cost})
	}
	return in.run(ctx, c)
}

func inOrder(sums map[spentKey]*total) []spentKey {
	return slices.SortedFunc(maps.Keys(sums), func(a, b spentKey) int {
		return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.at, b.at))
	})
}
