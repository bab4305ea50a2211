package limit

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// memory refuses requests when the process comes near a limit. It looks at most
// four times a second, when a request comes; there is no goroutine to end.
type memory struct {
	read    func(limit int64) usage
	collect func()

	limit   atomic.Int64 // 0 means none
	used    atomic.Int64
	level   atomic.Int32 // how many classes are refused, the least important first
	asked   atomic.Uint32
	next    atomic.Int64 // when to look again
	cycles  atomic.Uint64
	cycled  atomic.Int64 // when cycles was last seen to change
	running atomic.Bool  // a collection of ours
}

// usage is what was read.
type usage struct {
	bytes  int64
	cycles uint64 // of the garbage collector
}

const (
	memoryEvery = 250 * time.Millisecond
	memoryRetry = 5 * time.Second
	memoryStale = time.Second
	memoryAsk   = 8    // requests for one look at the clock while there is memory
	memoryEase  = 0.05 // below a mark before its class is let in again
)

// memoryMarks are the shares of the limit from which one, two and all classes are
// refused.
var memoryMarks = [classes]float64{0.85, 0.90, 0.95}

func newMemory() *memory { return &memory{read: readMemory, collect: runtime.GC} }

func (m *memory) use(limit int64) {
	m.limit.Store(limit)
	m.next.Store(0)
	m.level.Store(0)
	m.asked.Store(0)
}

// refuses reports whether a class is refused.
func (m *memory) refuses(class Class, clock func() time.Duration) bool {
	limit := m.limit.Load()
	if limit == 0 {
		return false
	}
	if m.level.Load() == 0 && m.asked.Add(1)%memoryAsk != 1 {
		return false
	}
	now := clock()
	if next := m.next.Load(); int64(now) >= next && m.next.CompareAndSwap(next, int64(now+memoryEvery)) {
		m.look(limit, now)
	}
	return int(class) >= classes-int(m.level.Load())
}

// look sets the level. Only one look is under way at a time.
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
	// Who refuses everybody allocates nothing, and without allocation the collector
	// does not run and what ended requests held is never seen to be free.
	if now-time.Duration(m.cycled.Load()) >= memoryStale && m.running.CompareAndSwap(false, true) {
		go func() {
			defer m.running.Store(false)
			m.collect()
		}()
	}
}

// readMemory is what the process uses: all that the runtime has from the system,
// less what it gave back or has free. Where the runtime itself is bound to this
// limit (GOMEMLIMIT), garbage does not count either: the collector comes before
// the limit does, and a heap may fill with garbage up to it without any need.
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
