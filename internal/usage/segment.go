package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// segment is one file of records.
type segment struct {
	id     uint64
	file   *os.File
	size   int64 // of whole records
	synced int64 // size that the disk has; with the spool's syncMu
	open   int   // entries whose opening stands here
}

const segmentSuffix = ".seg"

func segmentName(id uint64) string { return fmt.Sprintf("%016d%s", id, segmentSuffix) }

func segmentID(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	id, err := strconv.ParseUint(digits, 10, 64)
	return id, ok && err == nil
}

// rotate begins a segment. It has mu.
func (s *Spool) rotate() error {
	id := uint64(1)
	if n := len(s.segs); n > 0 {
		id = s.segs[n-1].id + 1
	}
	f, err := create(filepath.Join(s.dir, segmentName(id)))
	if err != nil {
		return err
	}
	s.segs = append(s.segs, &segment{id: id, file: f})
	s.fresh = true
	return nil
}

// write completes a record and appends it. Where e is given, the record is its
// opening. It has mu.
func (s *Spool) write(rec []byte, e *Entry) error {
	seal(rec)
	seg := s.segs[len(s.segs)-1]
	if seg.size > 0 && seg.size+int64(len(rec)) > s.o.segment {
		// Where no file can be made, an old one that is too long is better than none.
		if s.rotate() == nil {
			seg = s.segs[len(s.segs)-1]
		}
	}
	if _, err := seg.file.WriteAt(rec, seg.size); err != nil {
		// What was written of it would be in the way of a reader.
		_ = seg.file.Truncate(seg.size)
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

// wrote counts and logs what became of a write, and returns it.
func (s *Spool) wrote(err error) error {
	switch {
	case err == nil:
		s.writes.pass(s.o.Logger, "usage spool can be written again")
		if !s.dirty.Load() && s.dirty.CompareAndSwap(false, true) {
			poke(s.syncWake)
		}
		return nil
	case !errors.Is(err, ErrClosed):
		s.failed.Add(1)
		s.writes.fail(s.o.Logger, "usage spool cannot be written", err)
	}
	return err
}

// syncEvery is the most that a loss of power costs.
const syncEvery = 10 * time.Millisecond

// keepSynced brings to the disk what was written, for all writers together. It rests
// while nothing is.
func (s *Spool) keepSynced() {
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

// syncTo returns when the disk has what was written up to pos. Many that wait together
// share one wait.
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
		s.syncs.fail(s.o.Logger, "usage spool cannot be brought to the disk", err)
		return err
	}
	s.syncs.pass(s.o.Logger, "usage spool is brought to the disk again")
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

// poke wakes whoever waits for c, now or later.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
