// Package heap sets how often the garbage collector runs.
package heap

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// minSize is the size of the heap at which a collection starts. With the runtime's default, which is twice
	// the live heap, the small heap of a gateway with few streams is collected many times a second.
	minSize = 64 << 20
	// limitShare is the part of the memory limit that the heap may have before a collection.
	limitShare = 8

	defaultPercent = 100
	firstSize      = 4 << 20 // of the heap at the first collection, with the default
)

// tuner sets the percentage of the collector after each collection.
type tuner struct {
	stopped atomic.Bool
	percent int
}

// Tune makes collections start at 64 MiB, or an eighth of the memory limit if that is less. When half of
// this is live, the default of the runtime holds. It also collects when the process has become quiet, until the
// context ends. The environment variable GOGC takes precedence.
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		start()
		go collectQuiet(ctx)
	}
}

func start() *tuner {
	t := &tuner{percent: defaultPercent}
	t.set(percent(0, 0, size()))
	t.watch()
	return t
}

// mark is an object whose cleanup runs after a collection. It has a pointer: the runtime puts small objects
// without pointers into blocks with others, which may live longer.
type mark struct{ *tuner }

// watch calls adjust after the next collection.
func (t *tuner) watch() { runtime.AddCleanup(&mark{t}, (*tuner).adjust, t) }

func (t *tuner) adjust() {
	if t.stopped.Load() {
		return
	}
	live, roots := last()
	t.set(percent(live, roots, size()))
	t.watch()
}

// set sets the percentage. It stops all goroutines for a moment, so it ignores a small increase.
func (t *tuner) set(percent int) {
	if percent < t.percent || percent > t.percent+t.percent/4 {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
}

// percent returns the percentage with which the next collection starts at a size. The runtime multiplies it by
// the live heap and the roots.
func percent(live, roots, size int64) int {
	return max(defaultPercent, int(defaultPercent*(size-live)/max(live+roots, firstSize)))
}

// size returns the size of the heap at which collections start.
func size() int64 { return min(minSize, debug.SetMemoryLimit(-1)/limitShare) }

// last returns two sizes of the last collection: the objects that it kept, and the stacks and global
// variables that it read.
func last() (live, roots int64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	value := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return value(0), value(1) + value(2)
}
