//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package spool

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slotPage is a mapped part of the slots file.
type slotPage struct {
	slots  *[pageSlots]slot
	memory []byte
}

func mapSlotPage(f *os.File, off int64) (slotPage, error) {
	m, err := unix.Mmap(int(f.Fd()), off, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return slotPage{}, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	// A mapping is page-aligned, so the words are aligned too.
	return slotPage{(*[pageSlots]slot)(unsafe.Pointer(unsafe.SliceData(m))), m}, nil //nolint:gosec // the only way to count in a mapped file
}

func (s *slotPage) unmap() { _ = unix.Munmap(s.memory) }

// lock locks a folder until the process ends or the file is closed. It fails if another process has
// the lock.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // a path of our own folder
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, nil
}
