package limit

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// roomy sets every limit so high that none is reached.
var roomy = Config{Requests: 8192, PerKey: 1024, PerTarget: 1024, Queue: 1024, Wait: 5 * time.Second, Memory: 1 << 40}

func pass(b testing.TB, l *Limiter, t *Target, key string) {
	p, refusal := l.Enter(context.Background(), Caller{Key: key, Class: Normal})
	if refusal != nil {
		b.Fatal(refusal)
	}
	q, ok := t.TryEnter(Caller{Class: Normal})
	if !ok {
		b.Fatal("the target is full")
	}
	q.Release()
	p.Release()
}

func BenchmarkUncontended(b *testing.B) {
	l := New()
	l.Use(roomy)
	t := l.Target("a", 0)
	b.ReportAllocs()
	for b.Loop() {
		pass(b, l, t, "a key of the length that digests have")
	}
}

func BenchmarkUncontendedLookup(b *testing.B) {
	l := New()
	l.Use(roomy)
	b.ReportAllocs()
	for b.Loop() {
		pass(b, l, l.Target("a", 0), "a key of the length that digests have")
	}
}

func BenchmarkParallel(b *testing.B) {
	l := New()
	l.Use(roomy)
	var n atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		id := strconv.FormatInt(n.Add(1), 10)
		t := l.Target(id, 0)
		for pb.Next() {
			pass(b, l, t, id)
		}
	})
}

func BenchmarkFirstToken(b *testing.B) {
	l := New()
	c := roomy
	c.Adaptive = true
	l.Use(c)
	t := l.Target("a", 0)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := t.TryEnter(Caller{Class: Normal})
		p.FirstToken(200 * time.Millisecond)
		p.Release()
	}
}

// BenchmarkRefused measures a refusal while the queue is full.
func BenchmarkRefused(b *testing.B) {
	l := New()
	l.Use(Config{Requests: 1, Queue: 64, Wait: time.Hour, Memory: -1})
	p, _ := l.Enter(context.Background(), Caller{Key: "", Class: Normal})
	defer p.Release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range 64 {
		go func() { _, _ = l.Enter(ctx, Caller{Key: strconv.Itoa(i), Class: Normal}) }()
	}
	for l.Snapshot().Process.Waiting < 64 {
		runtime.Gosched()
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, refusal := l.Enter(ctx, Caller{Key: "x", Class: Normal}); refusal == nil {
			b.Fatal("let in")
		}
	}
}

func BenchmarkReadMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		readMemory(1 << 30)
	}
}
