package usage

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Sink is where rows go. A row that it has already changes nothing. An error is about
// the whole batch, which is given again until it is taken: a sink must not refuse a row
// for what is in it, or nothing behind it gets through.
type Sink interface {
	Append(ctx context.Context, rows []Row) error
}

const (
	batchRows   = 500
	batchWait   = 200 * time.Millisecond
	appendLimit = 30 * time.Second // a store that hangs is asked again
	backoffMin  = 100 * time.Millisecond
	backoffMax  = 5 * time.Second
)

// Drain carries rows to the sink until ctx ends or the spool is closed: those of this
// process, and those that dead ones left. A request that had begun in a dead process
// and not ended there becomes a row with the outcome Lost, made from what is on disk;
// settled is called with each such row as soon as it is made, whether or not the sink
// takes it, and again if this process dies before the sink has. A second Drain waits for
// the first.
func (s *Spool) Drain(ctx context.Context, to Sink, settled func(Row)) {
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

	a := adopter{s: s, to: to, settled: settled, turn: make(chan struct{}, 1)}
	a.work.Go(func() { a.run(ctx) })
	s.drainOwn(ctx, to)
	a.work.Wait()
}

// signal tells Drain of rows that wait.
func (s *Spool) signal(rows int64) {
	if rows >= batchRows {
		poke(s.full)
	}
	poke(s.wake)
}

func (s *Spool) drainOwn(ctx context.Context, to Sink) {
	s.mu.Lock()
	at := cursor{s: s, position: s.drained, frames: frames{off: s.drained.off}}
	s.mu.Unlock()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		rows := s.ended.Load() - s.acked.Load()
		if rows <= 0 {
			at.frames.rest = nil // the buffer is large; an idle process needs none
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		if rows < batchRows {
			timer.Reset(batchWait)
			select {
			case <-ctx.Done():
				return
			case <-s.full:
			case <-timer.C:
			}
		}
		batch := at.read(batchRows)
		if len(batch) > 0 && !s.send(ctx, to, batch) {
			return
		}
		s.acknowledge(&at, batch)
	}
}

// send gives rows to the sink until it takes them. It reports false where ctx ended.
func (s *Spool) send(ctx context.Context, to Sink, rows []Row) bool {
	for wait := backoffMin; ; wait = min(2*wait, backoffMax) {
		c, cancel := context.WithTimeout(ctx, appendLimit)
		err := to.Append(c, rows)
		cancel()
		if err == nil {
			s.sink.pass(s.o.Logger, "usage rows are taken again")
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.sink.fail(s.o.Logger, "usage rows are not taken and stay in the spool", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait/2 + rand.N(wait/2)): //nolint:gosec // it only spreads load
		}
	}
}

// position is up to where rows were acknowledged.
type position struct {
	seg uint64
	off int64
}

// cursor reads rows of this process in the order in which they ended.
type cursor struct {
	s *Spool
	position
	frames frames
	atEnd  bool // everything written was read
}

// read gives up to n rows.
func (c *cursor) read(n int) (rows []Row) {
	for len(rows) < n {
		body, end, ok := c.frames.next()
		c.off = end
		if !ok {
			if c.s.corrupted("own", c.frames.broken()); !c.load() {
				return rows
			}
			continue
		}
		if len(body) == 0 || kind(body[0]) != kindEnded {
			continue
		}
		if row, err := readRow(body[1:]); err == nil {
			rows = append(rows, row)
		} else {
			c.s.corrupted("own", 1)
		}
	}
	return rows
}

// load reads what was written since, in this segment or the next.
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
	c.s.mu.Unlock()
	c.atEnd = seg == nil || c.off >= size
	c.frames = frames{off: c.off}
	if c.atEnd {
		return false
	}
	buf := make([]byte, size-c.off)
	n, err := seg.file.ReadAt(buf, c.off)
	if err != nil {
		c.s.corrupted("own", 1)
	}
	// What cannot be read is passed over, as is what is broken.
	c.frames = frames{rest: buf[:n], off: size - int64(n)}
	return true
}

// acknowledge notes that the sink has everything before the cursor.
func (s *Spool) acknowledge(at *cursor, batch []Row) {
	s.mu.Lock()
	s.acked.Add(int64(len(batch)))
	last := s.segs[len(s.segs)-1]
	if len(batch) == 0 && at.atEnd && at.seg == last.id && at.off >= last.size {
		// Rows that are broken on disk are not waited for.
		s.acked.Store(s.ended.Load())
	}
	s.drained = at.position
	close(s.progress)
	s.progress = make(chan struct{})
	s.mu.Unlock()
	if n := len(batch); n > 0 {
		s.oldest.Store(batch[n-1].Began.Add(batch[n-1].Took).UnixNano())
	}
	savePosition(s.dir, at.position)
	s.sweep(at.position)
}

// Flush returns when the sink has all rows of this process that have ended until now.
func (s *Spool) Flush(ctx context.Context) error {
	target := s.ended.Load()
	for {
		s.mu.Lock()
		done, progress := s.acked.Load() >= target, s.progress
		s.mu.Unlock()
		if done {
			return nil
		}
		poke(s.full)
		poke(s.wake)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return ErrClosed
		case <-progress:
		}
	}
}

// sweep removes segments whose rows the sink has. Entries that are open are carried to
// the last segment first, so that one long stream does not hold up the disk.
func (s *Spool) sweep(to position) {
	for {
		s.mu.Lock()
		seg := s.segs[0]
		done := len(s.segs) == 1 || seg.id >= to.seg
		s.mu.Unlock()
		if done || !s.carry(seg) || s.sync() != nil {
			return
		}
		s.syncMu.Lock()
		s.mu.Lock()
		s.segs = s.segs[1:]
		s.bytes.Add(-seg.size)
		s.mu.Unlock()
		_ = seg.file.Close()
		s.syncMu.Unlock()
		_ = os.Remove(filepath.Join(s.dir, segmentName(seg.id)))
	}
}

// carry writes the openings that stand in a segment once more, behind all others. It
// gives requests a chance in between.
func (s *Spool) carry(seg *segment) bool {
	var buf []byte
	for n := 0; ; {
		s.mu.Lock()
		for stop := n + 256; n < min(stop, len(s.open)); n++ {
			e := s.open[n]
			if e == nil || e.seg != seg {
				continue
			}
			buf = append(buf[:0], make([]byte, e.size)...)
			if err := s.carryOne(e, buf); err != nil {
				s.mu.Unlock()
				return s.wrote(err) == nil
			}
		}
		end, left := n >= len(s.open), seg.open
		s.mu.Unlock()
		if end {
			return left == 0
		}
	}
}

// carryOne has mu.
func (s *Spool) carryOne(e *Entry, buf []byte) error {
	old := e.seg
	_, err := old.file.ReadAt(buf, e.off)
	if err != nil || openFrame(buf) == nil {
		// Without its opening the request can still end. It cannot be lost any more.
		s.corrupted("own", 1)
		e.seg = s.segs[len(s.segs)-1]
		e.seg.open++
	} else if err := s.write(buf, e); err != nil {
		return err
	}
	old.open--
	return nil
}

// corrupted counts places that could not be read, and says so.
func (s *Spool) corrupted(folder string, n int) {
	if n > 0 {
		s.corrupt.Add(int64(n))
		s.o.Logger.Error("usage spool has places that cannot be read; they were passed over", "folder", folder, "count", n)
	}
}

const positionSize = 20

// savePosition keeps rows from being sent twice after a restart. That would do no harm,
// so a failure does none either.
func savePosition(dir string, p position) {
	f, err := os.OpenFile(filepath.Join(dir, positionName), os.O_WRONLY|os.O_CREATE, 0o600) //nolint:gosec // our own folder
	if err != nil {
		return
	}
	defer f.Close()
	b := binary.LittleEndian.AppendUint64(nil, p.seg)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.off))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	_, _ = f.WriteAt(b, 0)
}

func loadPosition(dir string) position {
	b, err := os.ReadFile(filepath.Join(dir, positionName)) //nolint:gosec // our own folder
	if err != nil || len(b) != positionSize || crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]) {
		return position{}
	}
	return position{seg: binary.LittleEndian.Uint64(b), off: int64(binary.LittleEndian.Uint64(b[8:]))}
}
