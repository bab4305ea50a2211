package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// segment is a file of records.
type segment struct {
	id     uint64
	file   *os.File
	size   int64 // bytes of complete records
	space  int64 // bytes allocated on disk
	synced int64 // size that is on disk; guarded by the spool's syncMu
	open   int   // open requests whose record is in this segment

	sent time.Time // when the sink had all rows of the segment; zero: not yet. A sent segment does not count in Spool.bytes.
}

const (
	// endSpace is allocated on disk for the row of each open request, so that the row can be written even
	// if the disk is full. A larger row is then written without its attempts.
	endSpace  = 1 << 10
	spaceStep = 256 << 10 // by which a segment grows
)

const segmentSuffix = ".seg"

func segmentName(id uint64) string { return fmt.Sprintf("%016d%s", id, segmentSuffix) }

func segmentID(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, ok && err == nil
}

// rotate creates a new segment with space for the rows of all open requests. The caller holds mu.
func (s *Spool) rotate() error {
	id := uint64(1)
	if n := len(s.segs); n > 0 {
		id = s.segs[n-1].id + 1
	}
	path := filepath.Join(s.dir, segmentName(id))
	f, err := create(path)
	if err != nil {
		return err
	}
	seg := &segment{id: id, file: f}
	if err := seg.reserve(s.begun.Load() - s.ended.Load() + 2); err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return err
	}
	if n := len(s.segs); n > 0 {
		s.segs[n-1].trim()
	}
	s.segs = append(s.segs, seg)
	s.fresh = true
	return nil
}

// reserve allocates space on disk for the rows of n open requests.
func (g *segment) reserve(n int64) error {
	need := g.size + n*endSpace
	if need <= g.space {
		return nil
	}
	need = (need + spaceStep - 1) / spaceStep * spaceStep
	if err := preallocate(g.file, need); err != nil {
		return err
	}
	g.space = need
	return nil
}

// trim frees the space that the segment does not use.
func (g *segment) trim() {
	if g.space > g.size {
		_ = g.file.Truncate(g.size)
		g.space = g.size
	}
}

// write completes a record and appends it. If e is not nil, the record is its opening. The caller
// holds mu.
func (s *Spool) write(rec []byte, e *Entry) error {
	finishFrame(rec)
	seg := s.segs[len(s.segs)-1]
	if seg.size > 0 && seg.size+int64(len(rec)) > s.o.segmentSize {
		// If no file can be created, continue with the old one.
		if s.rotate() == nil {
			seg = s.segs[len(s.segs)-1]
		}
	}
	if _, err := seg.file.WriteAt(rec, seg.size); err != nil {
		// Remove a partial record. This also frees the space for the rows of open requests, so allocate it again.
		_ = seg.file.Truncate(seg.size)
		seg.space = seg.size
		_ = seg.reserve(s.begun.Load() - s.ended.Load())
		return err
	}
	if e != nil {
		e.seg, e.off, e.size = seg, seg.size, len(rec)
		seg.open++
	}
	seg.size += int64(len(rec))
	s.written += int64(len(rec))
	s.bytes.Add(int64(len(rec)))
	return nil
}

// recordWrite counts and logs the result of a write, and returns it.
func (s *Spool) recordWrite(err error) error {
	switch {
	case err == nil:
		s.writes.pass(s.o.Logger, "usage spool is writable again")
		if !s.dirty.Load() && s.dirty.CompareAndSwap(false, true) {
			notify(s.syncWake)
		}
		return nil
	case !errors.Is(err, ErrClosed):
		s.failed.Add(1)
		s.writes.fail(s.o.Logger, "usage spool cannot be written", err)
	}
	return err
}

// syncEvery is the interval of syncs to disk. A power loss loses the records since the
// last one.
const syncEvery = 10 * time.Millisecond

// syncLoop syncs written records to disk, for all writers together. It blocks while nothing is
// written.
func (s *Spool) syncLoop() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.syncWake:
		}
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(syncEvery):
		}
		s.dirty.Store(false)
		_ = s.sync()
	}
}

// syncTo waits until the disk has everything up to pos. Concurrent calls share a sync.
func (s *Spool) syncTo(pos int64) error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if s.synced >= pos {
		return nil
	}
	return s.syncLocked()
}

func (s *Spool) sync() error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	return s.syncLocked()
}

func (s *Spool) syncLocked() error {
	type part struct {
		seg  *segment
		size int64
	}
	var parts []part
	s.mu.Lock()
	target, fresh := s.written, s.fresh
	s.fresh = false
	for _, seg := range s.segs {
		if seg.synced < seg.size {
			parts = append(parts, part{seg, seg.size})
		}
	}
	s.mu.Unlock()
	var err error
	for _, p := range parts {
		if e := syncData(p.seg.file); e != nil {
			err = e
			continue
		}
		p.seg.synced = p.size
	}
	if fresh {
		err = errors.Join(err, syncFolder(s.dir), syncFolder(s.o.Dir))
	}
	if err != nil {
		s.failed.Add(1)
		s.syncs.fail(s.o.Logger, "usage spool cannot be synced to disk", err)
		return err
	}
	s.syncs.pass(s.o.Logger, "usage spool is synced to disk again")
	s.synced = target
	return nil
}

func syncFolder(path string) error {
	d, err := os.Open(path) //nolint:gosec // our own folder
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// notify wakes the receiver of c, now or later.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
