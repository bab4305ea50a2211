package retention

import (
	"context"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// slowest is the longest that the 99th percentile of an append may take while rows are deleted, unless it is
// long on this machine anyway.
const slowest = 250 * time.Millisecond

// TestDeleteScale deletes ISOGLOSS_LEDGER_ROWS rows while others are appended, and reports how long the
// appends take.
func TestDeleteScale(t *testing.T) {
	total, _ := strconv.Atoi(os.Getenv("ISOGLOSS_LEDGER_ROWS"))
	if total == 0 {
		t.Skip("set ISOGLOSS_LEDGER_ROWS, such as 1000000; it takes minutes")
	}
	each(t, func(w *world) {
		rows := func(n int, age time.Duration) (list []usage.Row) {
			for i := range n {
				key := "key" + strconv.Itoa(i%50)
				list = append(list, usage.Row{ID: uuid.NewString(), Key: key, Team: "blue", Org: "default", Began: time.Now().Add(-age - time.Duration(i)*time.Microsecond), Took: time.Second,
					Model: "m", Target: "p/m", Status: 200, Outcome: usage.Answered, Fidelity: "exact", Cost: new(usage.Money(i))})
				if i%10 == 0 {
					list[i].Tags = []usage.Tag{{Key: "feature", Value: "f" + strconv.Itoa(i%50)}}
				}
			}
			return list
		}
		for at := 0; at < total; at += 500 {
			w.append(rows(500, 40*day+time.Duration(at)*time.Second))
		}
		appends := func(until func() bool) (took []time.Duration) {
			for !until() {
				list := rows(20, 0)
				start := time.Now()
				w.append(list)
				took = append(took, time.Since(start))
				testrig.Pause(w.t.Context(), 10*time.Millisecond)
			}
			slices.Sort(took)
			return took
		}
		report := func(name string, took []time.Duration) time.Duration {
			p99 := took[len(took)*99/100]
			w.t.Logf("%s: %d appends of 20 rows, median %v, p99 %v, longest %v", name, len(took), took[len(took)/2], p99, took[len(took)-1])
			return p99
		}
		end := time.Now().Add(10 * time.Second)
		before := report("before", appends(func() bool { return time.Now().After(end) }))
		w.policy.Requests = 30 * day
		done := make(chan bool, 1)
		start := time.Now()
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		go func() { done <- w.Once(ctx) }()
		var took time.Duration
		p99 := report("while rows are deleted", appends(func() bool {
			select {
			case ok := <-done:
				if took = time.Since(start); !ok {
					w.t.Error(w.log.String())
				}
				return true
			default:
				return false
			}
		}))
		w.t.Logf("%d rows deleted in %v; portions of %d", w.Snapshot().Rows, took, w.size.rows)
		if n := w.Snapshot().Rows; n != int64(total) {
			w.t.Errorf("%d rows were deleted", n)
		}
		if p99 > max(slowest, 2*before) {
			w.t.Errorf("the 99th percentile of an append is %v", p99)
		}
	})
}
