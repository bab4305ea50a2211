package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryShedsByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used int64
		var cycles uint64
		l := New()
		l.memory.read = func(int64) usage { cycles++; return usage{bytes: used, cycles: cycles} }
		l.Use(Config{Requests: -1, Memory: 1000})
		steps := []struct {
			used    int64
			refused int // number of rejected classes, least important first
		}{{100, 0}, {849, 0}, {850, 1}, {810, 1}, {799, 0}, {900, 2}, {860, 2}, {849, 1}, {960, 3}, {901, 3}, {899, 2}, {100, 0}, {1200, 3}, {0, 0}}
		for _, s := range steps {
			used = s.used
			time.Sleep(memoryEvery)
			for range memoryAsk { // the clock is read only every memoryAsk calls
				if p, refusal := l.Enter(context.Background(), Caller{Key: "a", Class: Critical}); refusal == nil {
					p.Release()
				}
			}
			for c := range Class(classes) {
				p, refusal := l.Enter(context.Background(), Caller{Key: "a", Class: c})
				p.Release()
				if want := int(c) >= classes-s.refused; (refusal != nil) != want || want && refusal.Reason != Memory {
					t.Errorf("at %d of 1000 %s gets %v, want refused %v", s.used, c, refusal, want)
				}
			}
			if got := len(l.Snapshot().Memory.Refused); got != s.refused {
				t.Errorf("at %d of 1000 the snapshot has %d classes refused, want %d", s.used, got, s.refused)
			}
		}
	})
}

func TestMemoryIsReadFourTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		l := New()
		l.memory.read = func(int64) usage { looks++; return usage{bytes: 870, cycles: uint64(looks)} }
		l.Use(Config{Requests: -1, Memory: 1000})
		for range 10_000 {
			p, _ := l.Enter(context.Background(), Caller{Key: "a", Class: Normal})
			p.Release()
			time.Sleep(time.Millisecond)
		}
		if looks < 35 || looks > 41 {
			t.Errorf("memory was looked at %d times in 10 s, want 40", looks)
		}
	})
}

// TestShedderRunsTheCollector checks that a process that refuses everything still runs
// the garbage collector.
func TestShedderRunsTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		used, cycles := int64(990), uint64(1)
		l.memory.read = func(int64) usage { return usage{bytes: used, cycles: cycles} }
		l.memory.collect = func() { used, cycles = 100, cycles+1 }
		l.Use(Config{Requests: -1, Memory: 1000})
		start := time.Now()
		for {
			p, refusal := l.Enter(context.Background(), Caller{Key: "a", Class: Normal})
			if refusal == nil {
				p.Release()
				break
			}
			time.Sleep(50 * time.Millisecond)
			synctest.Wait()
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v until somebody was let in", took)
		}
	})
}

func TestReadMemory(t *testing.T) {
	hold := make([]byte, 64<<20)
	u := readMemory(1 << 40)
	if u.bytes < int64(len(hold)) || u.bytes > 4<<30 {
		t.Errorf("with %d bytes held the process uses %d", len(hold), u.bytes)
	}
	hold[0] = 1
}
