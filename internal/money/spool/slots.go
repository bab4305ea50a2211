package spool

import (
	"encoding/binary"
	"os"
	"sync/atomic"
)

// slot counts the delivered tokens of one open request: two words in a memory-mapped file, so that
// the count survives a kill without a system call. The tag identifies the request: after a power
// loss the file may be older than the records.
type slot struct {
	tag   atomic.Int64
	count atomic.Int64
}

const (
	slotSize  = 16
	pageSlots = 4096
	pageSize  = slotSize * pageSlots // a multiple of every page size in use
)

// slots hands out slots. It grows by pages, which do not move.
type slots struct {
	file  *os.File
	pages []slotPage
	free  []int64
}

// acquire returns a free slot and its number.
func (s *slots) acquire(tag int64) (int64, *slot, error) {
	if len(s.free) == 0 {
		if err := s.grow(); err != nil {
			return 0, nil, err
		}
	}
	n := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	p := &s.pages[n/pageSlots].slots[n%pageSlots]
	p.count.Store(0)
	p.tag.Store(tag)
	return n, p, nil
}

func (s *slots) release(n int64) { s.free = append(s.free, n) }

func (s *slots) grow() error {
	first := int64(len(s.pages)) * pageSlots
	// Write zeros instead of leaving a hole: if the disk were full, the first count in
	// a missing page would be a fatal signal.
	if _, err := s.file.WriteAt(make([]byte, pageSize), first*slotSize); err != nil {
		return err
	}
	m, err := mapSlotPage(s.file, first*slotSize)
	if err != nil {
		return err
	}
	s.pages = append(s.pages, m)
	for n := first + pageSlots - 1; n >= first; n-- {
		s.free = append(s.free, n)
	}
	return nil
}

// close unmaps the memory. No slot may be in use.
func (s *slots) close() {
	for i := range s.pages {
		s.pages[i].unmap()
	}
	s.pages = nil
}

// countOf reads a count from the file of a dead process. It is 0 if the slot does not have the tag.
func countOf(file []byte, n, tag int64) int64 {
	if n < 0 || n >= int64(len(file)/slotSize) {
		return 0
	}
	b := file[n*slotSize:]
	if int64(binary.NativeEndian.Uint64(b)) != tag {
		return 0
	}
	return max(0, int64(binary.NativeEndian.Uint64(b[8:])))
}
