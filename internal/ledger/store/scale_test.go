package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

// slowest is the longest that a question of the admin API may take on a large ledger.
const slowest = 500 * time.Millisecond

// TestLedgerScale fills a ledger with ISOGLOSS_LEDGER_ROWS rows of 30 days and asks every question of the
// admin API. ISOGLOSS_LEDGER_STORE names a store that is filled already, or is to be kept.
func TestLedgerScale(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_LEDGER_ROWS"))
	if total == 0 {
		t.Skip("set ISOGLOSS_LEDGER_ROWS, such as 1000000; it takes minutes")
	}
	test := func(t *testing.T, url string) {
		s := opened(t, url, Options{Migrate: true})
		fillLedger(t, s, total)
		askAll(t, s, slowest, 0)
	}
	if url := os.Getenv("ISOGLOSS_LEDGER_STORE"); url != "" {
		test(t, url)
		return
	}
	each(t, test)
}

// ledgerStart is the time of the first row of a large ledger, which has 30 days.
var ledgerStart = noon.AddDate(0, 0, -30).Truncate(24 * time.Hour)

const ledgerTime = 30 * 24 * time.Hour

// ledgerRow returns row i of a large ledger: 2 organisations with 10 teams each, 200 keys of which the first
// have most of the traffic, 20 people, 8 models with 2 targets each, a tag in each tenth row. Three rows
// are rare: they have a model, a target, a status, a fidelity, a person, a cost and a time that no other
// has.
func ledgerRow(random *rand.Rand, i, total int) usage.Row {
	key := min(random.IntN(200), random.IntN(200))
	model := random.IntN(8)
	r := usage.Row{
		ID: uuid.NewString(), Node: "gw-" + strconv.Itoa(i%3), Key: fmt.Sprintf("0123456789abcdefghi%03d", key), Org: "org-" + strconv.Itoa(key%2), Team: "team-" + strconv.Itoa(key%20/2),
		Began: ledgerStart.Add(time.Duration(float64(ledgerTime) * float64(i) / float64(total))), Took: time.Duration(random.ExpFloat64() * float64(3*time.Second)),
		Endpoint: "chat_completions", Dialect: "openai-chat", Model: "model-" + strconv.Itoa(model), Target: fmt.Sprintf("provider-%d/model-%d", random.IntN(10)/9, model),
		Stream: true, Status: 200, Outcome: usage.Answered, Fidelity: "exact", Usage: llm.Usage{Input: random.Int64N(9000), CacheRead: random.Int64N(9000), Output: random.Int64N(900)},
		Queue: 80 * time.Microsecond, Client: usage.Client{Agent: "OpenAI/Python 2.8.1"},
	}
	r.Cost = new(usage.Money(r.Usage.Input*250 + r.Usage.Output*1000))
	r.FirstByte, r.FirstToken = r.Took/20, r.Took/10
	switch n := random.IntN(1000); {
	case n < 10:
		r.Outcome, r.Status, r.Cost, r.FirstToken = usage.Failed, 502, new(usage.Money), 0
	case n < 20:
		r.Outcome, r.Status = usage.Left, 0
	case n < 60:
		r.Fidelity, r.Losses = "approximated", []usage.Loss{{Code: "seed.unsupported", Path: "sampling.seed"}}
	}
	if key < 20 {
		r.Key, r.Person = fmt.Sprintf("person_%022d", key), fmt.Sprintf("person-%02d@example.org", key)
	}
	if i%10 == 0 {
		r.Tags = []usage.Tag{{Key: "feature", Value: "f" + strconv.Itoa(random.IntN(50))}}
	}
	if i%(total/3) == total/6 {
		r.Model, r.Target, r.Status, r.Outcome, r.Fidelity, r.Took, r.Org, r.Team = "rare", "rare/rare", 418, usage.Lost, "dropped", time.Hour, "rare", "rare"
		r.Key, r.Person, r.Cost, r.Labels = "person_rare", "rare@example.org", new(999*usage.Dollar), usage.Labels{User: "rare", Tags: []usage.Tag{{Key: "feature", Value: "rare"}}}
	}
	r.Attempts = []usage.Attempt{{Target: r.Target, Began: r.Began.Add(r.Queue), Took: r.Took, Status: 200, Usage: r.Usage, Cost: r.Cost, Charged: true,
		Times: usage.Times{FirstByte: r.FirstByte, FirstToken: r.FirstToken}, Rates: usage.Rates{Input: 250e6, CacheRead: 25e6, CacheWrite: 250e6, Output: 1e9, Reasoning: 1e9}}}
	return r
}

// fillLedger appends the rows that are missing, in batches of 500, and reports the time of each part and the CPU
// time of this process.
func fillLedger(t testing.TB, s *Store, total int) {
	have := 0
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, "SELECT count(*) FROM requests")(&have) }))
	random := rand.New(rand.NewPCG(1, 2))
	var took, cpu time.Duration
	for first, from := have, have; first < total; first += 500 {
		rows := make([]usage.Row, min(500, total-first))
		for i := range rows {
			rows[i] = ledgerRow(random, first+i, total)
		}
		start, used := time.Now(), testrig.ProcessorTime(t)
		no(t, put(bg(), s, rows))
		took, cpu = took+time.Since(start), cpu+testrig.ProcessorTime(t)-used
		if n := first + len(rows); n == 10_000 || n == 100_000 || n%500_000 == 0 || n == total {
			each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n-from) }
			t.Logf("rows %d to %d: %.1f µs each, %.1f of CPU", from, n, each(took), each(cpu))
			from, took, cpu = n, 0, 0
		}
	}
	if have < total {
		no(t, s.db.Write(bg(), func(ctx context.Context, c db.Conn) error {
			if strings.Contains(t.Name(), "postgres") {
				if err := c.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
					return err
				}
			}
			return c.Exec(ctx, `ANALYZE`)
		}))
	}
}

// askAll asks every question and reports those that take too long. The range begins and ends by a time from the
// beginning and the end of a day.
func askAll(t *testing.T, s *Store, slowest, off time.Duration) {
	ask := func(name string, question func() (int, error)) {
		best, n := time.Hour, 0
		for range 3 { // other work on the machine delays some
			start := time.Now()
			var err error
			if n, err = question(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			best = min(best, time.Since(start))
		}
		t.Logf("%-40s %8.1f ms, %d", name, float64(best.Microseconds())/1000, n)
		if best > slowest {
			t.Errorf("%s takes %v", name, best)
		}
	}
	first, last := ledgerStart.Add(off), ledgerStart.Add(ledgerTime-off)
	list := func(name string, q RowQuery) {
		q.From, q.To, q.Limit = first, last, 100
		ask("list "+name, func() (int, error) {
			rows, err := s.Rows(bg(), q)
			return len(rows), err
		})
	}
	for name, q := range map[string]RowQuery{
		"all": {}, "org": {Org: "org-1"}, "team": {Org: "org-1", Team: "team-7"}, "key": {Key: "0123456789abcdefghi150"}, "model": {Model: "model-3"}, "target": {Target: "provider-1/model-3"},
		"person": {Person: "person-07@example.org"}, "account": {Account: fmt.Sprintf("person_%022d", 7)}, "tag": {Tag: usage.Tag{Key: "feature", Value: "f7"}}, "outcome": {Outcome: usage.Failed}, "status": {Status: 502},
		"fidelity": {Fidelity: "approximated"}, "cost": {MinCost: 3_000_000}, "took": {MinTook: 20 * time.Second}, "errors of a key": {Key: "0123456789abcdefghi150", Outcome: usage.Failed},
		"rare org": {Org: "rare"}, "rare team": {Org: "rare", Team: "rare"}, "rare key": {Key: "person_rare"}, "rare model": {Model: "rare"}, "rare target": {Target: "rare/rare"}, "rare person": {Person: "rare@example.org"},
		"rare tag": {Tag: usage.Tag{Key: "feature", Value: "rare"}}, "rare user": {User: "rare"}, "rare outcome": {Outcome: usage.Lost}, "rare status": {Status: 418}, "rare fidelity": {Fidelity: "dropped"},
		"rare cost": {MinCost: 900 * usage.Dollar}, "rare time": {MinTook: time.Hour}, "no model": {Model: "none"}, "no org": {Org: "none"}, "no status": {Status: 599}, "no outcome": {Outcome: "none"}, "no target": {Target: "none"},
		"page 1000": {Before: &RowMark{Began: ledgerStart.Add(ledgerTime / 2)}},
	} {
		list(name, q)
	}
	ask("id", func() (int, error) {
		rows, err := s.Rows(bg(), RowQuery{Limit: 1, To: ledgerStart.Add(time.Minute)})
		if err != nil {
			return 0, err
		}
		rows, err = s.Rows(bg(), RowQuery{ID: rows[0].ID})
		return len(rows), err
	})
	ask("no id", func() (int, error) {
		rows, err := s.Rows(bg(), RowQuery{ID: uuid.NewString()})
		return len(rows), err
	})
	for _, by := range [][]Group{nil, {ByHour}, {ByDay}, {ByOrg}, {ByTeam}, {ByKey}, {ByModel}, {ByTarget}, {ByUser}, {ByTag("feature")}, {ByDay, ByModel}, {ByDay, ByTeam}, {ByDay, ByTag("feature")}} {
		for name, q := range map[string]UsageQuery{"": {}, " of an org": {Org: "org-1"}, " of a team": {Org: "org-1", Team: "team-7"}, " of a model": {Model: "model-3"}, " of a key": {Key: "0123456789abcdefghi150"}} {
			q.From, q.To, q.GroupBy = first, last, by
			ask(fmt.Sprint("usage by ", by, name), func() (int, error) {
				sums, err := s.Usage(bg(), q)
				return len(sums), err
			})
		}
	}
	for _, account := range []string{"org:org-1", "team:org-1/team-7", "key:0123456789abcdefghi150"} {
		ask("spent of "+account, func() (int, error) {
			_, err := s.Spent(bg(), account, ledgerStart.Add(time.Hour+1), last.Add(-24*time.Hour+1), last.Add(-time.Hour+1))
			return 1, err
		})
	}
}

// TestAppendGrowth measures what a row costs in ledgers of 10 thousand rows and more, up to ISOGLOSS_LEDGER_ROWS.
func TestAppendGrowth(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_LEDGER_ROWS"))
	if total == 0 {
		t.Skip("set ISOGLOSS_LEDGER_ROWS, such as 10000000; it takes minutes")
	}
	each(t, func(t *testing.T, url string) {
		s, serial := opened(t, url, Options{Migrate: true}), 0
		appendBatches := func(batches int) (took, cpu time.Duration) {
			for range batches {
				rows := batch(500, serial)
				start, used := time.Now(), testrig.ProcessorTime(t)
				no(t, put(bg(), s, rows))
				took, cpu, serial = took+time.Since(start), cpu+testrig.ProcessorTime(t)-used, serial+1
			}
			return took, cpu
		}
		for size := 10_000; size <= total; size *= 10 {
			growLedger(t, s, size)
			appendBatches(2)
			took, cpu := appendBatches(20)
			t.Logf("%d rows: %.1f µs for another, %.1f of CPU", size, float64(took.Microseconds())/10_000, float64(cpu.Microseconds())/10_000)
		}
	})
}

// growLedger copies rows with new ids until the ledger has a size. Each copy is older than the last one.
func growLedger(t testing.TB, s *Store, size int) {
	columns, have := strings.TrimPrefix(RowColumns, "id, began, "), 0
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, `SELECT count(*) FROM requests`)(&have) }))
	for have < size {
		n := min(size-have, max(have, 500), 50_000)
		no(t, s.db.Write(bg(), func(ctx context.Context, c db.Conn) error {
			if have == 0 {
				return insertRows(ctx, c, batch(n, -1), nil)
			}
			newID := "lower(hex(randomblob(16)))"
			if c.Partitions() {
				newID = "gen_random_uuid()::text"
				if err := c.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
					return err
				}
			}
			return c.Exec(ctx, `INSERT INTO requests (`+RowColumns+`) SELECT `+newID+`, began - $1, `+columns+` FROM requests LIMIT $2`, int64(have/500)*int64(time.Hour), int64(n))
		}))
		have += n
	}
}
