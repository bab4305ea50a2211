package balance

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func BenchmarkOrder(b *testing.B) {
	for _, n := range []int{2, 8, 16, 200} {
		choices := fleet(n)
		for i := range choices {
			choices[i].Load = load{i % 5, time.Second}
		}
		s := Session{Prefixes: []uint64{1, 2}, History: &History{}}
		for _, p := range policies() {
			b.Run(fmt.Sprint(p, "/", n), func(b *testing.B) {
				b.ReportAllocs()
				buf := make([]int, 0, n)
				for b.Loop() {
					buf = AppendOrder(buf[:0], p, choices, s)
				}
			})
		}
	}
}

func BenchmarkOrderZones(b *testing.B) {
	choices := fleet(16)
	for i := range choices {
		choices[i].Load, choices[i].Zone = load{i % 5, time.Second}, []Zone{OwnZone, OtherZone}[i%2]
	}
	b.ReportAllocs()
	buf := make([]int, 0, len(choices))
	for b.Loop() {
		buf = AppendOrder(buf[:0], LeastBusy, choices, Session{})
	}
}

func TestAllocations(t *testing.T) {
	choices := fleet(16)
	s := Session{Prefixes: []uint64{1, 2}, History: &History{}, Pin: "pool/engine-3"}
	buf := make([]int, 0, 16)
	for _, p := range policies() {
		if n := testing.AllocsPerRun(100, func() { Order(p, choices, s) }); n > 1 {
			t.Errorf("%s: %v allocations, want the result alone", p, n)
		}
		if n := testing.AllocsPerRun(100, func() { buf = AppendOrder(buf[:0], p, choices, s) }); n > 0 {
			t.Errorf("%s with a buffer: %v allocations", p, n)
		}
	}
}

func BenchmarkAppendPrefixes(b *testing.B) {
	for name, text := range map[string]string{
		"prose": strings.Repeat("All work and no play makes Jack a dull boy.\\n", 25),
		"code":  strings.Repeat("fmt.Println(\\\"all work\\\", \\\"no play\\\")\\n", 25),
	} {
		for _, times := range []int{2, 20, 200} {
			turns := []byte(`[{"role":"system","content":"` + strings.Repeat(text, times) +
				`"},{"role":"user","content":[{"type":"text","text":"Why?"}]},{"role":"assistant","content":"x"}]`)
			b.Run(fmt.Sprintf("%s/%dKiB", name, len(turns)>>10), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(turns)))
				var buf [2]uint64
				for b.Loop() {
					AppendPrefixes(buf[:0], Parts{Turns: turns})
				}
			})
		}
	}
}

func BenchmarkSeen(b *testing.B) {
	h := &History{}
	s := Session{Prefixes: []uint64{1, 2}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Prefixes[0] = uint64(i % 100)
		h.Seen("pool/engine-0", s, 1000, 800)
	}
}
