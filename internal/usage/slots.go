package usage

import (
	"encoding/binary"
	"os"
	"sync/atomic"
)

// slot is where the progress of one open request is counted: two words in a file that
// is mapped into memory, so that a count outlives a kill without a system call. The tag
// says whose count it is, for the machine may lose power between two writes.
type slot struct {
	tag   atomic.Int64
	count atomic.Int64
}

const (
	slotSize  = 16
	stepSlots = 4096
	stepSize  = slotSize * stepSlots // a multiple of every page size in use
)

// slots hands out slots. It grows in steps that stay where they are.
type slots struct {
	file  *os.File
	steps []step
	free  []int64
}

// take gives a free slot, with its number.
func (s *slots) take(tag int64) (int64, *slot, error) {
	if len(s.free) == 0 {
		if err := s.grow(); err != nil {
			return 0, nil, err
		}
	}
	n := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	p := &s.steps[n/stepSlots].slots[n%stepSlots]
	p.count.Store(0)
	p.tag.Store(tag)
	return n, p, nil
}

func (s *slots) put(n int64) { s.free = append(s.free, n) }

func (s *slots) grow() error {
	first := int64(len(s.steps)) * stepSlots
	// The zeros are written, not left as a hole: a page that the disk has no room for
	// would otherwise be found missing by the first count, which is a fatal signal.
	if _, err := s.file.WriteAt(make([]byte, stepSize), first*slotSize); err != nil {
		return err
	}
	m, err := mapStep(s.file, first*slotSize)
	if err != nil {
		return err
	}
	s.steps = append(s.steps, m)
	for n := first + stepSlots - 1; n >= first; n-- {
		s.free = append(s.free, n)
	}
	return nil
}

// close gives the memory back. Nobody may count any more.
func (s *slots) close() {
	for i := range s.steps {
		s.steps[i].unmap()
	}
	s.steps = nil
}

// countOf reads a count from the file of a dead process. It is 0 where the slot is
// not, or no longer, the one that was given out under the tag.
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
