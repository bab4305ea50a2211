package usage

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes what was written outlive a loss of power.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
