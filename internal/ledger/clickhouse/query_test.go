package clickhouse

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// generate returns requests of some days, as different as the ledger's may be.
func generate(count int) []usage.Row {
	r := rand.New(rand.NewPCG(3, 4))
	began := time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC)
	outcomes := []usage.Outcome{usage.Answered, usage.Answered, usage.Answered, usage.Left, usage.Failed, usage.Lost, usage.Cached}
	rows := make([]usage.Row, count)
	for i := range rows {
		org := r.IntN(4)
		row := usage.Row{ID: fmt.Sprintf("%08x-%04x", r.Uint32(), i), Node: "gw", Key: fmt.Sprint("k", org, r.IntN(10)), Team: fmt.Sprint("t'", r.IntN(3)), Org: fmt.Sprint(`o\`, org),
			Began: began.Add(time.Duration(r.Int64N(int64(10 * 24 * time.Hour)))), Took: time.Duration(r.Int64N(2e10)), Endpoint: "chat_completions", Dialect: "d",
			Model: fmt.Sprint("m", r.IntN(3)), Target: fmt.Sprint("p/m", r.IntN(4)), Stream: r.IntN(2) == 0, Status: []int{200, 200, 200, 429, 500}[r.IntN(5)],
			Outcome: outcomes[r.IntN(len(outcomes))], Usage: llm.Usage{Input: r.Int64N(1e5), CacheRead: r.Int64N(100), CacheWrite: r.Int64N(100), Output: r.Int64N(1e4), Reasoning: r.Int64N(50)},
			Estimated: r.IntN(7) == 0, Fidelity: []string{"exact", "dropped"}[r.IntN(2)], FirstToken: time.Duration(r.Int64N(12e9))}
		if r.IntN(9) > 0 {
			row.Cost = new(usage.Money(r.Int64N(1e9)))
		}
		if r.IntN(3) == 0 {
			row.FirstToken = 0
		}
		if r.IntN(4) == 0 {
			row.Person = fmt.Sprint("person é ", r.IntN(5))
		}
		if r.IntN(2) == 0 {
			row.User = fmt.Sprint("u", r.IntN(20))
		}
		if r.IntN(2) == 0 {
			row.Tags = append(row.Tags, usage.Tag{Key: "feature", Value: fmt.Sprint("f", r.IntN(6))})
		}
		if r.IntN(5) == 0 {
			row.Losses = []usage.Loss{{Code: "seed_dropped", Path: "a.b"}}
		}
		if r.IntN(6) == 0 {
			*row.Usage.At(llm.CacheWrite1h) = r.Int64N(row.Usage.CacheWrite + 1)
		}
		row.Attempts = []usage.Attempt{{Target: row.Target, Began: row.Began.Add(5), Took: row.Took, Status: row.Status, Usage: row.Usage, Cost: row.Cost, Charged: true}}
		rows[i] = row
	}
	return rows
}

// usageQueries are the questions about sums: every group, pairs of them, and filters.
func usageQueries() (list []store.UsageQuery) {
	groups := []store.Group{store.ByHour, store.ByDay, store.ByOrg, store.ByTeam, store.ByKey, store.ByModel, store.ByTarget, store.ByUser, store.ByTag("feature")}
	from, to := time.Date(2026, 11, 2, 3, 30, 0, 0, time.UTC), time.Date(2026, 11, 8, 14, 10, 0, 0, time.UTC)
	for i, g := range groups {
		for _, window := range [][2]time.Time{{}, {from, to}, {from.Add(11 * time.Hour), to.Add(-11 * time.Hour)}} {
			list = append(list, store.UsageQuery{From: window[0], To: window[1], GroupBy: []store.Group{g}})
			for _, h := range groups[i+1:] {
				if g == store.ByHour && h == store.ByDay || g == store.ByUser && h == store.ByTag("feature") {
					continue
				}
				list = append(list, store.UsageQuery{From: window[0], To: window[1], GroupBy: []store.Group{g, h}})
			}
		}
	}
	return append(list, []store.UsageQuery{{}, {From: from, To: to}, {Org: `o\1`}, {Team: "t'1"}, {Key: "k13"}, {Model: "m2"}, {Target: "p/m1"}, {User: "u7"}, {Tag: usage.Tag{Key: "feature", Value: "f2"}}, {Org: "nobody"},
		{Org: `o\1`, Team: "t'2", Model: "m1", From: from}, {User: "u7", GroupBy: []store.Group{store.ByUser, store.ByModel}}, {Org: `o\2`, GroupBy: []store.Group{store.ByDay, store.ByKey}, From: from, To: to}}...)
}

// rowQueries are the lists of requests.
func rowQueries(rows []usage.Row) []store.RowQuery {
	from, to := time.Date(2026, 11, 2, 3, 30, 0, 0, time.UTC), time.Date(2026, 11, 8, 14, 10, 0, 0, time.UTC)
	list := []store.RowQuery{{}, {From: from}, {To: to}, {From: from, To: to}, {Org: `o\3`}, {Org: `o\3`, Team: "t'0"}, {Key: "k01"}, {Account: "k01"}, {Model: "m0"}, {Target: "p/m3"}, {Person: "person é 2"},
		{User: "u3"}, {Tag: usage.Tag{Key: "feature", Value: "f1"}}, {User: "u3", Tag: usage.Tag{Key: "feature", Value: "f1"}}, {Outcome: usage.Failed}, {Outcome: usage.Answered}, {Outcome: usage.Refused}, {Outcome: usage.Refused, Org: `o\4`}, {Org: `o\4`}, {Model: "m1", Outcome: usage.Refused}, {ID: "refused-000a"}, {Status: 429}, {Status: 200},
		{Fidelity: "dropped"}, {MinCost: 900_000_000}, {MinTook: 15 * time.Second}, {Org: "nobody"}, {ID: rows[len(rows)/2].ID}, {ID: "nobody"}, {Before: &store.RowMark{Began: rows[7].Began, ID: rows[7].ID}},
		{Org: `o\3`, Outcome: usage.Lost, MinCost: 500_000_000, From: from, To: to}}
	for i := range list {
		list[i].Limit = 40
	}
	return list
}

// refusals returns refused requests of the same days: the counts of two processes, of which some are sent again with
// higher totals, and rows.
func refusals() (b usage.Refusals) {
	r := rand.New(rand.NewPCG(5, 6))
	began := time.Date(2026, 11, 1, 7, 0, 0, 0, time.UTC)
	reasons := usage.Reasons()
	for i := range 3000 {
		org := r.IntN(5) // one of them has no other requests
		c := usage.RefusalCount{Log: fmt.Sprint("log", r.IntN(2)), Node: "gw", Org: fmt.Sprint(`o\`, org), Team: fmt.Sprint("t'", r.IntN(3)), Key: fmt.Sprint("k", org, r.IntN(12)),
			Reason: reasons[r.IntN(len(reasons))], Minute: began.Add(time.Duration(r.IntN(10*24*60)) * time.Minute), Count: r.Int64N(1000)}
		b.Counts = append(b.Counts, c)
		if i%3 == 0 {
			c.Count += r.Int64N(100)
			b.Counts = append(b.Counts, c)
		}
		if i%10 == 0 {
			b.Rows = append(b.Rows, usage.Row{ID: fmt.Sprintf("refused-%04x", i), Node: "gw", Key: c.Key, Team: c.Team, Org: c.Org, Began: c.Minute.Add(time.Duration(r.IntN(60)) * time.Second),
				Took: time.Millisecond, Endpoint: "chat_completions", Dialect: "d", Model: fmt.Sprint("m", r.IntN(3)), Status: 429, Outcome: usage.Refused, Cost: new(usage.Money),
				Told: usage.Told{Reason: c.Reason, Code: "x", Message: "it's \"refused\"", Remedy: "less"}})
		}
	}
	return b
}

// ledger is what the admin API asks.
type ledger interface {
	AppendRefusals(ctx context.Context, b usage.Refusals) error
	Refusals(ctx context.Context, q store.RefusalQuery) ([]store.Refused, error)
	Usage(ctx context.Context, q store.UsageQuery) ([]store.Sum, error)
	Rows(ctx context.Context, q store.RowQuery) ([]usage.Row, error)
}

// TestSameAnswers asks SQLite, PostgreSQL and ClickHouse the same questions about the same requests. ISOGLOSS_ROWS
// is their number.
func TestSameAnswers(t *testing.T) {
	d := serve(t, t.TempDir())
	count, _ := strconv.Atoi(os.Getenv("ISOGLOSS_ROWS"))
	rows := generate(cmp.Or(count, 50_000))
	// Gateways send requests in the order of time. In another order each batch changes sums of all hours. One of 20 is
	// late.
	slices.SortFunc(rows[:len(rows)*19/20], func(a, b usage.Row) int { return a.Began.Compare(b.Began) })
	stores := map[string]ledger{}
	var filling sync.WaitGroup
	fill := func(name string, write func() error) {
		filling.Go(func() {
			began := time.Now()
			if err := write(); err != nil {
				t.Error(err)
			}
			t.Logf("%s has %d requests after %v", name, len(rows), time.Since(began).Round(time.Second))
		})
	}
	for name, url := range map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "db"), "postgres": storetest.Postgres(t).URL} {
		s, err := store.Open(t.Context(), url, store.Options{Migrate: true, Timeout: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		testrig.EventuallyNil(t, "the tables are there", s.Ready)
		stores[name] = s
		fill(name, func() error { return appendAll(t.Context(), s, rows) })
	}
	fill("clickhouse", func() error { return insert(t.Context(), d, rows) })
	if filling.Wait(); t.Failed() {
		return
	}
	refused := refusals()
	for _, s := range append(slices.Collect(maps.Values(stores)), ledger(d)) {
		for _, part := range []usage.Refusals{refused, {Counts: refused.Counts[:500], Rows: refused.Rows[:50]}} { // some of it twice
			if err := s.AppendRefusals(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked, timed := 0, clock{}
	for _, q := range usageQueries() {
		stop := timed.start("clickhouse", q)
		got, err := d.Usage(t.Context(), q)
		stop()
		for name, s := range stores {
			stop := timed.start(name, q)
			want, wrong := s.Usage(t.Context(), q)
			stop()
			if asked++; err != nil != (wrong != nil) || !reflect.DeepEqual(got, want) {
				t.Errorf("%s answers %+v with %d sums, %v; ClickHouse with %d, %v%s", name, q, len(want), wrong, len(got), err, firstDifference(got, want))
			}
		}
	}
	for _, q := range rowQueries(rows) {
		got, err := d.Rows(t.Context(), q)
		for name, s := range stores {
			want, wrong := s.Rows(t.Context(), q)
			if asked++; err != nil || wrong != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s answers %+v with %d rows, %v; ClickHouse with %d, %v%s", name, q, len(want), wrong, len(got), err, firstDifference(got, want))
			}
		}
	}
	from := time.Date(2026, 11, 3, 0, 30, 20, 0, time.UTC)
	for _, q := range []store.RefusalQuery{{}, {Org: `o\4`}, {Org: `o\1`, Team: "t'2"}, {Key: "k13"}, {From: from}, {From: from, To: from.Add(30 * time.Hour)}, {Org: "nobody"}} {
		got, err := d.Refusals(t.Context(), q)
		for name, s := range stores {
			want, wrong := s.Refusals(t.Context(), q)
			if asked++; err != nil || wrong != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s answers %+v with %d refusals, %v; ClickHouse with %d, %v%s", name, q, len(want), wrong, len(got), err, firstDifference(got, want))
			}
		}
	}
	t.Logf("%d requests, %d comparisons", len(rows), asked)
	for name, c := range timed {
		t.Logf("%s: %d sums in %v, the slowest in %v: %v by %v", name, c.asked, c.total.Round(time.Millisecond), c.longest.Round(time.Millisecond), c.slowest.From, c.slowest.GroupBy)
	}
}

// clock has the times of questions about sums, by store.
type clock map[string]*times

type times struct {
	asked          int
	total, longest time.Duration
	slowest        store.UsageQuery
}

func (c clock) start(name string, q store.UsageQuery) (stop func()) {
	began := time.Now()
	return func() {
		if c[name] == nil {
			c[name] = &times{}
		}
		took := time.Since(began)
		t := c[name]
		t.asked, t.total = t.asked+1, t.total+took
		if took > t.longest {
			t.longest, t.slowest = took, q
		}
	}
}

func firstDifference[T any](got, want []T) string {
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Sprintf("; number %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
	return ""
}

// appendAll appends rows in batches.
func appendAll(ctx context.Context, s *store.Store, rows []usage.Row) error {
	for at := 0; at < len(rows); at += 5000 {
		to := min(at+5000, len(rows))
		if _, err := s.Append(ctx, usage.Batch{Log: "log", After: int64(at), To: int64(to), Rows: rows[at:to]}); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts rows in blocks, each of them twice.
func insert(ctx context.Context, d *DB, rows []usage.Row) error {
	for at := 0; at < len(rows); at += 20_000 {
		var block []Row
		for i := at; i < min(at+20_000, len(rows)); i++ {
			block = append(block, Row{Row: rows[i], Log: "log", Position: int64(i + 1)})
		}
		for range 2 {
			if err := d.Insert(ctx, fmt.Sprint("block ", at), 3, block); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestPositions checks what a consumer asks after the store was set back.
func TestPositions(t *testing.T) {
	d := serve(t, t.TempDir())
	rows := generate(100)
	if err := insert(t.Context(), d, rows); err != nil {
		t.Fatal(err)
	}
	at, err := d.Positions(t.Context(), 3, []string{"log", "other'"}, time.Unix(0, 0))
	if err != nil || !reflect.DeepEqual(at, map[string]int64{"log": 100}) {
		t.Errorf("%v, %v", at, err)
	}
	if at, err := d.Positions(t.Context(), 4, []string{"log"}, time.Unix(0, 0)); err != nil || len(at) != 0 {
		t.Errorf("another partition has %v, %v", at, err)
	}
}

// TestTooWide checks that a result with too many groups is refused as the store refuses it.
func TestTooWide(t *testing.T) {
	d := serve(t, t.TempDir())
	const query = `INSERT INTO requests (began, key_id) SELECT 0, toString(number) FROM numbers(%d)`
	for _, n := range []int{store.MaxGroups, 1, 20_000} {
		if _, err := d.call(t.Context(), fmt.Sprintf(query, n), nil, nil); err != nil {
			t.Fatal(err)
		}
		if n == 1 { // a key more
			_, err := d.call(t.Context(), `INSERT INTO requests (began, key_id) SELECT 0, 'other'`, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		sums, err := d.Usage(t.Context(), store.UsageQuery{GroupBy: []store.Group{store.ByKey}})
		if n == store.MaxGroups {
			if err != nil || len(sums) != n {
				t.Errorf("%d keys give %d sums, %v", n, len(sums), err)
			}
		} else if !errors.Is(err, store.ErrTooWide) {
			t.Errorf("%d keys more give %d sums, %v", n, len(sums), err)
		}
	}
}

// TestHostileValues checks that no value ends a literal, and that bounds are those of the store.
func TestHostileValues(t *testing.T) {
	d := serve(t, t.TempDir())
	cost := usage.Money(1)
	for i, text := range []string{`'`, `\`, `\'`, "a\nb", "' OR 1=1 --", "\u2028", "é", `{"a":1}`} {
		row := usage.Row{ID: text, Org: text, Key: text, Began: time.Now(), Outcome: usage.Answered, Cost: &cost}
		if err := d.Insert(t.Context(), fmt.Sprint("hostile ", i), 0, []Row{{Row: row, Log: text, Position: 1}}); err != nil {
			t.Fatal(err)
		}
		rows, err := d.Rows(t.Context(), store.RowQuery{Org: text, Key: text, Limit: 5})
		if err != nil || len(rows) != 1 || rows[0].ID != text {
			t.Errorf("%q: %d rows, %v", text, len(rows), err)
		}
	}
	if _, err := d.Usage(t.Context(), store.UsageQuery{GroupBy: []store.Group{"nonsense"}}); err == nil {
		t.Error("an unknown group is accepted")
	}
	if _, err := d.Usage(t.Context(), store.UsageQuery{GroupBy: []store.Group{store.ByUser, store.ByTag("a")}}); err == nil {
		t.Error("two labels are accepted")
	}
	var problem store.Error
	if _, err := d.Usage(t.Context(), store.UsageQuery{GroupBy: []store.Group{store.ByHour, store.ByDay}}); !errors.As(err, &problem) {
		t.Errorf("hour and day give %v", err)
	}
}

// TestSpans checks that the parts of a range have each hour of it once, also with hours subtracted.
func TestSpans(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	day := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	subtracted := 0
	for range 2000 {
		from := int64(r.IntN(96))
		to := from + int64(r.IntN(96))
		q := store.UsageQuery{From: day.Add(time.Duration(from) * time.Hour), To: day.Add(time.Duration(to) * time.Hour)}
		for _, subtract := range []bool{true, false} {
			hours := map[int64]int{}
			for _, s := range spansOf(&q, false, subtract) {
				if s.sign < 0 {
					subtracted++
				}
				var bounds [2]int64
				for i, c := range s.where {
					column, n, _ := strings.Cut(c, []string{" >= ", " < "}[i])
					bounds[i], _ = strconv.ParseInt(n, 10, 64)
					if column == dayColumn {
						bounds[i] *= 24
					}
				}
				for h := bounds[0]; h < bounds[1]; h++ {
					hours[h] += s.sign
				}
			}
			for h := day.Unix()/3600 - 48; h < day.Unix()/3600+240; h++ {
				want := 0
				if at := h - day.Unix()/3600; at >= from && at < to {
					want = 1
				}
				if hours[h] != want {
					t.Fatalf("from %d to %d hours: hour %d is counted %d times", from, to, h, hours[h])
				}
			}
		}
	}
	if subtracted == 0 {
		t.Error("no hours are subtracted")
	}
}

// TestOldServer checks that a server before version 25.6, which cannot subtract, is asked to add.
func TestOldServer(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		unzipped, _ := gzip.NewReader(r.Body)
		if query, _ := io.ReadAll(unzipped); strings.Contains(string(query), "FROM refusals") {
			return
		}
		if asked++; r.URL.Query().Has("enable_shared_storage_snapshot_in_query") {
			http.Error(w, "Code: 115. DB::Exception: Unknown setting", http.StatusBadRequest)
		}
	}))
	defer server.Close()
	from := time.Date(2026, 11, 2, 3, 0, 0, 0, time.UTC)
	if _, err := New(Options{URL: server.URL}).Usage(t.Context(), store.UsageQuery{From: from, To: from.Add(100 * time.Hour)}); err != nil || asked != 2 {
		t.Errorf("%v after %d questions", err, asked)
	}
}
