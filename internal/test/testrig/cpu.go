package testrig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CPUTime is the CPU time of this machine since it started, in ticks. The zero value
// means that the system does not report it.
type CPUTime struct {
	used   int64 // by this machine
	stolen int64 // by other machines on the same host, while this one wanted to run
	idle   int64
}

// ReadCPUTime reads the CPU time so far.
func ReadCPUTime() CPUTime {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUTime{}
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	return parseCPUTime(line)
}

// parseCPUTime parses the first line of /proc/stat:
// cpu user nice system idle iowait irq softirq steal.
func parseCPUTime(line string) (t CPUTime) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return CPUTime{}
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return CPUTime{}
		}
		switch i {
		case 3, 4: // idle and iowait
			t.idle += n
		case 7:
			t.stolen = n
		default:
			t.used += n
		}
	}
	return t
}

// Stolen returns the share of the CPU time that this machine wanted since then and did
// not get, 0 to 1.
func (t CPUTime) Stolen() float64 {
	d := ReadCPUTime().since(t)
	return share(d.stolen, d.used+d.stolen)
}

// Busy returns the share of the CPU time since then in which the machine was not idle, 0
// to 1.
func (t CPUTime) Busy() float64 {
	d := ReadCPUTime().since(t)
	return share(d.used+d.stolen, d.used+d.stolen+d.idle)
}

// Load describes how busy the machine has been since then.
func (t CPUTime) Load() string {
	average, _ := os.ReadFile("/proc/loadavg")
	minute, _, _ := strings.Cut(string(average), " ")
	return fmt.Sprintf("the processors were busy for %.0f %% of the time, %.0f %% was stolen, load average %s", 100*t.Busy(), 100*t.Stolen(), minute)
}

func (t CPUTime) since(then CPUTime) CPUTime {
	return CPUTime{used: t.used - then.used, stolen: t.stolen - then.stolen, idle: t.idle - then.idle}
}

func share(part, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(part) / float64(of)
}

// ProcessorTime returns the CPU time that this process has used. Unlike the time of day it
// does not depend on what else the machine does.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
