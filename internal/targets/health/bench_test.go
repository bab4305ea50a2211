package health

import (
	"net/http"
	"sync"
	"testing"
	"time"
)

func BenchmarkBeginEnd(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	b.ReportAllocs()
	for b.Loop() {
		t.Begin()
		t.End()
	}
}

func BenchmarkSucceeded(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	b.ReportAllocs()
	for b.Loop() {
		t.Succeeded(200 * time.Millisecond)
	}
}

func BenchmarkState(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	b.ReportAllocs()
	for b.Loop() {
		if !t.State().Ready {
			b.Fatal("not ready")
		}
	}
}

func BenchmarkStateEjected(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	fail(t, Server, ejectAfter)
	b.ReportAllocs()
	for b.Loop() {
		t.State()
	}
}

func BenchmarkFirstToken(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	t.Succeeded(time.Millisecond)
	t.Succeeded(time.Second)
	b.ReportAllocs()
	for b.Loop() {
		t.FirstToken()
	}
}

func BenchmarkQuantile(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	for i := range sampleSize {
		t.Succeeded(time.Duration((i*37)%sampleSize+1) * ms)
	}
	b.ReportAllocs()
	for b.Loop() {
		t.Quantile(0.95)
	}
}

func BenchmarkLearn(b *testing.B) {
	t := NewFleet(Options{}).Target("a", "g", "k")
	h := http.Header{}
	for i := range limits {
		h.Set(limits[i].remaining, "4999")
		h.Set(limits[i].reset, "12ms")
	}
	b.ReportAllocs()
	for b.Loop() {
		t.Learn(h)
	}
}

func BenchmarkUsable(b *testing.B) {
	l := NewFleet(Options{})
	pool := []*Target{l.Target("a", "g", "k"), l.Target("b", "h", "k"), l.Target("c", "h", "j"), l.Target("d", "g", "j")}
	var buf [16]bool
	b.ReportAllocs()
	for b.Loop() {
		Usable(buf[:0], pool)
	}
}

func BenchmarkBudgetOffered(b *testing.B) {
	budget := NewFleet(Options{}).Budget("p")
	b.ReportAllocs()
	for b.Loop() {
		budget.Offered()
	}
}

// TestConcurrentUse is for the race detector. It also verifies the counts.
func TestConcurrentUse(t *testing.T) {
	const workers, rounds = 8, 400
	f := NewFleet(Options{})
	defer f.Close()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range rounds {
				a := f.Target("a", "g", []string{"k", "j"}[i/100%2])
				b := f.Target("b", "g", "k")
				a.Begin()
				switch (i + w) % 8 {
				case 0:
					a.Failed(Failure{Kind: Kind(i % int(kinds)), Header: header("Retry-After-Ms", "1")})
				case 1:
					b.Learn(header("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1ms"))
				case 2:
					f.Snapshot()
				case 3:
					f.Keep("a", "b")
				default:
					a.Succeeded(time.Duration(i) * time.Microsecond)
				}
				Usable(nil, []*Target{a, b})
				a.FirstToken()
				a.Quantile(0.9)
				f.Budget("p").Offered()
				f.Budget("p").Retry()
				a.outlier.checked(f.now())
				a.End()
			}
		})
	}
	group.Wait()
	s := f.Snapshot()
	if len(s) != 2 || s[0].InFlight != 0 || s[0].Succeeded != workers*rounds/2 {
		t.Errorf("snapshot is %+v", s)
	}
	var failed uint64
	for _, n := range s[0].Failed {
		failed += n
	}
	if failed != workers*rounds/8 {
		t.Errorf("%d failures were counted, want %d", failed, workers*rounds/8)
	}
}
