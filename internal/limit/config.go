package limit

import (
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Config says how much may be open at once.
type Config struct {
	Requests  int // in the process; 0 means as many as half of the descriptors serve, less than 0 no limit
	PerKey    int // for one caller; 0 means no limit
	PerTarget int // at one target that has no figure of its own; 0 means no limit

	Queue int           // how many may wait: for the process, and for each target; 0 means none
	Wait  time.Duration // for how long; 0 means 5 s

	Adaptive bool  // targets' limits follow the time to first token, below what is configured
	Memory   int64 // bytes the process should stay below; 0 means 80 % of the container's limit where it has one, less than 0 no limit
}

const (
	defaultWait = 5 * time.Second

	// spareFiles are descriptors that are not for requests: listeners, the log,
	// stores, idle connections.
	spareFiles = 128

	memoryShare = 0.8
)

// requests is the process's limit, 0 for none.
func (c Config) requests() int {
	if c.Requests != 0 {
		return max(c.Requests, 0)
	}
	files, ok := openFiles()
	if !ok {
		return 0
	}
	// One connection to the client, one to the upstream.
	return max((files-spareFiles)/2, 1)
}

// memory is the process's limit in bytes, 0 for none.
func (c Config) memory() int64 {
	if c.Memory != 0 {
		return max(c.Memory, 0)
	}
	whole, err := memlimit.FromCgroup()
	if err != nil { // no container, or one without a limit
		return 0
	}
	return int64(float64(whole) * memoryShare)
}

func (c Config) process() bounds {
	n := c.requests()
	reserve := n / 5
	if c.Requests == 0 { // what the descriptors allow is nobody's estimate of what is too much
		reserve = n / 50
	}
	return bounds{limit: n, reserve: reserve, perKey: max(c.PerKey, 0), queue: c.Queue, wait: c.wait()}
}

func (c Config) target(limit int) bounds {
	return bounds{limit: limit, queue: c.Queue, wait: c.wait()}
}

func (c Config) wait() time.Duration {
	if c.Wait == 0 {
		return defaultWait
	}
	return c.Wait
}
