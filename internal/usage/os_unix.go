//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package usage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// step is a part of the slots' file in memory.
type step struct {
	slots  *[stepSlots]slot
	memory []byte
}

func mapStep(f *os.File, off int64) (step, error) {
	m, err := unix.Mmap(int(f.Fd()), off, stepSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return step{}, &os.PathError{Op: "mmap", Path: f.Name(), Err: err}
	}
	// A mapping begins at a page, so the words in it are aligned.
	return step{(*[stepSlots]slot)(unsafe.Pointer(unsafe.SliceData(m))), m}, nil //nolint:gosec // the only way to count in a mapped file
}

func (s *step) unmap() { _ = unix.Munmap(s.memory) }

// lock takes the lock of a folder, which ends with the process or when the file is
// closed. It is an error where another holds it.
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
