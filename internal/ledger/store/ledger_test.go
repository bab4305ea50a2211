package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// TestRows checks that rows are returned unchanged, newest first, in pages.
func TestRows(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		sent := rows("aa", 25)
		for i := range sent {
			sent[i].Began = noon.Add(time.Duration(i/3) * time.Second) // several at once
		}
		sent[3].Cost, sent[3].Outcome, sent[3].Attempts = new(usage.Dollar), usage.Queued, nil
		sent[3].Status, sent[3].Fidelity, sent[3].Took = 429, "dropped", 2*time.Second
		sent[3].Client = usage.Client{Person: "Ada", Agent: "curl/8 <\u00e9>", Trace: "0af7651916cd43dd8448eb211c80319c"}
		sent[3].Losses, sent[3].MoreLosses = []usage.Loss{{Code: "seed.unsupported", Path: "seed"}}, 2
		sent[3].Queue, sent[3].FirstByte, sent[3].FirstToken = 1, 2, 3
		sent[4].Cost = nil
		sent[5].Labels = usage.Labels{User: "u", Tags: []usage.Tag{{Key: "team", Value: "search"}, {Key: "a", Value: "b"}}}
		sent[6].Attempts[1].Times = usage.Times{Connect: 1, FirstByte: 2, FirstToken: 3}
		sent[6].Attempts[1].Rates = usage.Rates{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: 5, Request: 6}
		no(t, put(ctx, s, sent))
		no(t, put(ctx, s, nil))
		want := slices.Clone(sent)
		slices.SortFunc(want, func(a, b usage.Row) int {
			if c := b.Began.Compare(a.Began); c != 0 {
				return c
			}
			return strings.Compare(b.ID, a.ID)
		})
		var got []usage.Row
		q := RowQuery{Org: "default", From: noon, To: noon.Add(time.Hour), Limit: 4}
		for {
			page, err := s.Rows(ctx, q)
			no(t, err)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			last := page[len(page)-1]
			q.Before = &RowMark{last.Began, last.ID}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		for name, q := range map[string]RowQuery{
			"id": {ID: sent[3].ID}, "outcome": {Outcome: usage.Queued}, "status": {Status: 429}, "fidelity": {Fidelity: "dropped"},
			"person": {Person: "Ada"}, "took": {MinTook: 2 * time.Second}, "cost": {MinCost: usage.Dollar},
			"key": {Key: sent[3].Key, From: sent[3].Began, To: sent[4].Began.Add(1), Outcome: usage.Queued},
		} {
			if got, err := s.Rows(ctx, q); err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], sent[3]) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	})
}

// TestAppendOnce sends the same rows from two nodes concurrently, in overlapping batches, in any
// order and repeatedly. Every row is counted once.
func TestAppendOnce(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		nodes := []*Store{open(), open()}
		all := rows("bb", 1500)
		var senders sync.WaitGroup
		start := time.Now()
		for g := range 8 {
			senders.Go(func() {
				random := rand.New(rand.NewPCG(uint64(g), 0))
				for from := 0; from < len(all); from += 250 {
					batch := slices.Clone(all[from:min(len(all), from+400)])
					batch = append(batch, all[random.IntN(len(all))], batch[0])
					random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
					// SQLite's lock is not fair between processes: one may get none while the
					// other writes without a pause. It sends again, as the drain does.
					err := put(bg(), nodes[g%2], batch)
					for err != nil && time.Since(start) < time.Minute {
						err = put(bg(), nodes[g%2], batch)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		senders.Wait()
		checkSums(t, nodes[1], all)
	})
}

// checkSums compares all sums of the store with the rows.
func checkSums(t *testing.T, s *Store, all []usage.Row) {
	t.Helper()
	want := map[string]int64{}
	var sum llm.Usage
	for _, r := range all {
		for _, account := range r.Accounts() {
			want[account] += int64(*r.Cost)
		}
		sum = sum.Add(r.Usage)
	}
	for account, cost := range want {
		if got, err := spentSince(bg(), s, account, time.Time{}); err != nil || int64(got) != cost {
			t.Errorf("%s has spent %d, %v; want %d", account, got, err, cost)
		}
	}
	sums, err := s.Usage(bg(), UsageQuery{})
	no(t, err)
	if len(sums) != 1 || sums[0].Requests != int64(len(all)) || sums[0].Usage != sum || int64(sums[0].Cost) != want["org:default"] {
		t.Errorf("usage is %+v; want %d requests, %+v, %d", sums, len(all), sum, want["org:default"])
	}
	if n := count(t, s, "requests"); n != len(all) {
		t.Errorf("%d rows, want %d", n, len(all))
	}
}

func count(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error { return c.Row(ctx, "SELECT count(*) FROM "+table)(&n) }))
	return n
}

// TestSpentSince checks that Spent is exact for times within an hour.
func TestSpentSince(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		all := rows("cc", 600)
		for i := range all {
			all[i].Began = noon.Add(time.Duration(i) * time.Minute)
		}
		all[7].Cost = nil // is not zero, and not in the sum
		no(t, put(t.Context(), s, all))
		for _, since := range []time.Duration{-time.Hour, 0, 1, time.Minute, 59 * time.Minute, time.Hour, 61*time.Minute + 1, 9*time.Hour + 59*time.Minute, 24 * time.Hour} {
			want := map[string]usage.Money{"org:default": 0, "team:default/blue": 0, "key:" + all[0].Key: 0, "key:nobody": 0}
			for _, r := range all {
				for _, account := range r.Accounts() {
					if _, asked := want[account]; asked && r.Cost != nil && !r.Began.Before(noon.Add(since)) {
						want[account] += *r.Cost
					}
				}
			}
			for account, cost := range want {
				if got, err := spentSince(t.Context(), s, account, noon.Add(since)); err != nil || got != cost {
					t.Errorf("%s since %s: %d, %v; want %d", account, since, got, err, cost)
				}
			}
		}
		if _, err := spentSince(t.Context(), s, "moon:1", noon.Add(1)); err == nil {
			t.Error("an account of no kind")
		}
	})
}

func TestUsage(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		all := rows("dd", 72)
		for i := range all {
			all[i].Began = noon.Add(time.Duration(i) * time.Hour)
			all[i].Model = fmt.Sprint("m", i%2)
			all[i].Estimated = i%3 == 0
		}
		all[1].Cost = nil
		no(t, put(ctx, s, all))
		day := noon.Truncate(24 * time.Hour)
		sums, err := s.Usage(ctx, UsageQuery{GroupBy: []Group{ByDay, ByModel}, From: day, To: day.AddDate(0, 0, 2), Org: "default"})
		no(t, err)
		var short []string
		for _, x := range sums {
			short = append(short, fmt.Sprint(x.Start.Format("01-02 "), x.Model, " ", x.Requests, " ", x.Unknown, " ", x.Estimated, " ", int64(x.Cost), " ", x.Usage.TotalInput()))
		}
		want := []string{"11-15 m0 6 0 2 30 36", "11-15 m1 6 1 2 35 36", "11-16 m0 12 0 4 276 72", "11-16 m1 12 0 4 288 72"}
		if !reflect.DeepEqual(short, want) {
			t.Errorf("got %q\nwant %q", short, want)
		}
		sums, err = s.Usage(ctx, UsageQuery{GroupBy: []Group{ByHour, ByTeam, ByOrg, ByKey, ByTarget}, Model: "m1", Key: all[1].Key})
		no(t, err)
		first := Sum{Start: all[1].Began, Org: "default", Team: "blue", Key: all[1].Key, Target: all[1].Target, Requests: 1, Unknown: 1, Usage: all[1].Usage}
		if len(sums) != 6 || sums[0] != first {
			t.Errorf("%d sums, the first is %+v", len(sums), sums)
		}
		for _, by := range [][]Group{{"cost; DROP TABLE hours"}, {ByHour, ByDay}} {
			if _, err := s.Usage(ctx, UsageQuery{GroupBy: by}); err == nil {
				t.Errorf("grouped by %q", by)
			}
		}
	})
}

// TestAbsurdRows checks that rows with invalid or overflowing values do not block the ledger.
func TestAbsurdRows(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		long := strings.Repeat("é", 1000)
		absurd := usage.Row{ID: "x", Node: long, Key: "a\x00b", Team: "\xff\xfe", Org: long, Model: "m\xc3", Target: long, Outcome: usage.Outcome(long),
			Began: time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), Took: math.MinInt64, Status: math.MaxInt, Cost: new(usage.Money(math.MaxInt64)),
			Usage: llm.Usage{Input: math.MaxInt64, Output: math.MinInt64}}
		other := absurd
		other.ID, other.Cost, other.Began = "y", new(usage.Money(-1)), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		other.Attempts = slices.Repeat([]usage.Attempt{{Fault: long, Status: -1, Cost: new(usage.Money(-1))}}, 1000)
		third := absurd
		third.ID = "z"
		no(t, put(ctx, s, []usage.Row{absurd, other, third}))
		got, err := s.Rows(ctx, RowQuery{})
		no(t, err)
		if len(got) != 3 || len(got[0].Node) > 256 || got[0].Key != "ab" || got[0].Cost != nil || *got[1].Cost != bounds.MaxMoney || got[1].Usage.Input != bounds.MaxTokens || len(got[0].Attempts) != bounds.MaxAttempts {
			t.Errorf("%+v", got)
		}
		if err := put(ctx, s, []usage.Row{{}}); err == nil {
			t.Error("a row without an id")
		}
	})
}

// TestFindRow checks that SQLite finds a row by its id with the index, one part after the other.
func TestFindRow(t *testing.T) {
	s := opened(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"), Options{Migrate: true})
	no(t, put(bg(), s, rows("fa", 10)))
	var plan []string
	no(t, s.db.Read(bg(), func(ctx context.Context, c db.Conn) error {
		return c.Rows(ctx, func(row db.Scan) error {
			var id, parent, unused int
			var step string
			err := row(&id, &parent, &unused, &step)
			plan = append(plan, step)
			return err
		}, "EXPLAIN QUERY PLAN "+findRow("TRUE"), "x")
	}))
	if !slices.Contains(plan, "SEARCH requests USING INDEX requests_id (<expr>=? AND id=?)") {
		t.Errorf("%q", plan)
	}
}
