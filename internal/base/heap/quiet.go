package heap

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// look is how often collectQuiet looks at the heap.
	look = time.Second
	// minGarbage and garbageShare are the garbage and free memory that are worth a collection: so many bytes, and
	// this part of what is live.
	minGarbage   = 4 << 20
	garbageShare = 16
	// burst is how much more a look must find before another collection is worth it. Without a burst the share is
	// slowShare: a process that allocates little for hours is nearly left to the runtime.
	burst     = 1 << 20
	slowShare = 2
	// quietLooks is how many more looks the heap would need to have as much garbage again, when it is quiet.
	quietLooks = 15
)

// collectQuiet collects the garbage of a process that allocates little after it has allocated much, until the context
// ends. Open streams wait with the garbage of their requests, and with stacks of the size that their beginning needed:
// the next collection, which halves such stacks, may be minutes away.
func collectQuiet(ctx context.Context) {
	var q quiet
	every := time.NewTicker(look)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			if q.worth(readUse()) {
				collect()
			}
		}
	}
}

// collect runs two collections, since each halves stacks once, and returns free memory to the system. The runtime
// alone would keep as much as it expects to need until its next collection.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// quiet decides when a collection is worth its CPU time.
type quiet struct {
	before uint64 // bytes of all objects at the last look
	busy   bool   // much was allocated since the last collection that was worth it
}

// worth reports whether a heap has much garbage and free memory, for example after a burst, and little more than at the
// last look.
func (q *quiet) worth(h use) bool {
	grown, fell := h.objects-q.before, h.objects < q.before
	q.before = h.objects
	if fell || h.objects < h.live {
		return false
	}
	q.busy = q.busy || grown >= burst
	garbage, share := h.objects-h.live+h.free, uint64(slowShare)
	if q.busy {
		share = garbageShare
	}
	if garbage < max(minGarbage, h.live/share) || grown > garbage/quietLooks {
		return false
	}
	q.busy = false
	return true
}

// use is the memory of the heap in bytes.
type use struct {
	objects uint64 // all of them
	live    uint64 // those that the last collection has kept
	free    uint64 // not returned to the system
}

func readUse() use {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	return use{value(0), value(1), value(2)}
}
