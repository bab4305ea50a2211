package consume

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// park counts events that wait for a newer consumer.
func (b *blocks) park(n int) {
	if n == 0 {
		return
	}
	b.parked += n
	b.c.parked.Add(int64(n))
	b.c.o.Logger.Error("usage events have a newer version; they wait in the table usage_parked until isogloss consume is updated", "partition", b.partition, "events", n, "waiting", b.parked)
}

// unpark writes the waiting events whose version this consumer knows. If it dies in between, the next one writes
// the same ones with the same token.
func (b *blocks) unpark(ctx context.Context) error {
	waiting, err := b.c.o.Ledger.Parked(ctx, b.c.member, b.partition)
	if err != nil {
		return err
	}
	known, rows := readable(waiting)
	b.parked = len(waiting)
	b.c.parked.Add(int64(b.parked))
	if len(known) == 0 {
		return nil
	}
	if b.c.o.Requests != nil {
		if err := b.c.o.Requests.Insert(ctx, parkedToken(b.c.member.Source, b.partition, known), b.partition, rows); err != nil {
			return err
		}
	}
	batches := map[string]*usage.Batch{}
	for i := range rows {
		if batches[rows[i].Log] == nil {
			batches[rows[i].Log] = &usage.Batch{Log: rows[i].Log}
		}
		batches[rows[i].Log].Rows = append(batches[rows[i].Log].Rows, rows[i].Row)
	}
	if err := b.c.o.Ledger.Unpark(ctx, b.c.member, b.partition, known, batches); err != nil {
		return err
	}
	b.parked -= len(known)
	b.c.parked.Add(-int64(len(known)))
	b.c.count(0, rows)
	return nil
}

// readable returns the waiting events that can be decoded, and their rows.
func readable(waiting []ledger.Parked) (known []ledger.Parked, rows []clickhouse.Row) {
	for _, p := range waiting {
		if e, err := usagelog.DecodeEvent([]byte(p.Event)); err == nil {
			known = append(known, p)
			rows = append(rows, clickhouse.Row{Row: bounds.Row(e.Row()), Log: p.Log, Position: p.Position})
		}
	}
	return known, rows
}

func parkedToken(source string, partition int, list []ledger.Parked) string {
	h := fnv.New128a()
	for _, p := range list {
		_, _ = fmt.Fprintln(h, p.Log, p.Position) // a hash never fails
	}
	return fmt.Sprintf("%s/%d/parked/%x", source, partition, h.Sum(nil))
}
