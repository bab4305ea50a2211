package retention

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/partition"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/llm"
)

var shared struct {
	server *storetest.Server
	made   int
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "retention")
	if err == nil {
		shared.server, err = storetest.RunPostgres(dir)
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	shared.server.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// database creates an empty database on the shared server.
func database(t testing.TB) string {
	t.Helper()
	shared.made++
	name := fmt.Sprint("test", shared.made)
	server, err := sql.Open("pgx", shared.server.URL)
	no(t, err)
	defer server.Close()
	_, err = server.ExecContext(t.Context(), "CREATE DATABASE "+name)
	no(t, err)
	return strings.Replace(shared.server.URL, "/postgres?", "/"+name+"?", 1)
}

func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a store with a job.
type world struct {
	*store.Store
	*Job
	t      testing.TB
	url    string
	log    bytes.Buffer
	now    time.Time
	policy Policy
}

// each runs a test on both databases.
func each(t *testing.T, test func(w *world)) {
	t.Run("sqlite", func(t *testing.T) { test(newWorld(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))) })
	t.Run("postgres", func(t *testing.T) { test(newWorld(t, database(t))) })
}

func newWorld(t testing.TB, url string) *world {
	w := &world{t: t, url: url, now: time.Now()}
	s, err := store.Open(t.Context(), url, store.Options{Migrate: true, Timeout: time.Minute})
	no(t, err)
	t.Cleanup(func() { no(t, s.Close()) })
	w.Store = s
	w.Job = w.job()
	return w
}

// job returns the job of another node.
func (w *world) job() *Job {
	return New(Options{Store: w.Store, Policy: func() Policy { return w.policy }, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Sums: 1, Now: func() time.Time { return w.now }})
}

// run runs the job, which has to succeed.
func (w *world) run() {
	w.t.Helper()
	if !w.Once(w.t.Context()) {
		w.t.Fatalf("the run failed: %s", w.log.String())
	}
}

// put appends rows of these ages, each with a cost of a dollar, a tag and a user, and returns their ids.
func (w *world) put(ages ...time.Duration) (ids []string) {
	w.t.Helper()
	var rows []usage.Row
	for _, age := range ages {
		r := usage.Row{ID: uuid.NewString(), Key: "k1", Team: "blue", Org: "default", Began: w.now.Add(-age), Took: time.Second, Model: "m", Target: "p/m", Status: 200,
			Outcome: usage.Answered, Fidelity: "exact", Cost: new(usage.Dollar), Labels: usage.Labels{User: "u1", Tags: []usage.Tag{{Key: "feature", Value: "f1"}}}}
		*r.Usage.At(llm.CacheWrite1h) = 1
		rows, ids = append(rows, r), append(ids, r.ID)
	}
	w.append(rows)
	return ids
}

func (w *world) append(rows []usage.Row) {
	w.t.Helper()
	_, err := w.Append(w.t.Context(), usage.Batch{Log: uuid.NewString(), To: 1, Rows: rows})
	no(w.t, err)
	var refused usage.Refusals
	for _, r := range rows {
		refused.Counts = append(refused.Counts, usage.RefusalCount{Log: "log", Org: r.Org, Key: r.Key, Reason: usage.RefusedLimit, Minute: r.Began, Count: 1})
	}
	no(w.t, w.AppendRefusals(w.t.Context(), refused))
}

func (w *world) count(from string) (n int) {
	w.t.Helper()
	no(w.t, w.Read(w.t.Context(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, "SELECT count(*) FROM "+from)(&n) }))
	return n
}

// has checks which of the requests are there.
func (w *world) has(ids []string, want ...bool) {
	w.t.Helper()
	kept := 0
	for i, id := range ids {
		rows, err := w.Rows(w.t.Context(), store.RowQuery{ID: id})
		no(w.t, err)
		if (len(rows) == 1) != want[i] {
			w.t.Errorf("request %d is there: %t, want %t", i, len(rows) == 1, want[i])
		}
		if want[i] {
			kept++
		}
	}
	if n := w.count("labels WHERE request_id IN ('" + strings.Join(ids, "','") + "')"); n != 2*kept {
		w.t.Errorf("%d labels of %d requests", n, kept)
	}
}

func (w *world) spent(account string, since time.Time) usage.Money {
	w.t.Helper()
	out, err := w.Spent(w.t.Context(), account, since)
	no(w.t, err)
	return out.Since[0]
}

func (w *world) partitions() (list []partition.Partition) {
	w.t.Helper()
	no(w.t, w.Read(w.t.Context(), func(ctx context.Context, c db.Conn) (err error) {
		list, err = partition.List(ctx, c, "requests")
		return err
	}))
	return list
}

// past sets the clock back and adds partitions until today, as a gateway that runs for long has them.
func (w *world) past(days int) {
	w.t.Helper()
	if len(w.partitions()) == 0 {
		return
	}
	today := w.now.Truncate(day)
	exec := func(statement string) {
		no(w.t, w.Write(w.t.Context(), func(ctx context.Context, c db.Conn) error { return c.Exec(ctx, statement) }))
	}
	for _, table := range partition.Tables() { // the first partition ends long ago
		exec("ALTER TABLE " + table + " DETACH PARTITION " + table + "_first")
		exec(fmt.Sprintf("ALTER TABLE %s ATTACH PARTITION %s_first FOR VALUES FROM (MINVALUE) TO (%d)", table, table, today.AddDate(0, 0, -days).UnixNano()))
	}
	for i := -days; i <= 1; i++ { // a row of the next hour may be one of tomorrow
		no(w.t, w.Write(w.t.Context(), func(ctx context.Context, c db.Conn) error {
			return partition.Add(ctx, c, partition.Range{From: today.AddDate(0, 0, i).UnixNano(), To: today.AddDate(0, 0, i+1).UnixNano()})
		}))
	}
}

// TestBoundary deletes rows that are older than they are kept, and no others. Without partitions of their
// own it is exact.
func TestBoundary(t *testing.T) {
	each(t, func(w *world) {
		ids := w.put(0, 10*day, 30*day-time.Second, 30*day, 30*day+time.Nanosecond, 30*day+time.Second, 400*day)
		w.run()
		w.has(ids, true, true, true, true, true, true, true)
		w.policy.Requests = 30 * day
		w.run()
		w.has(ids, true, true, true, true, false, false, false)
		if n := w.count("hours"); n < 4 {
			w.t.Errorf("sums were deleted: there are %d", n)
		}
		if got := w.spent("org:default", time.Unix(0, 0)); got != 7*usage.Dollar {
			w.t.Errorf("spent %v", got)
		}
		if text := w.log.String(); !strings.Contains(text, "msg=retention requests=720h0m0s hours=0s deleted_rows=3") || strings.Count(text, "\n") != 1 {
			w.t.Errorf("log: %s", text)
		}
		if s := w.Snapshot(); s.Rows != 3 {
			w.t.Errorf("%+v", s)
		}
		w.policy.Requests = 5 * day // a reload
		w.run()
		w.has(ids, true, false, false, false, false, false, false)
		late := w.put(300 * day) // of a node that was away: it is stored, counted and goes with the next run
		w.has(late, true)
		if got := w.spent("org:default", time.Unix(0, 0)); got != 8*usage.Dollar {
			w.t.Errorf("spent %v", got)
		}
		w.run()
		w.has(late, false)
	})
}

// TestPartitions drops partitions whose rows are all old, at any hour of the day.
func TestPartitions(t *testing.T) {
	for _, hour := range []time.Duration{0, 12 * time.Hour, day - 1} {
		t.Run(hour.String(), func(t *testing.T) {
			w := newWorld(t, database(t))
			w.now = w.now.Truncate(day).Add(hour)
			testPartitions(t, w)
		})
	}
}

func testPartitions(t *testing.T, w *world) {
	w.past(20)
	today := w.now.Sub(w.now.Truncate(day))
	ids := w.put(400*day, 15*day, 10*day, 9*day, today+7*day, today+7*day+1, 1, -time.Hour)
	if n := w.count("requests_rest"); n != 0 {
		t.Errorf("%d rows have no partition", n)
	}
	w.policy.Requests = 7 * day
	w.run()
	// A partition is a day. That of seven days ago has rows that are kept.
	w.has(ids, false, false, false, false, true, false, true, true)
	parts := w.partitions()
	if first, last := parts[0], parts[len(parts)-1]; first.From != w.now.Truncate(day).Add(-7*day).UnixNano() || last.To < w.now.Add(ahead).UnixNano() {
		t.Errorf("from %v to %v", time.Unix(0, first.From), time.Unix(0, last.To))
	}
	if s := w.Snapshot(); s.Partitions != 2*14 {
		t.Errorf("%+v", s)
	}
	late := w.put(15*day, 300*day) // for partitions that are gone
	w.has(late, true, true)
	if n := w.count("requests_rest"); n != 2 {
		t.Errorf("%d rows have no partition", n)
	}
	w.run()
	w.has(late, false, false)
	n := len(w.partitions())
	w.now = w.now.Add(20 * time.Hour)
	w.run()
	if got := len(w.partitions()); got > n+1 {
		t.Errorf("%d partitions after %d", got, n)
	}
	if err := w.Write(t.Context(), func(ctx context.Context, c db.Conn) error {
		return partition.Drop(ctx, c, w.partitions()[0], w.now.Add(day).UnixNano())
	}); err == nil {
		t.Error("the function drops rows of the last day")
	}
}

// TestWindows keeps what the windows of budgets reach, and what budgets without one count.
func TestWindows(t *testing.T) {
	each(t, func(w *world) {
		no(w.t, w.CreateKey(w.t.Context(), access.Record{ID: "k1", Org: "default", Created: w.now, Digests: []access.Digest{{Pepper: 1, Sum: [32]byte{1}}}, Limit: quota.Limit{Budget: usage.Dollar, Window: day, More: "5/" + "3456000000000000"}})) // 40 days
		w.policy = Policy{Requests: 2 * day, Hours: 3 * day}
		ids := w.put(time.Hour, 10*day, 40*day-time.Minute, 40*day+30*time.Minute, 42*day, 43*day, 500*day)
		since := w.now.Add(-40 * day)
		w.run()
		w.has(ids, true, true, true, true, false, false, false)
		for account, want := range map[string]usage.Money{"key:k1": 3, "team:default/blue": 3, "org:default": 3} {
			if got := w.spent(account, since); got != want*usage.Dollar {
				w.t.Errorf("%s has spent %v in 40 days, want %v", account, got, want)
			}
			if got := w.spent(account, time.Unix(0, 0)); got != 7*usage.Dollar {
				w.t.Errorf("%s has spent %v in all", account, got)
			}
		}
		if n := w.count("spent WHERE account = 'key:k1' AND hour = 0 AND requests = 3"); n != 1 {
			w.t.Error("the sums of three hours were not added up")
		}
		w.policy.Windows = []time.Duration{60 * day} // of a rule in the configuration
		more := w.put(50*day, 61*day+time.Hour)
		w.run()
		w.has(more, true, false)
	})
}

// TestHours deletes sums of each kind, and none of hours that have rows.
func TestHours(t *testing.T) {
	each(t, func(w *world) {
		w.put(time.Hour, 10*day, 30*day, 800*day, 801*day)
		w.policy = Policy{Requests: 20 * day, Hours: 730 * day}
		w.run()
		for _, s := range append(hourly, spent) {
			from := s.table
			if s == spent {
				from += " WHERE account = 'org:default' AND hour > 0"
			} else if s.lead == "label" || s.table == "label_values" {
				from += " WHERE label = 'user'" + map[string]string{"label_values": " AND value <> ''"}[s.table]
			}
			if n := w.count(from); n != 3 {
				w.t.Errorf("%s has %d rows, want 3", s.table, n)
			}
		}
		if n := w.count("spent_minutes WHERE account = 'org:default'"); n != 2 {
			w.t.Errorf("%d minutes, want 2", n)
		}
		for _, by := range []store.Group{store.ByDay, store.ByKey, store.ByModel, store.ByUser} {
			sums, err := w.Usage(w.t.Context(), store.UsageQuery{GroupBy: []store.Group{by}})
			no(w.t, err)
			total := int64(0)
			for _, s := range sums {
				total += s.Requests
			}
			if total != 3 {
				w.t.Errorf("by %s there are %d requests, want 3: %+v", by, total, sums)
			}
		}
		w.policy.Hours = 20 * day
		w.run()
		rows, err := w.Rows(w.t.Context(), store.RowQuery{Org: "default", Limit: 9})
		if err != nil || len(rows) != 2 {
			w.t.Errorf("%d rows, %v", len(rows), err)
		}
	})
}

// TestClock follows a clock that jumps forward by a day in each run, and deletes nothing when it jumps back.
func TestClock(t *testing.T) {
	each(t, func(w *world) {
		w.policy.Requests = 30 * day
		ids := w.put(0, 28*day+time.Hour, 29*day+time.Hour, 31*day)
		w.run()
		w.has(ids, true, true, true, false)
		right := w.now
		w.now = right.AddDate(1, 0, 0)
		w.run()
		w.has(ids, true, true, false, false)
		w.now = right.AddDate(-1, 0, 0)
		w.run()
		w.has(ids, true, true, false, false)
		w.now = right
		w.run()
		w.has(ids, true, true, false, false)
		if !strings.Contains(w.log.String(), "wrong clock") {
			w.t.Errorf("log: %s", w.log.String())
		}
	})
}

// TestTwoNodes runs jobs of several nodes at once: each row is deleted by one of them.
func TestTwoNodes(t *testing.T) {
	each(t, func(w *world) {
		w.policy.Requests = 10 * day
		var ages []time.Duration
		for i := range 500 {
			ages = append(ages, 11*day+time.Duration(i)*time.Minute)
		}
		w.put(ages...)
		ids := w.put(time.Hour)
		w.log = bytes.Buffer{}
		jobs := make([]*Job, 4)
		var running sync.WaitGroup
		for i := range jobs {
			jobs[i] = New(Options{Store: w.Store, Policy: func() Policy { return w.policy }, Logger: slog.New(slog.DiscardHandler), Sums: 1})
			running.Go(func() {
				for range 3 {
					jobs[i].Once(w.t.Context())
				}
			})
		}
		running.Wait()
		var total State
		for _, j := range jobs {
			total.Rows += j.Snapshot().Rows
		}
		if total.Rows != 500 {
			w.t.Errorf("%d rows were deleted", total.Rows)
		}
		w.has(ids, true)
		// A node that has died, and one with a wrong clock.
		for _, until := range []time.Time{w.now.Add(-time.Second), w.now.AddDate(1, 0, 0)} {
			no(w.t, w.Write(w.t.Context(), func(ctx context.Context, c db.Conn) error {
				return c.Exec(ctx, `UPDATE leases SET holder = 'other', until = $1`, until.UnixNano())
			}))
			old := w.put(12 * day)
			w.run()
			w.has(old, false)
		}
		no(w.t, w.Write(w.t.Context(), func(ctx context.Context, c db.Conn) error {
			return c.Exec(ctx, `UPDATE leases SET holder = 'other', until = $1`, w.now.Add(lease/2).UnixNano())
		}))
		old := w.put(12 * day)
		w.run()
		w.has(old, true)
	})
}

// failing is a store whose calls fail from the n-th write on, before or after their commit.
type failing struct {
	Store
	left  int
	after bool
}

var errLostStore = errors.New("the connection was lost")

func (f *failing) Write(ctx context.Context, do func(context.Context, db.Conn) error) error {
	f.left--
	if f.left >= 0 {
		return f.Store.Write(ctx, do)
	}
	if f.after {
		_ = f.Store.Write(ctx, do)
	}
	return errLostStore
}

// TestInterrupted ends a run at each of its writes. The next one completes it.
func TestInterrupted(t *testing.T) {
	each(t, func(w *world) {
		w.policy = Policy{Requests: 10 * day, Hours: 20 * day}
		w.past(12)
		for at := range 24 {
			kept, old := w.put(time.Hour), w.put(11*day+time.Hour, 25*day, 30*day)
			before := w.spent("org:default", time.Unix(0, 0))
			f := &failing{Store: w.Store, left: at / 2, after: at%2 == 1}
			j := New(Options{Store: f, Policy: func() Policy { return w.policy }, Logger: slog.New(slog.DiscardHandler), Sums: 1})
			j.holder = w.holder // otherwise its lease is still held
			j.Once(w.t.Context())
			w.run()
			w.has(append(kept, old...), true, false, false, false)
			if got := w.spent("org:default", time.Unix(0, 0)); got != before {
				w.t.Fatalf("after %d writes: spent %v of %v", at, got, before)
			}
		}
	})
}

// TestReuse checks that SQLite uses the space of deleted rows again.
func TestReuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	w := newWorld(t, "sqlite:"+path)
	w.policy.Requests = 10 * day
	size := func() int64 {
		no(t, w.Write(t.Context(), func(ctx context.Context, c db.Conn) error { return c.Exec(ctx, `UPDATE leases SET until = 0`) }))
		var pages int64
		no(t, w.Read(t.Context(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, `PRAGMA page_count`)(&pages) }))
		return pages
	}
	ages := make([]time.Duration, 300)
	for i := range ages {
		ages[i] = 11 * day
	}
	var first int64
	for i := range 4 {
		w.put(ages...)
		if i == 0 {
			first = size()
		}
		w.run()
	}
	if last := size(); last > first*5/4 {
		t.Errorf("%d pages at first, then %d", first, last)
	}
}

// TestRights runs the job with the grants of upgrade.md, and without those that it needs to delete.
func TestRights(t *testing.T) {
	url := database(t)
	w := newWorld(t, url)
	ids := w.put(time.Hour, 40*day)
	old := w.put(400 * day)
	upgrade, err := os.ReadFile("../../../docs/operations/upgrade.md")
	no(t, err)
	page, err := os.ReadFile("../../../docs/operations/retention.md")
	no(t, err)
	grant := func(text string) {
		_, after, _ := strings.Cut(text, "```sql\n")
		grants, _, _ := strings.Cut(after, "```")
		for statement := range strings.SplitSeq(strings.TrimSpace(grants), "\n") {
			no(t, w.Write(t.Context(), func(ctx context.Context, c db.Conn) error { return c.Exec(ctx, statement) }))
		}
	}
	grant(string(upgrade))
	node := newNode(t, strings.Replace(url, "postgres@", "gateway@", 1))
	node.now, node.policy.Requests = w.now.AddDate(0, 0, 8), 0
	if node.Once(t.Context()); strings.Contains(node.log.String(), "early") {
		t.Errorf("without retention: %s", node.log.String())
	}
	if n := len(w.partitions()); n < 2 {
		t.Errorf("%d partitions; a gateway may not add one", n)
	}
	node.now = w.now
	node.policy = Policy{Requests: 30 * day, Hours: 60 * day}
	for range 2 {
		if node.Once(t.Context()) || strings.Count(node.log.String(), "docs/operations/retention.md") != 1 {
			t.Errorf("without the grants: %s", node.log.String())
		}
	}
	w.has(ids, true, true)
	grant(string(page))
	if !node.Once(t.Context()) {
		t.Errorf("with the grants: %s", node.log.String())
	}
	w.has(append(ids, old...), true, false, false)
	if n := w.count("hours"); n != 2 { // 400 days
		t.Errorf("%d sums", n)
	}
}

func newNode(t *testing.T, url string) *world {
	w := &world{t: t, url: url}
	s, err := store.Open(t.Context(), url, store.Options{Timeout: time.Minute})
	no(t, err)
	t.Cleanup(func() { no(t, s.Close()) })
	w.Store = s
	w.Job = w.job()
	return w
}
