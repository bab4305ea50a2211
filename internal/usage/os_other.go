//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package usage

import "os"

// step is memory of the process alone: progress is not kept here, and a request that
// was lost is charged for nothing.
type step struct{ slots *[stepSlots]slot }

func mapStep(*os.File, int64) (step, error) { return step{new([stepSlots]slot)}, nil }

func (s *step) unmap() {}

// lock relies on the system to refuse the removal of a file that another has open.
func lock(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}
