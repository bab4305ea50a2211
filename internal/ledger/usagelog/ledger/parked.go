package ledger

import (
	"context"
	"database/sql"
	"errors"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Parked is an event of a newer version than the consumer that has read it.
type Parked struct {
	Log      string
	Position int64
	Event    string
}

// park stores the events of a block that have to wait for a newer consumer.
func park(ctx context.Context, c db.Conn, b *Block) error {
	in := db.Insert{Head: `INSERT INTO usage_parked (source, partition, log, position, event) `, Tail: ` ON CONFLICT (source, partition, log, position) DO NOTHING`}
	for _, p := range b.Parked {
		in.Rows = append(in.Rows, []any{b.Member.Source, int64(b.Partition), p.Log, p.Position, p.Event})
	}
	if len(in.Rows) == 0 {
		return nil
	}
	return in.Run(ctx, c)
}

// Parked returns the events of a partition that wait.
func (l Ledger) Parked(ctx context.Context, m Member, partition int) (list []Parked, err error) {
	err = l.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		return c.Rows(ctx, func(row db.Scan) error {
			var p Parked
			err := row(&p.Log, &p.Position, &p.Event)
			list = append(list, p)
			return err
		}, `SELECT log, position, event FROM usage_parked WHERE source = $1 AND partition = $2 ORDER BY log, position`, m.Source, int64(partition))
	})
	return list, err
}

// Unpark adds events that waited to the sums and deletes them, in one transaction. It fails if another consumer
// has the partition, or has added them.
func (l Ledger) Unpark(ctx context.Context, m Member, partition int, list []Parked, batches map[string]*usage.Batch) error {
	return l.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		var n int64
		err := c.Row(ctx, `SELECT partition FROM usage_offsets WHERE source = $1 AND partition = $2 AND holder = $3`, m.Source, int64(partition), m.ID)(&n)
		for i := 0; i < len(list) && err == nil; i++ {
			err = c.Row(ctx, `DELETE FROM usage_parked WHERE source = $1 AND partition = $2 AND log = $3 AND position = $4 RETURNING position`,
				m.Source, int64(partition), list[i].Log, list[i].Position)(&n)
		}
		if errors.Is(err, sql.ErrNoRows) {
			return ErrTaken
		}
		if err != nil {
			return err
		}
		var ordered []usage.Batch
		for _, log := range Logs(batches) {
			ordered = append(ordered, *batches[log])
		}
		return l.Store.AddSums(ctx, c, ordered, l.Balances)
	})
}
