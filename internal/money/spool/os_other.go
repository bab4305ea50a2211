//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package spool

import "os"

// slotPage is memory of the process. On this system counts do not survive a kill, so a lost request
// is charged nothing.
type slotPage struct{ slots *[pageSlots]slot }

func mapSlotPage(*os.File, int64) (slotPage, error) { return slotPage{new([pageSlots]slot)}, nil }

func (s *slotPage) unmap() {}

// lock relies on the system to refuse the removal of a file that another process has open.
func lock(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}
