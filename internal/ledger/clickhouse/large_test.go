package clickhouse

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// slowest is the longest that a question of the admin API should take: in time, or on a busy machine in CPU time.
const slowest = time.Second

// largeStart is the time of the first request of a large table, which has 30 days.
var largeStart = time.Date(2026, 10, 10, 0, 0, 0, 0, time.UTC)

const largeTime = 30 * 24 * time.Hour

// largeRows makes requests inside the server: 20 organisations with 5 teams each, 1,000 keys of which the first have
// most of the traffic, each with 3 of 30 models and 2 targets, 10 end users of each key in a quarter of the requests,
// one of 50 tags in a tenth, one of 100 requests failed. Three are rare: nothing else has their values.
const largeRows = `INSERT INTO requests SELECT
	%[1]d + intDiv(number * 2592000000, %[2]d) * 1000000 + number %% 1000000 AS began, toString(generateUUIDv4(number)) AS id, if(rare, 3600000000000, intDiv(h, 7) %% 6000000000) AS took,
	intDiv(h, 11) %% 9000 AS input, intDiv(h, 13) %% 9000 AS cache_read, 0 AS cache_write, intDiv(h, 17) %% 900 AS output, 0 AS reasoning,
	multiIf(rare, 999000000000, failed, 0, input * 250 + output * 1000) AS cost, multiIf(rare, 418, failed, 502, 200) AS status, 1 AS stream, 0 AS estimated, 'gw-' || toString(number %% 3) AS node,
	if(rare, 'person_rare', '0123456789abcdefghi' || toString(k)) AS key_id, multiIf(rare, 'rare@example.org', k %% 50 = 7, 'person-' || toString(k), '') AS person,
	if(rare, 'rare', 'team-' || toString(intDiv(k, 20) %% 5)) AS team, if(rare, 'rare', 'org-' || toString(k %% 20)) AS org, 'chat_completions' AS endpoint, 'openai-chat' AS dialect,
	if(rare, 'rare', 'model-' || toString((k + intDiv(h, 1000000) %% 3) %% 30)) AS model, if(rare, 'rare/rare', 'provider-' || toString(intDiv(h, 10000000) %% 10 = 0) || '/' || model) AS target,
	multiIf(rare, 'lost', failed, 'failed', 'answered') AS outcome, multiIf(rare, 'dropped', intDiv(h, 29) %% 25 = 0, 'approximated', 'exact') AS fidelity, if(failed, 0, intDiv(took, 10)) AS first_token,
	multiIf(rare, 'rare', number %% 4 = 0, 'user-' || toString(k) || '-' || toString(intDiv(h, 23) %% 10), '') AS end_user,
	if(rare OR number %% 10 = 0, ['feature'], []) AS tag_names, multiIf(rare, ['rare'], number %% 10 = 0, ['f' || toString(intDiv(h, 19) %% 50)], []) AS tag_values,
	CAST(map(), 'Map(LowCardinality(String), Int64)') AS units, '{"q":80000,"b":120000000,"t":240000000,"ua":"OpenAI/Python 2.8.1","a":[{"to":"' || target || '","at":80000,"s":200,"i":' || toString(input) || '}]}' AS detail,
	'gw' AS log, 0 AS partition, number + 1 AS position
FROM (SELECT number, cityHash64(number) AS h, least(h %% 1000, intDiv(h, 1000) %% 1000) AS k, intDiv(h, 1000000000) %% 100 = 0 AS failed, number %% intDiv(%[2]d, 3) = intDiv(%[2]d, 6) AS rare FROM numbers(%[3]d, %[4]d))`

// TestLarge asks every question of the admin API about ISOGLOSS_LARGE_ROWS requests of 30 days that the engine has
// made itself. ISOGLOSS_LARGE_FOLDER keeps them for another run.
func TestLarge(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_LARGE_ROWS"))
	if total == 0 {
		t.Skip("ISOGLOSS_LARGE_ROWS is not set; make clickhouse-large sets it")
	}
	d := serve(t, cmp.Or(os.Getenv("ISOGLOSS_LARGE_FOLDER"), t.TempDir()))
	d.client.Timeout = 10 * time.Minute
	d.client.Transport = nil
	fillLarge(t, d, total)
	a := asker{t, d}
	a.lists()
	a.sums()
}

// TestInsertCost measures what the sums cost an insert: the same blocks with and without them, until their parts are
// merged. ISOGLOSS_COST_ROWS is the number of rows.
func TestInsertCost(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_COST_ROWS"))
	if total == 0 {
		t.Skip("ISOGLOSS_COST_ROWS is not set; make clickhouse-large sets it")
	}
	rows := generate(total)
	slices.SortFunc(rows, func(a, b usage.Row) int { return a.Began.Compare(b.Began) })
	for _, block := range []int{5_000, 50_000} {
		for _, create := range []string{tableHead + tableTail, table()} {
			d := serve(t, t.TempDir())
			call := func(query string) string {
				text, err := d.call(t.Context(), query, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimSpace(string(text))
			}
			call("DROP TABLE requests SYNC")
			call(create)
			var blocks [][]Row
			for at, row := range rows {
				if at%block == 0 {
					blocks = append(blocks, nil)
				}
				blocks[at/block] = append(blocks[at/block], Row{Row: row, Log: "log", Position: int64(at + 1)})
			}
			used := engineTime()
			for i, block := range blocks {
				if err := d.Insert(t.Context(), fmt.Sprint("block ", i), 0, block); err != nil {
					t.Fatal(err)
				}
			}
			inserted := engineTime() - used
			call("OPTIMIZE TABLE requests FINAL")
			million := float64(total) / 1e6
			t.Logf("blocks of %d rows, sums %v: %.1f s of CPU for a million rows, with all merges %.1f; parts: %s; sums: %s", block, create == table(), inserted.Seconds()/million, (engineTime()-used).Seconds()/million,
				call("SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = 'requests' FORMAT TabSeparated"), call("SELECT sum(rows), sum(bytes_on_disk) FROM system.projection_parts WHERE active AND table = 'requests' FORMAT TabSeparated"))
		}
	}
}

func fillLarge(t *testing.T, d *DB, total int) {
	t.Helper()
	var have int
	read := func(query string) string {
		text, err := d.call(t.Context(), query, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	read("ALTER TABLE requests MODIFY SETTING old_parts_lifetime = 10") // merged parts would double the space for eight minutes
	have, _ = strconv.Atoi(read("SELECT count() FROM requests FORMAT TabSeparated"))
	const step = 2_500_000
	began, used := time.Now(), engineTime()
	for at := have; at < total; at += step {
		query := fmt.Sprintf(largeRows, largeStart.UnixNano(), total, at, min(step, total-at))
		if _, err := d.call(t.Context(), query, nil, url.Values{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rows in %v, %v of CPU", total-have, time.Since(began).Round(time.Second), (engineTime() - used).Round(time.Second))
	t.Logf("table: rows, bytes, parts: %s", read("SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND table = 'requests' FORMAT TabSeparated"))
	t.Logf("projections: name, rows, bytes:\n%s", read("SELECT name, sum(rows), sum(bytes_on_disk) FROM system.projection_parts WHERE active AND table = 'requests' GROUP BY name ORDER BY name FORMAT TabSeparated"))
	t.Logf("columns: name, bytes:\n%s", read("SELECT name, data_compressed_bytes FROM system.columns WHERE table = 'requests' ORDER BY 2 DESC LIMIT 8 FORMAT TabSeparated"))
}

// asker asks questions and reports their times.
type asker struct {
	t *testing.T
	d *DB
}

func (a asker) ask(name string, question func(context.Context) (int, error)) {
	best, n, used := time.Hour, 0, engineTime()
	for range 2 { // other work on the machine delays some
		if _, err := a.d.call(a.t.Context(), "SYSTEM DROP QUERY CONDITION CACHE", nil, nil); err != nil {
			a.t.Fatal(err)
		}
		start := time.Now()
		var err error
		if n, err = question(a.t.Context()); err != nil {
			a.t.Errorf("%s: %v", name, err)
		}
		best = min(best, time.Since(start))
	}
	cpu := (engineTime() - used) / 2
	late := min(best, cpu) > slowest
	a.t.Logf("%-44s %8.1f ms, %8.1f ms of CPU, %d%s", name, float64(best.Microseconds())/1000, float64(cpu.Milliseconds()), n, map[bool]string{true: "  LATE"}[late])
	if late {
		a.t.Errorf("%s takes %v, %v of CPU", name, best, cpu)
	}
}

// engineTime returns the CPU time of the engine, the child of this process.
func engineTime() (sum time.Duration) {
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return 0
	}
	for _, path := range children {
		list, _ := os.ReadFile(path)
		for _, pid := range strings.Fields(string(list)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			_, rest, _ := strings.Cut(string(stat), ") ")
			if fields := strings.Fields(rest); len(fields) > 12 {
				for _, field := range fields[11:13] { // in ticks of 10 ms
					n, _ := strconv.Atoi(field)
					sum += time.Duration(n) * 10 * time.Millisecond
				}
			}
		}
	}
	return sum
}

func (a asker) lists() {
	key := "0123456789abcdefghi150"
	id := ""
	for _, q := range []store.RowQuery{{}, {Org: "org-1"}, {Org: "org-1", Team: "team-3"}, {Key: key}, {Account: key}, {Model: "model-3"}, {Target: "provider-1/model-3"}, {Person: "person-57"}, {User: "user-150-3"},
		{Tag: usage.Tag{Key: "feature", Value: "f7"}}, {Outcome: usage.Failed}, {Status: 502}, {Fidelity: "approximated"}, {MinCost: 3_100_000}, {MinTook: 5999 * time.Millisecond}, {Key: key, Outcome: usage.Failed},
		{Org: "rare"}, {Key: "person_rare"}, {Model: "rare"}, {Target: "rare/rare"}, {Person: "rare@example.org"}, {User: "rare"}, {Tag: usage.Tag{Key: "feature", Value: "rare"}}, {Outcome: usage.Lost}, {Status: 418},
		{Fidelity: "dropped"}, {MinCost: 900 * usage.Dollar}, {MinTook: time.Hour}, {Model: "none"}, {Status: 599}, {Before: &store.RowMark{Began: largeStart.Add(largeTime / 2)}}} {
		q.From, q.To, q.Limit = largeStart.Add(7*time.Hour), largeStart.Add(largeTime), 100
		a.ask("list "+describe(&q), func(ctx context.Context) (int, error) {
			rows, err := a.d.Rows(ctx, q)
			if len(rows) > 0 {
				id = rows[len(rows)-1].ID
			}
			return len(rows), err
		})
	}
	for _, one := range []string{id, "00000000-0000-4000-8000-000000000000"} {
		a.ask("a request by id", func(ctx context.Context) (int, error) {
			rows, err := a.d.Rows(ctx, store.RowQuery{ID: one, Limit: 1})
			return len(rows), err
		})
	}
}

func describe(q *store.RowQuery) string {
	var list []string
	for _, s := range []string{q.Org, q.Team, q.Key, q.Account, q.Model, q.Target, q.Person, q.User, q.Tag.Value, string(q.Outcome), q.Fidelity} {
		if s != "" {
			list = append(list, s)
		}
	}
	if q.Status+int(q.MinCost)+int(q.MinTook) > 0 {
		list = append(list, fmt.Sprint(q.Status, " ", q.MinCost, " ", q.MinTook))
	}
	return strings.Join(list, " ")
}

func (a asker) sums() {
	from, to := largeStart.Add(7*time.Hour), largeStart.Add(largeTime-5*time.Hour)
	groups := []store.Group{store.ByHour, store.ByDay, store.ByOrg, store.ByTeam, store.ByKey, store.ByModel, store.ByTarget, store.ByUser, store.ByTag("feature")}
	all := [][]store.Group{nil}
	for i, g := range groups {
		all = append(all, []store.Group{g})
		for _, h := range groups[i+1:] {
			if (g != store.ByHour || h != store.ByDay) && (g != store.ByUser || h != store.ByTag("feature")) {
				all = append(all, []store.Group{g, h})
			}
		}
	}
	for _, by := range all {
		for name, q := range map[string]store.UsageQuery{"": {}, " of an org": {Org: "org-1"}, " of a team": {Org: "org-1", Team: "team-3"}, " of a model": {Model: "model-3"}, " of a key": {Key: "0123456789abcdefghi150"}} {
			if len(by) == 2 && name != "" && !slices.Contains(by, store.ByDay) {
				continue
			}
			q.From, q.To, q.GroupBy = from, to, by
			a.usage(fmt.Sprint("usage by ", by, name), q)
		}
	}
	// From noon to noon the hours at the ends are as many as they can be.
	for name, q := range map[string]store.UsageQuery{"user": {GroupBy: []store.Group{store.ByUser}}, "user of a model": {Model: "model-3", GroupBy: []store.Group{store.ByUser}}, "tag": {GroupBy: []store.Group{store.ByTag("feature")}},
		"team and tag": {GroupBy: []store.Group{store.ByTeam, store.ByTag("feature")}}, "target and tag": {GroupBy: []store.Group{store.ByTarget, store.ByTag("feature")}}} {
		q.From, q.To = largeStart.Add(12*time.Hour), largeStart.Add(largeTime-12*time.Hour)
		a.usage("usage from noon to noon by "+name, q)
	}
	for name, q := range map[string]store.UsageQuery{"a user": {User: "user-150-3"}, "a tag": {Tag: usage.Tag{Key: "feature", Value: "f7"}}, "a target": {Target: "provider-1/model-3"}, "all time": {}} {
		if name != "all time" {
			q.From, q.To, q.GroupBy = from, to, []store.Group{store.ByDay}
		}
		a.usage("usage of "+name, q)
	}
}

func (a asker) usage(name string, q store.UsageQuery) {
	a.ask(name, func(ctx context.Context) (int, error) {
		sums, err := a.d.Usage(ctx, q)
		if err == store.ErrTooWide { //nolint:errorlint // it is a constant
			return store.MaxGroups + 1, nil
		}
		return len(sums), err
	})
}

// TestProjections checks which sums answer a question: those of the whole days, and those of the hours at the ends.
func TestProjections(t *testing.T) {
	d := serve(t, t.TempDir())
	d.client.Timeout = time.Minute
	const rows = 300_000
	for _, query := range []string{fmt.Sprintf(largeRows, largeStart.UnixNano(), rows, 0, rows), "OPTIMIZE TABLE requests FINAL"} {
		if _, err := d.call(t.Context(), query, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for want, by := range map[string][]store.Group{
		"key_days model_hours": nil, "key_days key_hours": {store.ByKey}, "days hours": {store.ByKey, store.ByTarget}, "tag_key_days tag_team_hours": {store.ByTeam, store.ByTag("feature")},
	} {
		q := store.UsageQuery{From: largeStart.Add(7 * time.Hour), To: largeStart.Add(largeTime - 5*time.Hour), GroupBy: by}
		columns, err := columnsOf(by)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := d.call(t.Context(), "EXPLAIN "+usageQuery(&q, columns, spansOf(&q, false, true)), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, found := range regexp.MustCompile(`ReadFromMergeTree \(([a-z_.]+)\)`).FindAllStringSubmatch(string(plan), -1) {
			got = append(got, found[1])
		}
		if list := strings.Fields(want); !slices.Equal(got, []string{list[0], list[1], list[1]}) {
			t.Errorf("usage by %v is read from %v, want %s", by, got, want)
		}
	}
}
