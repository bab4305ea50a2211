//go:build unix

package limit

import (
	"math"
	"syscall"
)

// openFiles returns the maximum number of file descriptors of the process.
func openFiles() (int, bool) {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return 0, false
	}
	return int(min(uint64(lim.Cur), math.MaxInt32)), true //nolint:unconvert // signed on some systems
}
