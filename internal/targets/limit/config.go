package limit

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Config is a set of limits on concurrent requests. Requests above a limit
// wait in the queue or are refused at once, with Retry-After.
type Config struct {
	// Open requests of the process. The default, 0, is what its file descriptors
	// allow.
	Requests int `key:"requests" minimum:"0" example:"2000"`
	// Open requests of one key. The default, 0, sets no limit.
	PerKey int `key:"per_key" minimum:"0" example:"64"`
	// Open requests of one target. The default, 0, sets no limit.
	PerTarget int `key:"per_target" minimum:"0" example:"256"`
	// Requests that may wait.
	Queue int `key:"queue" default:"1000" minimum:"0" example:"200"`
	// Time that each may wait.
	Wait time.Duration `key:"wait" default:"5s" example:"2s"`
	// Lower a target's limit when its first token slows down, and raise it again.
	// The default is false.
	Adaptive bool `key:"adaptive" example:"true"`
	// Memory use near which requests are refused. The default, 0, is four fifths of
	// the container's limit, if there is one.
	Memory int64 `key:"memory" is:"bytes" example:"2GiB"`
}

const (
	defaultWait = 5 * time.Second

	// spareFiles is the number of descriptors for listeners, the log, stores and idle
	// connections.
	spareFiles = 128

	memoryShare = 0.8
)

// requests returns the limit of the process; 0 means none.
func (c Config) requests() int {
	if c.Requests != 0 {
		return max(c.Requests, 0)
	}
	files, ok := openFiles()
	if !ok {
		return 0
	}
	// A request has one connection to the client and one to the upstream.
	return max((files-spareFiles)/2, 1)
}

// Connections returns how many connections clients may have; 0 means no limit. A third of the
// descriptors is for connections to upstreams.
func (c Config) Connections() int {
	files, ok := openFiles()
	if !ok {
		return 0
	}
	return max((files-spareFiles)*2/3, 8)
}

// SetRuntimeLimit makes the garbage collector keep the process below the memory limit. The
// environment variable GOMEMLIMIT takes precedence.
func (c Config) SetRuntimeLimit() {
	if limit := c.memory(); limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// memory returns the limit in bytes; 0 means none.
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

// bytes returns the limit of the memory of bodies and of their translation; 0 means none.
func (c Config) bytes() int64 {
	limit := c.memory()
	if limit == 0 && c.Memory == 0 {
		whole, err := memlimit.FromSystem()
		if err != nil {
			return 0
		}
		limit = int64(float64(whole) * memoryShare)
	}
	return int64(float64(limit) * bytesShare)
}

func (c Config) process() bounds {
	n := c.requests()
	reserve := n / 5
	if c.Requests == 0 { // the number of descriptors says little about overload
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
