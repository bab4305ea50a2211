//go:build unix

package main

import "syscall"

// disableCoreDumps keeps the kernel from writing the memory of this process, which has keys
// and prompts, to a file when it crashes.
func disableCoreDumps() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
