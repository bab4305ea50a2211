package cache

import (
	"bytes"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/storetest"
)

// Sizes as in bench/: 2 KB of request, 1.2 KB of response.
var (
	benchRequest  = request(string(bytes.Repeat([]byte("q"), 2048)))
	benchResponse = response(string(bytes.Repeat([]byte("a"), 1200)))
)

func BenchmarkKey(b *testing.B) {
	c := newCache(b, nil, nil)
	b.ReportAllocs()
	for b.Loop() {
		c.Key("org:a", benchRequest)
	}
}

func benchmarkHit(b *testing.B, s Store) {
	c := newCache(b, s, nil)
	k := c.Key("org:a", benchRequest)
	eventually(b, "the hit", func() bool { c.Put(k, benchResponse); return c.Get(b.Context(), k) != nil })
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if c.Get(b.Context(), k) == nil {
			b.Fatal("a miss")
		}
	}
}

func BenchmarkHitMemory(b *testing.B) { benchmarkHit(b, openMemory(b, 0)) }
func BenchmarkHitRedis(b *testing.B)  { benchmarkHit(b, openRedis(b, storetest.Redis(b).URL)) }

func benchmarkOnce(b *testing.B, l Locks) {
	n := newOnce(b, l, nil)
	b.ReportAllocs()
	for b.Loop() {
		v := n.Begin(b.Context(), "o", "c", "key", benchRequest)
		if v.State != First {
			b.Fatal(v.State)
		}
		v.Run.Release()
	}
}

func BenchmarkOnceMemory(b *testing.B) { benchmarkOnce(b, NewRecords(0)) }
func BenchmarkOnceRedis(b *testing.B)  { benchmarkOnce(b, openRedis(b, storetest.Redis(b).URL)) }
