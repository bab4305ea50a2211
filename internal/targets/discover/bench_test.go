package discover

import (
	"fmt"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// many returns 10,000 workers of 1,000 models.
func many() []Worker {
	var list []Worker
	for i := range 10_000 {
		w := worker(fmt.Sprintf("w-%05d", i), fmt.Sprintf("model-%04d", i%1000))
		w.Capacity, w.URL = 64, fmt.Sprintf("http://10.0.%d.%d:8000/v1", i/250, i%250)
		list = append(list, w)
	}
	return list
}

// BenchmarkChange measures a change of one of 10,000 workers, from the source's report to
// the publication.
func BenchmarkChange(b *testing.B) {
	d, err := New(Options{Sources: []Source{newScript("x")}, Networks: networks(b, "10.0.0.0/8")})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoop(d, newDisk("", d.options.Logger), func(Snapshot) {})
	now := time.Now()
	all := many()
	l.handle(sourceChange{"x", Change{All: true, Put: all}}, now)
	l.flush(now)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		i++
		now = now.Add(time.Second)
		w := all[i%len(all)]
		w.Weight = i % maxNumber
		l.handle(sourceChange{"x", Change{Put: []Worker{w}}}, now)
		l.flush(now)
	}
}

// BenchmarkSameList measures a source that reports the same 10,000 workers again.
func BenchmarkSameList(b *testing.B) {
	d, err := New(Options{Sources: []Source{newScript("x")}, Networks: networks(b, "10.0.0.0/8")})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoop(d, newDisk("", d.options.Logger), func(Snapshot) {})
	now, all := time.Now(), many()
	b.ReportAllocs()
	for b.Loop() {
		l.handle(sourceChange{"x", Change{All: true, Put: all}}, now)
		l.flush(now)
	}
}

func BenchmarkSave(b *testing.B) {
	d := newDisk(b.TempDir()+"/workers.snapshot", nil)
	all := many()
	b.ReportAllocs()
	for b.Loop() {
		if err := d.save(Snapshot{Workers: all}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEtcd(b *testing.B) {
	s := storetest.Etcd(b)
	c := client(b, s.URL)
	all := many()
	put(b, c, all...)
	e, err := newEtcd(at(s.URL))
	if err != nil {
		b.Fatal(err)
	}
	w := &watching{etcd: e, client: c, tell: func(Change) {}}
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := w.list(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := w.compare(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pulse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if beat := w.beat(b.Context(), w.any(), 0); beat.err != nil {
				b.Fatal(beat.err)
			}
		}
	})
	// Measures from before the put until after the publication, at the pace of a quiet
	// fleet.
	b.Run("update", func(b *testing.B) {
		a, d := follow(b, at(s.URL), Options{})
		whole(b, d, len(all))
		var total, worst time.Duration
		n := 0
		for b.Loop() {
			testrig.Pause(b.Context(), pace+10*time.Millisecond) // the fleet is quiet between two updates
			n++
			changed := all[n%len(all)]
			changed.Weight = n
			since, start := a.count(), time.Now()
			put(b, c, changed)
			for a.count() == since {
				testrig.Pause(b.Context(), 100*time.Microsecond) // a busy loop would delay what is measured
			}
			took := time.Since(start)
			total, worst = total+took, max(worst, took)
		}
		b.ReportMetric(float64(total.Microseconds())/float64(n), "µs/update")
		b.ReportMetric(float64(worst.Microseconds()), "µs/worst")
	})
}
