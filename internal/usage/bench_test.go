package usage

import (
	"context"
	"testing"
)

type nowhere struct{}

func (nowhere) Append(context.Context, []Row) error { return nil }

// BenchmarkRequest is what a request waits for: one Begin and one End.
func BenchmarkRequest(b *testing.B) {
	s := openSpool(b, SpoolOptions{MaxBytes: 1 << 40})
	benchRequest(b, s)
}

// BenchmarkRequestDrained is all that a request costs, with the way of its row to a sink.
func BenchmarkRequestDrained(b *testing.B) {
	s := openSpool(b, SpoolOptions{MaxBytes: 1 << 40})
	drain(b, s, nowhere{}, nil)
	benchRequest(b, s)
}

func benchRequest(b *testing.B, s *Spool) {
	o, r := sampleOpening("1b4e28ba-2fa1-11d2-883f-0016d3cca427"), sampleRow("")
	b.ReportAllocs()
	for b.Loop() {
		e, err := s.Begin(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := e.End(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBegin(b *testing.B) {
	s := openSpool(b, SpoolOptions{MaxBytes: 1 << 40})
	o := sampleOpening("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Begin(o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequestsAtOnce has a thousand goroutines write for one processor.
func BenchmarkRequestsAtOnce(b *testing.B) {
	s := openSpool(b, SpoolOptions{})
	drain(b, s, nowhere{}, nil)
	o, r := sampleOpening("1b4e28ba-2fa1-11d2-883f-0016d3cca427"), sampleRow("")
	b.SetParallelism(1000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e, err := s.Begin(o)
			if err != nil {
				b.Error(err)
				return
			}
			if err := e.End(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkDelivered(b *testing.B) {
	s := openSpool(b, SpoolOptions{})
	e := begin(b, s, "a")
	b.ReportAllocs()
	for b.Loop() {
		e.Delivered(1)
	}
}

// BenchmarkFind looks up a model in the built-in table.
func BenchmarkFind(b *testing.B) {
	book, err := NewBook(BookOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := book.Find("openai", "openai/gpt-4o-mini"); !ok {
			b.Fatal("no price")
		}
	}
}

// BenchmarkReadRow is what a row costs on its way from the disk to the store.
func BenchmarkReadRow(b *testing.B) {
	r := sampleRow("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	var e encoder
	e.row(&r)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readRow(e.b); err != nil {
			b.Fatal(err)
		}
	}
}
