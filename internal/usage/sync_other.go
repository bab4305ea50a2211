//go:build !linux

package usage

import "os"

// syncData makes what was written outlive a loss of power.
func syncData(f *os.File) error { return f.Sync() }
