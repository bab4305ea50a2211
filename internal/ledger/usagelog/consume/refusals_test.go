package consume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// failing is a store of refusals of which every third call fails, before or after it has stored the batch.
type failing struct {
	*store.Store
	calls int
}

func (f *failing) AppendRefusals(ctx context.Context, b usage.Refusals) error {
	f.calls++
	if f.calls%3 == 1 {
		return errors.New("no connection")
	}
	err := f.Store.AppendRefusals(ctx, b)
	if f.calls%3 == 2 {
		err = errors.Join(err, errors.New("the connection was lost"))
	}
	return err
}

// TestRefusalsThroughALog sends refused requests through a log of their own, which loses and repeats: the counts are
// exact, and each row is stored once. Messages of others are skipped.
func TestRefusalsThroughALog(t *testing.T) {
	s := openStore(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	log := newLog(1)
	calls := 0
	log.fail = func() (before, after bool) { calls++; return calls%5 == 1, calls%5 == 2 }
	sender := usagelog.NewRefusals(log, testKey, "gw-1")
	minute := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	for total := int64(1); total <= 20; total++ {
		b := usage.Refusals{
			Counts: []usage.RefusalCount{{Log: "gw-1", Node: "gw", Org: "acme", Key: "k", Reason: usage.RefusedLimit, Minute: minute, Count: total * 100}},
			Rows: []usage.Row{{ID: fmt.Sprintf("r-%02d", total), Node: "gw", Org: "acme", Key: "k", Began: minute.Add(time.Duration(total) * time.Second), Status: 429, Outcome: usage.Refused,
				Cost: new(usage.Money), Told: usage.Told{Reason: usage.RefusedLimit, Code: "rate_limit_requests", Message: "wait", Remedy: "more"}}},
		}
		for sender.AppendRefusals(t.Context(), b) != nil { // as the recorder does
		}
	}
	log.mu.Lock()
	log.parts[0] = append(log.parts[0],
		usagelog.Record{Offset: int64(len(log.parts[0])), Header: "gw-1/0/0/9", MAC: "forged", Body: []byte(`{"v":1,"log":"gw-1","key":"k","refused":"limit","minute":"2026-11-15T12:00:00Z","count":999999}` + "\n")},
		signed(int64(len(log.parts[0]))+1, "gw-1/0/0/10", `{"v":1}`+"\n"+`{"v":2,"log":"x","refused":"limit","count":1}`+"\nnonsense\n"))
	log.mu.Unlock()
	c := New(Options{Key: testKey, ID: "c", Log: log, Partitions: 1, Ledger: ledger.Ledger{Store: s, Balances: true}, Refusals: &failing{Store: s}, BlockWait: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { _ = c.Run(ctx) })
	defer work.Wait()
	defer cancel()
	await(t, func() string {
		if n := c.malformed.Load(); n < 3 || c.forged.Load() < 1 || c.messages.Load() < 22 {
			return fmt.Sprintf("%d malformed, %d forged, %d messages", n, c.forged.Load(), c.messages.Load())
		}
		return ""
	})
	list, err := s.Refusals(t.Context(), store.RefusalQuery{From: minute})
	if err != nil || len(list) != 1 || list[0].Count != 2000 || list[0].Key != "k" || list[0].Org != "acme" {
		t.Errorf("%+v, %v", list, err)
	}
	rows, err := s.Rows(t.Context(), store.RowQuery{Outcome: usage.Refused, Limit: 100})
	if err != nil || len(rows) != 20 || rows[0].Told.Message != "wait" || rows[0].Told.Remedy != "more" {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	if sums, err := s.Usage(t.Context(), store.UsageQuery{}); err != nil || sums[0].Requests != 0 || sums[0].Refused != 2000 {
		t.Errorf("%+v, %v", sums, err)
	}
}
