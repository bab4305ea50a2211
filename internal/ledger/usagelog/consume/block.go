package consume

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/clickhouse"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/bounds"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog"
	"github.com/isogloss-gateway/isogloss/internal/ledger/usagelog/ledger"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// blocks writes a partition block by block.
type blocks struct {
	c         *Consumer
	partition int
	next      int64             // offset of the next message
	rest      []usagelog.Record // read, and not in a block yet
	stored    map[string]int64  // positions of logs that Requests has
	parked    int               // events that wait for a newer consumer
}

// gather reads the messages of the next block. If a consumer has begun a block up to end, it is that one. The
// block ends before to; to is the present offset if there are no messages.
func (b *blocks) gather(ctx context.Context, r usagelog.Reader, end int64) (list []usagelog.Record, to int64, err error) {
	again := end > b.next
	var first time.Time
	bytes := 0
	for {
		if len(b.rest) == 0 {
			if b.rest, err = r.Read(ctx); err != nil {
				return nil, 0, err
			}
		}
		for len(b.rest) > 0 {
			one := b.rest[0]
			if again && (one.Offset >= end || one.Offset < b.next) { // the messages of that block are gone, or all read
				return list, end, nil
			}
			list, b.rest = append(list, one), b.rest[1:]
			bytes += len(one.Body)
			if first.IsZero() {
				first = time.Now()
			}
			if again && one.Offset == end-1 || !again && (bytes >= maxBlockBytes || len(list) >= maxBlock) {
				return list, one.Offset + 1, nil
			}
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if !again && (len(list) == 0 || time.Since(first) >= b.c.o.BlockWait) {
			if len(list) == 0 {
				return nil, b.next, nil
			}
			return list, list[len(list)-1].Offset + 1, nil
		}
	}
}

// message is a decoded message.
type message struct {
	usagelog.Name
	offset int64
	events []usagelog.Event
	newer  []usagelog.Newer
}

// write writes a block into Requests and the ledger. Its end is recorded before, so that the next consumer
// writes the same block if this one dies.
func (b *blocks) write(ctx context.Context, records []usagelog.Record, to int64) error {
	if b.c.o.Refusals != nil {
		return b.writeRefusals(ctx, records, to)
	}
	messages := b.decode(records)
	// What was begun is finished: a consumer that stops leaves no block behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	logs := map[string]bool{}
	for i := range messages {
		logs[messages[i].Log] = true
	}
	block := ledger.Block{Member: b.c.member, Partition: b.partition, From: b.next, To: to}
	at, err := b.c.o.Ledger.Begin(ctx, &block, ledger.Logs(logs))
	if err != nil {
		return err
	}
	rows := b.fill(&block, messages, at)
	if b.parked+len(block.Parked) > maxParked {
		return fmt.Errorf("%d events wait already: %w", b.parked, usagelog.ErrVersion)
	}
	if b.c.o.Requests != nil && len(rows) > 0 {
		if err := b.insert(ctx, &block, messages, rows); err != nil {
			return err
		}
	}
	if err := b.c.o.Ledger.Commit(ctx, &block); err != nil {
		return err
	}
	b.next = to
	b.park(len(block.Parked))
	b.c.count(len(records), rows)
	return nil
}

// verifies reports whether a gateway has made a record. It counts and logs one of others.
func (b *blocks) verifies(r *usagelog.Record) bool {
	if b.c.o.Key.Verifies(r) {
		return true
	}
	b.c.forged.Add(1)
	b.c.o.Logger.Error("a message has not the MAC of a gateway; it is skipped", "partition", b.partition, "offset", r.Offset)
	return false
}

func (b *blocks) decode(records []usagelog.Record) (list []message) {
	for i := range records {
		r := &records[i]
		if !b.verifies(r) {
			continue
		}
		name, err := usagelog.ParseName(r.Header)
		if err != nil || name.Partition != b.partition {
			b.c.malformed.Add(1)
			b.c.o.Logger.Error("a message is not a batch of usage events; it is skipped", "partition", b.partition, "offset", r.Offset)
			continue
		}
		m := usagelog.Message{Name: name, Body: r.Body}
		events, newer, bad := m.Events()
		if bad > 0 {
			b.c.malformed.Add(int64(bad))
			b.c.o.Logger.Error("usage events are malformed; they are skipped", "partition", b.partition, "offset", r.Offset, "events", bad)
		}
		list = append(list, message{name, r.Offset, events, newer})
	}
	return list
}

// fill puts the events that are not stored into the block, and returns them. A message whose predecessor is
// missing waits: the gateway sends both again.
func (b *blocks) fill(block *ledger.Block, messages []message, at map[string]int64) (rows []clickhouse.Row) {
	parts := map[string]*ledger.Part{}
	for i := range messages {
		m := &messages[i]
		p := parts[m.Log]
		if p == nil {
			p = &ledger.Part{Log: m.Log}
			parts[m.Log] = p
		}
		if m.After > at[m.Log] {
			p.Gap = m.offset + 1
			b.c.gaps.Add(1)
			continue
		}
		for j := range m.events {
			if e := &m.events[j]; e.Position > at[m.Log] {
				row := bounds.Row(e.Row())
				p.Rows = append(p.Rows, row)
				rows = append(rows, clickhouse.Row{Row: row, Log: m.Log, Position: e.Position})
			}
		}
		for _, e := range m.newer {
			if e.Position > at[m.Log] {
				block.Parked = append(block.Parked, ledger.Parked{Log: m.Log, Position: e.Position, Event: e.Event})
			}
		}
		if m.To > at[m.Log] {
			at[m.Log], p.To = m.To, m.To
		}
		p.Gap = 0
	}
	for _, log := range ledger.Logs(parts) {
		block.Logs = append(block.Logs, *parts[log])
	}
	return rows
}

// insert inserts the rows that Requests does not have: it may have more than the ledger, if that was set back to
// an older state.
func (b *blocks) insert(ctx context.Context, block *ledger.Block, messages []message, rows []clickhouse.Row) error {
	since, unknown := rows[0].Began, map[string]bool{}
	for i := range rows {
		if _, ok := b.stored[rows[i].Log]; !ok {
			unknown[rows[i].Log] = true
		}
		if rows[i].Began.Before(since) {
			since = rows[i].Began
		}
	}
	if len(unknown) > 0 {
		at, err := b.c.o.Requests.Positions(ctx, b.partition, ledger.Logs(unknown), since)
		if err != nil {
			return err
		}
		for log := range unknown {
			b.stored[log] = at[log]
		}
	}
	fresh := rows[:0:0]
	for i := range rows {
		if rows[i].Position > b.stored[rows[i].Log] {
			fresh = append(fresh, rows[i])
		}
	}
	if len(fresh) > 0 {
		if err := b.c.o.Requests.Insert(ctx, token(block, messages), b.partition, fresh); err != nil {
			return err
		}
	}
	for _, p := range block.Logs {
		b.stored[p.Log] = max(b.stored[p.Log], p.To)
	}
	return nil
}

// token identifies a block by its place and its content: a log that was created again has the same offsets.
func token(block *ledger.Block, messages []message) string {
	h := fnv.New128a()
	for i := range messages {
		_, _ = fmt.Fprintln(h, messages[i].offset, messages[i].String()) // a hash never fails
	}
	return fmt.Sprintf("%s/%d/%d/%d/%s", block.Member.Source, block.Partition, block.From, block.To, hex.EncodeToString(h.Sum(nil)))
}

// ended returns when a request ended.
func ended(r *usage.Row) time.Time { return r.Began.Add(r.Took) }
