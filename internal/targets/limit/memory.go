package limit

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// memory refuses requests when the process is near its memory limit. It reads the
// usage when a request arrives, at most four times a second, and needs no goroutine.
type memory struct {
	read    func(limit int64) usage
	collect func()

	limit    atomic.Int64 // 0 means none
	used     atomic.Int64
	level    atomic.Int32 // number of refused classes, the least important first
	requests atomic.Uint32
	next     atomic.Int64 // when to read again
	cycles   atomic.Uint64
	cycled   atomic.Int64 // when cycles last changed
	running  atomic.Bool  // a garbage collection that memory has started
}

// usage is the memory usage of the process.
type usage struct {
	bytes  int64
	cycles uint64 // of the garbage collector
}

const (
	memoryEvery = 250 * time.Millisecond
	memoryRetry = 5 * time.Second
	memoryStale = time.Second // time without a garbage collection after which memory starts one
	memoryAsk   = 8           // requests per reading of the clock while no class is refused
	memoryEase  = 0.05        // how far below its mark usage must fall before a class is admitted again
)

// memoryMarks holds the shares of the limit above which one, two and all classes are
// refused.
var memoryMarks = [classes]float64{0.85, 0.90, 0.95}

func newMemory() *memory { return &memory{read: readMemory, collect: runtime.GC} }

func (m *memory) use(limit int64) {
	m.limit.Store(limit)
	m.next.Store(0)
	m.level.Store(0)
	m.requests.Store(0)
}

// refuses reports whether a class is refused.
func (m *memory) refuses(class Class, clock func() time.Duration) bool {
	limit := m.limit.Load()
	if limit == 0 {
		return false
	}
	if m.level.Load() == 0 && m.requests.Add(1)%memoryAsk != 1 {
		return false
	}
	now := clock()
	if next := m.next.Load(); int64(now) >= next && m.next.CompareAndSwap(next, int64(now+memoryEvery)) {
		m.look(limit, now)
	}
	return int(class) >= classes-int(m.level.Load())
}

// look reads the usage and sets the level. Calls do not overlap.
func (m *memory) look(limit int64, now time.Duration) {
	u := m.read(limit)
	m.used.Store(u.bytes)
	level, share := int(m.level.Load()), float64(u.bytes)/float64(limit)
	for level < classes && share >= memoryMarks[level] {
		level++
	}
	for level > 0 && share < memoryMarks[level-1]-memoryEase {
		level--
	}
	m.level.Store(int32(level))
	if u.cycles != m.cycles.Load() || level == 0 {
		m.cycles.Store(u.cycles)
		m.cycled.Store(int64(now))
		return
	}
	// A process that refuses everything allocates nothing. Then the collector does not
	// run, and the memory of ended requests never becomes free.
	if now-time.Duration(m.cycled.Load()) >= memoryStale && m.running.CompareAndSwap(false, true) {
		go func() {
			defer m.running.Store(false)
			m.collect()
		}()
	}
}

// readMemory returns the memory that the Go runtime uses: what it got from the system, without
// what is free or returned. If the runtime has this limit, too (GOMEMLIMIT), garbage does not
// count either: the collector runs before the limit is reached.
func readMemory(limit int64) usage {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(s)
	value := func(i int) uint64 {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return s[i].Value.Uint64()
	}
	used, objects, live := value(0)-value(1)-value(2), value(3), value(4)
	if value(5) <= uint64(limit) && live < objects {
		used -= objects - live
	}
	return usage{bytes: int64(used), cycles: value(6)}
}
