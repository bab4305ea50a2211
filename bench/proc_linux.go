package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the CPU time of a process since it began, all of its threads together,
// also of those that have ended. The kernel counts it in nanoseconds; /proc/PID/stat
// rounds the same count to hundredths of a second, which is as long as 70 requests.
func cpuTime(pid int) (time.Duration, error) {
	const sched = 2 // CPUCLOCK_SCHED of a whole process, see clock_getcpuclockid(3)
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

// withParent makes a child end when we do, also when we are killed.
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
