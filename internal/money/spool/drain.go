package spool

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Sink stores rows.
type Sink interface {
	// Append stores a batch and returns the position up to which the sink has the log. It must be
	// idempotent. If the sink has less than Batch.After, because it was set back to an older state, it
	// stores nothing: the rows after that position are sent again. An error concerns the whole batch,
	// which is sent again until it succeeds. A sink must not fail because of a row's content: all later
	// rows would wait.
	Append(ctx context.Context, b usage.Batch) (have int64, err error)
	// Finish tells the sink that the log is complete.
	Finish(ctx context.Context, log string) error
}

// Follower is a Sink in front of the store, such as Kafka: a consumer reads the rows from the sink and writes
// them to the store. Rows stay on disk until the store has them.
type Follower interface {
	Sink
	// Stored returns the position up to which the store has a log. If again is true, the sink has lost rows,
	// and the rows after the position are sent again.
	Stored(ctx context.Context, log string) (position int64, again bool, err error)
}

// Counters enforce budgets. They are a view of the logs.
type Counters interface {
	// SetTotal sets what an account has spent in the log of a dead process. It does not block.
	SetTotal(t usage.Total)
	// CountedUntil returns the time before which everything that was counted is stored.
	CountedUntil() time.Time
}

const (
	batchRows     = 1000
	batchWait     = 500 * time.Millisecond
	appendTimeout = 30 * time.Second // for one call of a sink, which may hang
	backoffMin    = 100 * time.Millisecond
	backoffMax    = 5 * time.Second

	// checkInterval is how often an idle log is compared with the sink.
	checkInterval = 5 * time.Second
	// maxKept bounds the rows that stay on disk after the sink has them.
	maxKept = 64 << 20
	// followInterval is how often Follower.Stored is called.
	followInterval = time.Second
)

// Drain sends rows to the sink until ctx ends or the spool is closed: those of this process and
// those of dead processes. A request that a dead process had begun and not ended becomes a row with
// the outcome Lost. Drain gives the totals of dead processes to the counters, which may be nil,
// before it sends their rows. A second Drain waits for the first.
func (s *Spool) Drain(ctx context.Context, to Sink, counters Counters) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	select {
	case s.draining <- struct{}{}:
		defer func() { <-s.draining }()
	case <-ctx.Done():
		return
	}

	s.mu.Lock()
	s.counters = counters
	s.mu.Unlock()
	a := adopter{s: s, to: to, sending: make(chan struct{}, 1), refused: map[string]bool{}}
	a.follows, _ = to.(Follower)
	a.work.Go(func() { crash.Keep(ctx, s.o.Logger, func() { a.run(ctx) }) })
	s.drainOwn(ctx, to)
	a.work.Wait()
}

// wakeDrain tells Drain how many rows wait.
func (s *Spool) wakeDrain(rows int64) {
	if rows >= batchRows {
		notify(s.full)
	}
	notify(s.wake)
}

func (s *Spool) drainOwn(ctx context.Context, to Sink) {
	s.mu.Lock()
	at := cursor{s: s, position: s.drained, frames: frames{off: s.drained.off}, last: s.acked.Load()}
	s.mu.Unlock()
	f := s.follow(to)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		rows := s.ended.Load() - s.acked.Load()
		if rows <= 0 {
			at.frames.rest = nil // free the large buffer while idle
			timer.Reset(f.idle())
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
				continue
			case <-timer.C:
			}
		} else if rows < batchRows {
			timer.Reset(batchWait)
			select {
			case <-ctx.Done():
				return
			case <-s.full:
			case <-timer.C:
			}
		}
		if !s.drainBatch(ctx, to, &at, f) {
			return
		}
		f.check(ctx, &at)
	}
}

// drainBatch sends the next rows. If there are none, it sends an empty batch to learn which position the
// sink has. It reports false if ctx ended.
func (s *Spool) drainBatch(ctx context.Context, to Sink, at *cursor, f *following) bool {
	b := usage.Batch{Log: s.name, After: s.acked.Load()}
	b.Rows, b.Positions = at.read(batchRows)
	b.To = at.last
	if at.atEnd { // rows that cannot be read are skipped
		b.To = max(b.To, at.end)
	}
	if b.To == 0 {
		return true
	}
	have, ok := s.send(ctx, to, b)
	if !ok {
		return false
	}
	if have < b.After {
		s.rewind(at, have)
		return true
	}
	s.acknowledge(at, &b)
	if f != nil {
		f.sent(mark{b.To, at.position})
		return true
	}
	if len(b.Rows) > 0 {
		savePosition(s.dir, at.position, b.To)
	}
	s.sweep(at.position)
	return true
}

// rewind sets the cursor back to an earlier position, because the sink has lost the rows after it.
func (s *Spool) rewind(at *cursor, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Logger.Warn("the store has lost usage rows; they are sent again", "rows", s.acked.Load()-to)
	s.acked.Store(to)
	*at = cursor{s: s, last: to}
	for _, seg := range s.segs {
		if !seg.sent.IsZero() {
			seg.sent = time.Time{}
			s.bytes.Add(seg.size)
		}
	}
}

// send sends rows until the sink accepts them. It reports false if ctx ended.
func (s *Spool) send(ctx context.Context, to Sink, b usage.Batch) (have int64, ok bool) {
	for wait := backoffMin; ; wait = min(2*wait, backoffMax) {
		c, cancel := context.WithTimeout(ctx, appendTimeout)
		have, err := to.Append(c, b)
		cancel()
		if err == nil {
			s.sink.pass(s.o.Logger, "the store accepts usage rows again")
			return have, true
		}
		if ctx.Err() != nil {
			return 0, false
		}
		s.sink.fail(s.o.Logger, "the store rejects usage rows; they stay in the spool", err)
		select {
		case <-ctx.Done():
			return 0, false
		case <-time.After(wait/2 + rand.N(wait/2)): //nolint:gosec // jitter
		}
	}
}

// position is the end of the acknowledged rows.
type position struct {
	seg uint64
	off int64
}

// cursor reads the ended rows of this process in order.
type cursor struct {
	s *Spool
	position
	frames frames
	last   int64 // position of the last row
	atEnd  bool  // everything written was read
	end    int64 // number of written rows when load was called last
}

// read returns up to n rows that follow the last one.
func (c *cursor) read(n int) (rows []usage.Row, positions []int64) {
	for len(rows) < n {
		body, end, ok := c.frames.next()
		c.off = end
		if !ok {
			if c.s.reportCorrupt("own", c.frames.corruptCount()); !c.load() {
				return rows, positions
			}
			continue
		}
		if len(body) == 0 || kind(body[0]) != kindEnded {
			continue
		}
		row, err := decodeRow(body[1:])
		if err != nil {
			c.s.reportCorrupt("own", 1)
		} else if row.position > c.last {
			rows, positions, c.last = append(rows, row.Row), append(positions, row.position), row.position
		}
	}
	return rows, positions
}

// load reads newly written records of this or the next segment.
func (c *cursor) load() bool {
	c.s.mu.Lock()
	var seg *segment
	var size int64
	for i, one := range c.s.segs {
		last := i == len(c.s.segs)-1
		if one.id > c.seg {
			c.position = position{seg: one.id}
		}
		if one.id == c.seg && (c.off < one.size || last) {
			seg, size = one, one.size
			break
		}
	}
	c.end = c.s.ended.Load()
	c.s.mu.Unlock()
	c.atEnd = seg == nil || c.off >= size
	c.frames = frames{off: c.off}
	if c.atEnd {
		return false
	}
	buf := make([]byte, size-c.off)
	n, err := seg.file.ReadAt(buf, c.off)
	if err != nil {
		c.s.reportCorrupt("own", 1)
	}
	// Unreadable data is skipped, like corrupt records.
	c.frames = frames{rest: buf[:n], off: size - int64(n)}
	return true
}

// acknowledge records that the sink has a batch.
func (s *Spool) acknowledge(at *cursor, b *usage.Batch) {
	s.mu.Lock()
	s.acked.Store(b.To)
	s.drained = at.position
	close(s.progress)
	s.progress = make(chan struct{})
	s.mu.Unlock()
	if n := len(b.Rows); n > 0 {
		s.oldest.Store(b.Rows[n-1].Began.Add(b.Rows[n-1].Took).UnixNano())
	}
}

// Flush waits until the sink has all rows of this process that have ended so far.
func (s *Spool) Flush(ctx context.Context) error {
	target := s.ended.Load()
	for {
		s.mu.Lock()
		done, progress := s.acked.Load() >= target, s.progress
		s.mu.Unlock()
		if done {
			return nil
		}
		notify(s.full)
		notify(s.wake)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return ErrClosed
		case <-progress:
		}
	}
}

// sweep marks segments whose rows the sink has, and removes old ones. Records of open requests are
// first moved to the last segment, so that a long stream does not keep old segments.
func (s *Spool) sweep(to position) {
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.segs, func(g *segment) bool { return g.sent.IsZero() })
		seg := s.segs[i]
		done := i == len(s.segs)-1 || seg.id >= to.seg
		s.mu.Unlock()
		if done || !s.moveOpen(seg) || s.sync() != nil {
			break
		}
		s.mu.Lock()
		seg.sent = time.Now()
		s.bytes.Add(-seg.size)
		s.mu.Unlock()
	}
	for s.removeOldest() {
	}
}

// removeOldest removes the oldest segment if the sink has had it for long enough and the counters have
// its rows. It reports whether it did.
func (s *Spool) removeOldest() bool {
	counted := s.counted()
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept int64
	for _, seg := range s.segs {
		if !seg.sent.IsZero() {
			kept += seg.size
		}
	}
	seg := s.segs[0]
	if seg.sent.IsZero() || !counted.After(seg.sent) || kept <= maxKept && time.Since(seg.sent) < s.o.Keep {
		return false
	}
	s.segs = s.segs[1:]
	_ = seg.file.Close()
	_ = os.Remove(filepath.Join(s.dir, segmentName(seg.id)))
	return true
}

// counted returns a time before which everything is stored in the counters.
func (s *Spool) counted() time.Time {
	if s.counters == nil {
		return time.Now()
	}
	return s.counters.CountedUntil()
}

// moveOpen copies the records of open requests from a segment to the last one. It releases the lock
// regularly, so that requests can proceed.
func (s *Spool) moveOpen(seg *segment) bool {
	var buf []byte
	for n := 0; ; {
		s.mu.Lock()
		for stop := n + 256; n < min(stop, len(s.open)); n++ {
			e := s.open[n]
			if e == nil || e.seg != seg {
				continue
			}
			buf = append(buf[:0], make([]byte, e.size)...)
			if err := s.moveEntry(e, buf); err != nil {
				s.mu.Unlock()
				return s.recordWrite(err) == nil
			}
		}
		end, left := n >= len(s.open), seg.open
		s.mu.Unlock()
		if end {
			return left == 0
		}
	}
}

// moveEntry copies one record. The caller holds mu.
func (s *Spool) moveEntry(e *Entry, buf []byte) error {
	old := e.seg
	_, err := old.file.ReadAt(buf, e.off)
	if err != nil || openFrame(buf) == nil {
		// The request can still end, but it gets no row if the process dies.
		s.reportCorrupt("own", 1)
		e.seg = s.segs[len(s.segs)-1]
		e.seg.open++
	} else if err := s.write(buf, e); err != nil {
		return err
	} else if e.grown != 0 {
		e.writeGrown()
	}
	old.open--
	return nil
}

// reportCorrupt counts and logs corrupt places.
func (s *Spool) reportCorrupt(folder string, n int) {
	if n > 0 {
		s.corrupt.Add(int64(n))
		s.o.Logger.Error("usage spool is corrupt; unreadable records were skipped", "folder", folder, "count", n)
	}
}

const positionSize = 28

// savePosition stores the position, so that rows are not sent again after a restart. Sending them again
// would be harmless, so errors are ignored.
func savePosition(dir string, p position, row int64) {
	f, err := os.OpenFile(filepath.Join(dir, positionName), os.O_WRONLY|os.O_CREATE, 0o600) //nolint:gosec // our own folder
	if err != nil {
		return
	}
	defer f.Close()
	b := binary.LittleEndian.AppendUint64(nil, p.seg)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.off))
	b = binary.LittleEndian.AppendUint64(b, uint64(row))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, _ = f.WriteAt(b, 0)
}

// loadPosition returns the stored position in the files, and the number of the last row before it.
func loadPosition(dir string) (p position, row int64) {
	b, err := os.ReadFile(filepath.Join(dir, positionName)) //nolint:gosec // our own folder
	if err != nil || len(b) != positionSize || crc32.Checksum(b[:positionSize-4], castagnoli) != binary.LittleEndian.Uint32(b[positionSize-4:]) {
		return position{}, 0
	}
	return position{seg: binary.LittleEndian.Uint64(b), off: int64(binary.LittleEndian.Uint64(b[8:]))}, int64(binary.LittleEndian.Uint64(b[16:]))
}
