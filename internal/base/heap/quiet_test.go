package heap

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestQuiet(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name  string
		looks []use
		want  bool // of the last look
	}{
		{"much garbage, no more", []use{{60 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}}, true},
		{"much garbage, a little more", []use{{60 * mb, 20 * mb, 0}, {61 * mb, 20 * mb, 0}}, true},
		{"much garbage, soon as much again", []use{{55 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}}, false},
		{"a heap that a collection has swept", []use{{60 * mb, 20 * mb, 0}, {20 * mb, 20 * mb, 0}}, false},
		{"little garbage", []use{{23 * mb, 20 * mb, 0}, {23 * mb, 20 * mb, 0}}, false},
		{"much free memory", []use{{60 * mb, 20 * mb, 0}, {21 * mb, 20 * mb, 30 * mb}, {21 * mb, 20 * mb, 30 * mb}}, true},
		{"little of a large heap", []use{{1050 * mb, 1000 * mb, 0}, {1050 * mb, 1000 * mb, 0}}, false},
		{"the first look", []use{{60 * mb, 20 * mb, 0}}, false},
		{"less than was live", []use{{10 * mb, 20 * mb, 0}, {10 * mb, 20 * mb, 0}}, false},
		{"no burst since the last one", []use{{60 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}, {20 * mb, 20 * mb, 0}, {21*mb - 1, 20 * mb, 0}, {22*mb - 2, 20 * mb, 0}, {23*mb - 3, 20 * mb, 0}, {24*mb - 4, 20 * mb, 0}, {25*mb - 5, 20 * mb, 0}, {25*mb - 5, 20 * mb, 0}}, false},
		{"half of what was live has ended", []use{{60 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}, {20 * mb, 20 * mb, 0}, {20 * mb, 12 * mb, 0}}, true},
		{"another burst", []use{{60 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}, {20 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}, {60 * mb, 20 * mb, 0}}, true},
	} {
		q, got := quiet{}, false
		for _, l := range c.looks {
			got = q.worth(l)
		}
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestCollect makes garbage, and finds it gone after collect.
func TestCollect(t *testing.T) {
	tuned := start()
	defer func() {
		tuned.stopped.Store(true)
		debug.SetGCPercent(defaultPercent)
	}()
	var q quiet
	runtime.GC()
	for range 32 {
		kept = make([]byte, 1<<20)
	}
	kept = nil
	q.worth(readUse())
	before := readUse()
	if !q.worth(before) {
		t.Fatalf("%+v is not worth a collection", before)
	}
	collect()
	if after := readUse(); after.objects > before.objects-24<<20 || after.free > 8<<20 {
		t.Errorf("%+v before, %+v after", before, after)
	}
}

var kept []byte
