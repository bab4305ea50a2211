package cache

import (
	"context"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
)

// overhead is about what a value costs besides its bytes: its key, its node and its
// place in the policy's lists.
const overhead = 256

// Memory keeps cached answers in this process, up to a number of bytes. What is worth
// keeping is decided by how often a value was asked for lately, so that one tenant's
// run through many requests does not push out what others ask for all the time.
type Memory struct {
	values *otter.Cache[Key, held]
}

type held struct {
	value []byte
	ttl   time.Duration
}

// DefaultSize is what Memory holds where nothing is said, in bytes.
const DefaultSize = 256 << 20

// NewMemory returns a store of up to size bytes; 0 is DefaultSize. Close it at the end.
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
		// Its upkeep is short, and in the writer's own time: writers wait for nobody
		// else, and there is no goroutine to wait for at the end.
		Executor: func(work func()) { work() },
	})
	if err != nil {
		return nil, err
	}
	return &Memory{values: c}, nil
}

// Get returns the value at a key.
func (m *Memory) Get(_ context.Context, k Key) []byte {
	h, _ := m.values.GetIfPresent(k)
	return h.value
}

// Put keeps a value.
func (m *Memory) Put(k Key, value []byte, ttl time.Duration) {
	m.values.Set(k, held{value: value, ttl: ttl})
}

// Size is how many bytes are held, and for how many answers.
func (m *Memory) Size() (bytes int64, answers int) {
	return int64(m.values.WeightedSize()), m.values.EstimatedSize()
}

// Close ends the upkeep.
func (m *Memory) Close() {
	m.values.StopAllGoroutines()
}
