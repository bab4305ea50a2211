//go:build !unix

package main

// disableCoreDumps does nothing: the system has no core dumps.
func disableCoreDumps() error { return nil }
