// Package ledger stores how much of a log of usage events the store has, in the same transactions as the sums
// of the events, and shares the partitions of the log between consumers.
package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Ledger is the tables usage_positions, usage_offsets and usage_consumers of a store.
type Ledger struct {
	Store *store.Store
	// Balances says that the store has the balances of accounts only, because another store has the requests.
	Balances bool
}

// ErrTaken reports that another consumer has the partition or has written the block.
var ErrTaken = errors.New("another consumer has the partition")

// Positions returns how much of a gateway's log is stored.
func (l Ledger) Positions(ctx context.Context, log string) (out usage.Positions, err error) {
	err = l.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		out = usage.Positions{}
		return c.Rows(ctx, func(row db.Scan) error {
			var p usage.PartitionPosition
			if err := row(&p.Partition, &p.Position, &p.Gap); err != nil {
				return err
			}
			if p.Partition < 0 {
				out.Direct = p.Position
			} else {
				out.Partitions = append(out.Partitions, p)
			}
			return nil
		}, `SELECT partition, position, gap FROM usage_positions WHERE log = $1 UNION ALL SELECT -1, position, 0 FROM logs WHERE log = $1`, log)
	})
	return out, err
}

// Finish records that a gateway's log is complete.
func (l Ledger) Finish(ctx context.Context, log string) error { return l.Store.Finish(ctx, log) }

// Member is a consumer of a log.
type Member struct {
	Source     string // the log
	ID         string
	Partitions int // of the log
	Lease      time.Duration
}

// Claim renews the leases of a consumer and returns its partitions. It takes partitions that nobody has until
// the consumer has its share. What the consumer has beyond its share is in spare: release it when it is not in
// use.
func (l Ledger) Claim(ctx context.Context, m Member) (held, spare []int, err error) {
	err = l.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		now := time.Now()
		spare = nil
		share, err := m.renew(ctx, c, now)
		if err != nil {
			return err
		}
		var free []int
		if held, free, err = m.partitions(ctx, c, now); err != nil {
			return err
		}
		for ; len(held) < share && len(free) > 0; free = free[1:] {
			var p int64
			err := c.Row(ctx, `UPDATE usage_offsets SET holder = $3, until = $4 WHERE source = $1 AND partition = $2 AND (holder = '' OR until < $5) RETURNING partition`,
				m.Source, int64(free[0]), m.ID, now.Add(m.Lease).UnixNano(), now.UnixNano())(&p)
			if errors.Is(err, sql.ErrNoRows) {
				continue // another consumer was faster
			}
			if err != nil {
				return err
			}
			held = append(held, int(p))
		}
		if len(held) > share {
			spare = slices.Clone(held[share:])
		}
		return nil
	})
	return held, spare, err
}

// renew renews the leases of the consumer, forgets consumers that are gone, and returns how many partitions each
// consumer may have.
func (m *Member) renew(ctx context.Context, c db.Conn, now time.Time) (share int, err error) {
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`INSERT INTO usage_consumers (source, id, seen) VALUES ($1, $2, $3) ON CONFLICT (source, id) DO UPDATE SET seen = excluded.seen`, []any{m.Source, m.ID, now.UnixNano()}},
		{`DELETE FROM usage_consumers WHERE source = $1 AND seen < $2`, []any{m.Source, now.Add(-m.Lease).UnixNano()}},
		{`UPDATE usage_offsets SET until = $3 WHERE source = $1 AND holder = $2`, []any{m.Source, m.ID, now.Add(m.Lease).UnixNano()}},
	} {
		if err := c.Exec(ctx, s.query, s.args...); err != nil {
			return 0, err
		}
	}
	var members int64
	err = c.Row(ctx, `SELECT count(*) FROM usage_consumers WHERE source = $1`, m.Source)(&members)
	n := int(max(members, 1))
	return (m.Partitions + n - 1) / n, err
}

// partitions returns the partitions that the consumer has, and those that nobody has. It creates rows for new ones.
func (m *Member) partitions(ctx context.Context, c db.Conn, now time.Time) (held, free []int, err error) {
	in := db.Insert{Head: `INSERT INTO usage_offsets (source, partition, next, block, holder, until) `, Tail: ` ON CONFLICT (source, partition) DO NOTHING`}
	for p := range m.Partitions {
		in.Rows = append(in.Rows, []any{m.Source, int64(p), int64(0), int64(0), "", int64(0)})
	}
	if err := in.Run(ctx, c); err != nil {
		return nil, nil, err
	}
	err = c.Rows(ctx, func(row db.Scan) error {
		var p int
		var mine bool
		err := row(&p, &mine)
		if mine {
			held = append(held, p)
		} else {
			free = append(free, p)
		}
		return err
	}, `SELECT partition, holder = $2 FROM usage_offsets WHERE source = $1 AND (holder = $2 OR holder = '' OR until < $3) ORDER BY partition`, m.Source, m.ID, now.UnixNano())
	return held, free, err
}

// Release gives partitions up, and with leave the consumer's place among the others.
func (l Ledger) Release(ctx context.Context, m Member, leave bool, partitions ...int) error {
	return l.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		for _, p := range partitions {
			if err := c.Exec(ctx, `UPDATE usage_offsets SET holder = '', until = 0 WHERE source = $1 AND partition = $2 AND holder = $3`, m.Source, int64(p), m.ID); err != nil {
				return err
			}
		}
		if leave {
			return c.Exec(ctx, `DELETE FROM usage_consumers WHERE source = $1 AND id = $2`, m.Source, m.ID)
		}
		return nil
	})
}

// Offset returns the offset of the next message of a partition, and the end of a block that a consumer may have
// written: next, if there is none.
func (l Ledger) Offset(ctx context.Context, m Member, partition int) (next, block int64, err error) {
	err = l.Store.Read(ctx, func(ctx context.Context, c db.Conn) error {
		return c.Row(ctx, `SELECT next, block FROM usage_offsets WHERE source = $1 AND partition = $2`, m.Source, int64(partition))(&next, &block)
	})
	return next, block, err
}

// Block is a number of messages of a partition.
type Block struct {
	Member    Member
	Partition int
	From      int64 // offset that Offset has returned, or the end of the previous block
	To        int64 // offset after the last message
	Logs      []Part
	Parked    []Parked
}

// Part is what a block has of a gateway's log. Logs are in the order of their names.
type Part struct {
	Log  string
	To   int64 // position of the last event; 0: nothing is added
	Gap  int64 // offset after a message whose predecessor is missing; 0: none
	Rows []usage.Row
}

// Begin records that a block will be written, and returns the stored positions of logs. After a crash the next
// consumer writes the same block, which the other store then recognises.
func (l Ledger) Begin(ctx context.Context, b *Block, logs []string) (at map[string]int64, err error) {
	err = l.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		at = map[string]int64{}
		var n int64
		err := c.Row(ctx, `UPDATE usage_offsets SET block = $4 WHERE source = $1 AND partition = $2 AND next = $3 AND holder = $5 AND (block = next OR block = $4) RETURNING partition`,
			b.Member.Source, int64(b.Partition), b.From, b.To, b.Member.ID)(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrTaken
		}
		if err != nil {
			return err
		}
		for part := range slices.Chunk(logs, 200) {
			var w db.Where
			query := `SELECT log, position FROM usage_positions WHERE partition = ` + w.Arg(int64(b.Partition)) + ` AND log IN (`
			for i, log := range part {
				if i > 0 {
					query += ", "
				}
				query += w.Arg(log)
			}
			err := c.Rows(ctx, func(row db.Scan) error {
				var log string
				var position int64
				err := row(&log, &position)
				at[log] = position
				return err
			}, query+`)`, w.Args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return at, err
}

// Commit adds the events of a block to the sums and moves the offset behind it, in one transaction.
func (l Ledger) Commit(ctx context.Context, b *Block) error {
	slices.SortFunc(b.Logs, func(x, y Part) int { return cmp.Compare(x.Log, y.Log) })
	return l.Store.Write(ctx, func(ctx context.Context, c db.Conn) error {
		var n int64
		err := c.Row(ctx, `UPDATE usage_offsets SET next = $4, block = $4, until = $6 WHERE source = $1 AND partition = $2 AND next = $3 AND holder = $5 RETURNING partition`,
			b.Member.Source, int64(b.Partition), b.From, b.To, b.Member.ID, time.Now().Add(b.Member.Lease).UnixNano())(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrTaken
		}
		if err != nil {
			return err
		}
		positions := db.Insert{Head: `INSERT INTO usage_positions (log, partition, position, gap) `,
			Tail: ` ON CONFLICT (log, partition) DO UPDATE SET position = CASE WHEN excluded.position > 0 THEN excluded.position ELSE usage_positions.position END, gap = excluded.gap`}
		var batches []usage.Batch
		for _, p := range b.Logs {
			positions.Rows = append(positions.Rows, []any{p.Log, int64(b.Partition), p.To, p.Gap})
			if len(p.Rows) > 0 {
				batches = append(batches, usage.Batch{Log: p.Log, Rows: p.Rows})
			}
		}
		if err := errors.Join(positions.Run(ctx, c), park(ctx, c, b)); err != nil {
			return err
		}
		if len(batches) == 0 {
			return nil
		}
		return l.Store.AddSums(ctx, c, batches, l.Balances)
	})
}

// Logs returns the names of the logs of a map in their order.
func Logs[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
