package consume

import (
	"context"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Refusals stores refused requests. A batch that is stored twice changes nothing.
type Refusals interface {
	AppendRefusals(ctx context.Context, b usage.Refusals) error
}

// writeRefusals writes a block of the log of refused requests, then moves the offset behind it. A consumer that dies in
// between is followed by one that writes the block again.
func (b *blocks) writeRefusals(ctx context.Context, records []usagelog.Record, to int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var all usage.Refusals
	for i := range records {
		r := &records[i]
		if !b.verifies(r) {
			continue
		}
		one, bad := usagelog.DecodeRefusals(r.Body)
		if bad > 0 {
			b.c.malformed.Add(int64(bad))
			b.c.o.Logger.Error("events of refused requests are malformed, or of a newer version; they are skipped", "partition", b.partition, "offset", r.Offset, "events", bad)
		}
		all.Counts, all.Rows = append(all.Counts, one.Counts...), append(all.Rows, one.Rows...)
	}
	if len(all.Counts)+len(all.Rows) > 0 {
		if err := b.c.o.Refusals.AppendRefusals(ctx, all); err != nil {
			return err
		}
	}
	block := ledger.Block{Member: b.c.member, Partition: b.partition, From: b.next, To: to}
	if _, err := b.c.o.Ledger.Begin(ctx, &block, nil); err != nil {
		return err
	}
	if err := b.c.o.Ledger.Commit(ctx, &block); err != nil {
		return err
	}
	b.next = to
	b.c.count(len(records), nil)
	return nil
}
