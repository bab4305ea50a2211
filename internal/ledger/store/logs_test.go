package store

import (
	"slices"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// TestLogPositions checks that a batch is stored once, and that a store that was set back stores
// nothing until it gets what it lost.
func TestLogPositions(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		all := rows("ab", 10)
		check := func(b usage.Batch, have int64, count int) {
			t.Helper()
			b.Log = "one"
			got, err := s.Append(ctx, b)
			no(t, err)
			list, err := s.Rows(ctx, RowQuery{Limit: 100})
			no(t, err)
			if got != have || len(list) != count {
				t.Errorf("the store has %d rows up to position %d, want %d up to %d", len(list), got, count, have)
			}
		}
		check(usage.Batch{}, 0, 0)
		check(usage.Batch{To: 4, Rows: all[:4]}, 4, 4)
		check(usage.Batch{To: 4, Rows: all[:4]}, 4, 4)            // sent again
		check(usage.Batch{After: 4, To: 4}, 4, 4)                 // nothing new
		check(usage.Batch{After: 7, To: 10, Rows: all[7:]}, 4, 4) // the store lacks 5 to 7
		check(usage.Batch{After: 4, To: 10, Rows: all[4:]}, 10, 10)
		check(usage.Batch{After: 10, To: 12}, 12, 10) // rows that could not be read

		var cost usage.Money
		for _, r := range all {
			cost += *r.Cost
		}
		const account = "org:default"
		out, err := s.Spent(ctx, account, time.Time{}, time.Now().Add(24*time.Hour))
		no(t, err)
		want := []usage.Total{{Log: "one", Account: account, Spent: cost}}
		if !slices.Equal(out.Logs, want) || out.Since[0] != cost || out.Since[1] != 0 {
			t.Errorf("%+v, want %d in one log", out, cost)
		}
	})
}

// TestFinish checks that a finished log is known for two days.
func TestFinish(t *testing.T) {
	both(t, func(t *testing.T, open func() *Store) {
		s := open()
		ctx := t.Context()
		for i, log := range []string{"old", "live", "last"} {
			_, err := s.Append(ctx, usage.Batch{Log: log, To: 2, Rows: rows(string(rune('a'+i))+"c", 2)})
			no(t, err)
		}
		const account = "org:default"
		logs := func() (names []string) {
			out, err := s.Spent(ctx, account)
			no(t, err)
			for _, l := range out.Logs {
				names = append(names, l.Log)
			}
			slices.Sort(names)
			return names
		}
		no(t, s.Finish(ctx, "old"))
		if got := logs(); len(got) != 3 {
			t.Errorf("a log that was finished just now is not known: %v", got)
		}
		no(t, execute(ctx, s, `UPDATE logs SET finished = 1 WHERE log = 'old'`))
		no(t, s.Finish(ctx, "last"))
		if got := logs(); !slices.Equal(got, []string{"last", "live"}) {
			t.Errorf("the logs are %v", got)
		}
	})
}
