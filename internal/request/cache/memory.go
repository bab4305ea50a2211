package cache

import (
	"context"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// overhead is the approximate memory of an entry besides its bytes: its key, its node and
// its position in the eviction lists.
const overhead = 256

// Memory is a Store in this process with a limit in bytes. It evicts by recent frequency
// of use, so that one tenant's scan over many requests does not evict frequently used
// entries of others.
type Memory struct {
	values *otter.Cache[Key, held]
}

type held struct {
	value []byte
	ttl   time.Duration
}

// DefaultSize is the default limit of Memory in bytes.
const DefaultSize = 256 << 20

// NewMemory returns a Memory of up to size bytes; 0 means DefaultSize. The caller must
// close it.
func NewMemory(size int64) (*Memory, error) {
	if size <= 0 {
		size = DefaultSize
	}
	c, err := otter.New(&otter.Options[Key, held]{
		MaximumWeight: uint64(size),
		Weigher: func(_ Key, h held) uint32 {
			return uint32(min(cap(h.value)+overhead, math.MaxUint32))
		},
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[Key, held]) time.Duration { return e.Value.ttl }),
		// Maintenance is short and runs in the writing goroutine, so that no further
		// goroutine has to be stopped.
		Executor: func(work func()) { work() },
	})
	if err != nil {
		return nil, err
	}
	return &Memory{values: c}, nil
}

// Get returns the value of a key, or nil.
func (m *Memory) Get(_ context.Context, k Key) []byte {
	h, _ := m.values.GetIfPresent(k)
	return h.value
}

// Put stores a value.
func (m *Memory) Put(k Key, value []byte, ttl time.Duration) {
	m.values.Set(k, held{value: value, ttl: ttl})
}

// Size returns the stored bytes and the number of responses.
func (m *Memory) Size() (bytes int64, responses int) {
	return int64(m.values.WeightedSize()), m.values.EstimatedSize()
}

// Close stops the cache's goroutines.
func (m *Memory) Close() {
	m.values.StopAllGoroutines()
}
