package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		name              string
		live, roots, size int64
		want              int
	}{
		{"at the start", 0, 0, 64 << 20, 1600},
		{"a small heap", 8 << 20, 0, 64 << 20, 700},
		{"many stacks", 8 << 20, 20 << 20, 64 << 20, 200},
		{"half of the size", 32 << 20, 0, 64 << 20, 100},
		{"a large heap", 1 << 30, 0, 64 << 20, 100},
		{"a small limit", 4 << 20, 0, 6 << 20, 100},
	} {
		if got := percent(c.live, c.roots, c.size); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestTune makes garbage and counts collections, with a small and with a large live heap.
func TestTune(t *testing.T) {
	tuned := start()
	defer func() {
		tuned.stopped.Store(true)
		debug.SetGCPercent(defaultPercent)
	}()
	runtime.GC()
	if n := collections(1 << 30); n > 40 { // about 18; 256 with the default
		t.Errorf("%d collections in 1 GiB of garbage with a small heap", n)
	}
	live := make([][]byte, 200)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	collections(1 << 30) // until the percentage is set
	if got := debug.SetGCPercent(defaultPercent); got != defaultPercent {
		t.Errorf("the percentage is %d with a live heap of 200 MiB", got)
	}
	runtime.KeepAlive(live)
}

var garbage []byte

// collections returns the number of collections while so many bytes are allocated.
func collections(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range bytes / (16 << 10) {
		garbage = make([]byte, 16<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}
