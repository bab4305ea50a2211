//go:build unix

package limit

import (
	"math"
	"syscall"
)

// openFiles is how many descriptors the process may have.
func openFiles() (int, bool) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 0, false
	}
	return int(min(uint64(lim.Cur), math.MaxInt32)), true //nolint:unconvert // signed on some systems
}
