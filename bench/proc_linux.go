package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of all threads of a process since its start, in
// nanoseconds; /proc/PID/stat rounds it to hundredths of a second, the time of 70
// requests.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of a whole process, see clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// withParent ends a child with its parent, even when the parent is killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
