package spool

import (
	"context"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

type nowhere struct{}

func (nowhere) Append(_ context.Context, b usage.Batch) (int64, error) { return b.To, nil }
func (nowhere) Finish(context.Context, string) error                   { return nil }

// BenchmarkRequest measures the ledger's delay of a request: one Begin and one End.
func BenchmarkRequest(b *testing.B) {
	s := openSpool(b, Options{MaxBytes: 1 << 40})
	benchRequest(b, s, usage.Labels{})
}

// BenchmarkRequestWithTags is BenchmarkRequest with an end user and two tags.
func BenchmarkRequestWithTags(b *testing.B) {
	s := openSpool(b, Options{MaxBytes: 1 << 40})
	benchRequest(b, s, sampleLabels())
}

// BenchmarkRequestDrained measures the whole cost of a request, including sending its row to a
// sink.
func BenchmarkRequestDrained(b *testing.B) {
	s := openSpool(b, Options{MaxBytes: 1 << 40})
	drain(b, s, nowhere{}, nil)
	benchRequest(b, s, usage.Labels{})
}

func benchRequest(b *testing.B, s *Spool, l usage.Labels) {
	o, r := sampleOpening("1b4e28ba-2fa1-11d2-883f-0016d3cca427"), sampleRow("")
	o.Labels, r.Labels = l, l
	b.ReportAllocs()
	for b.Loop() {
		e, err := s.Begin(o)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.End(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBegin(b *testing.B) {
	s := openSpool(b, Options{MaxBytes: 1 << 40})
	o := sampleOpening("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Begin(o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRequestsAtOnce measures a thousand concurrent writers per processor.
func BenchmarkRequestsAtOnce(b *testing.B) {
	s := openSpool(b, Options{})
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
			if _, err := e.End(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkDelivered(b *testing.B) {
	s := openSpool(b, Options{})
	e := begin(b, s, "a")
	b.ReportAllocs()
	for b.Loop() {
		e.Delivered(1)
	}
}

// BenchmarkReadRow measures decoding a row.
func BenchmarkReadRow(b *testing.B) {
	r := sampleRow("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	var e codec
	e.row(&r)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeRow(e.b); err != nil {
			b.Fatal(err)
		}
	}
}
