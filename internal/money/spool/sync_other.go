//go:build !linux

package spool

import "os"

// syncData makes written data survive a power loss.
func syncData(f *os.File) error { return f.Sync() }

// preallocate does nothing: only Linux has a call that leaves the size alone.
func preallocate(*os.File, int64) error { return nil }
