package sse_test

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/sse"
)

const burst = 200 // events in one benchmark round

// blockOf returns an event of size bytes like those of a chat stream.
func blockOf(size int, name, eol string) string {
	head := "data: "
	if name != "" {
		head = "event: " + name + eol + head
	}
	frame := head + `{"id":"c1","choices":[{"index":0,"delta":{"content":""}}]}` + eol + eol
	pad := strings.Repeat("x", size-len(frame))
	return strings.Replace(frame, `"content":"`, `"content":"`+pad, 1)
}

// looped returns text again and again, in reads of at most size bytes.
type looped struct {
	text string
	at   int
	size int
}

func (l *looped) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), l.size)], l.text[l.at:])
	l.at = (l.at + n) % len(l.text)
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	for _, c := range []struct{ name, event, eol string }{
		{"lf", "", "\n"},
		{"named", "content_block_delta", "\n"},
		{"crlf", "", "\r\n"},
		{"cr", "", "\r"},
	} {
		block := blockOf(220, c.event, c.eol)
		text := strings.Repeat(block, burst)
		for _, size := range []int{32 << 10, len(block)} {
			name := c.name + "/burst"
			if size == len(block) {
				name = c.name + "/single"
			}
			b.Run(name+"/batch", func(b *testing.B) { benchBatch(b, text, size) })
			b.Run(name+"/next", func(b *testing.B) { benchNext(b, text, size) })
		}
	}
}

func benchBatch(b *testing.B, text string, size int) {
	r := sse.NewReader(&looped{text: text, size: size}, sse.Options{Buffer: make([]byte, 32<<10)})
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	seen := 0
	for b.Loop() {
		for n := 0; n < burst; {
			batch, err := r.Batch()
			if err != nil {
				b.Fatal(err)
			}
			for e := range batch.Events() {
				seen += len(e.Data)
				n++
			}
		}
	}
	reportEvents(b, seen)
}

func benchNext(b *testing.B, text string, size int) {
	r := sse.NewReader(&looped{text: text, size: size}, sse.Options{Buffer: make([]byte, 32<<10)})
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	seen := 0
	for b.Loop() {
		for range burst {
			e, err := r.Next()
			if err != nil {
				b.Fatal(err)
			}
			seen += len(e.Data)
		}
	}
	reportEvents(b, seen)
}

func reportEvents(b *testing.B, seen int) {
	b.Helper()
	if seen == 0 {
		b.Fatal("no event was read")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*burst), "ns/event")
}

// BenchmarkRead measures the cost of copying the bytes, which BenchmarkReader
// includes.
func BenchmarkRead(b *testing.B) {
	text := strings.Repeat(blockOf(220, "", "\n"), burst)
	src := &looped{text: text, size: 220}
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		for range burst {
			if _, err := src.Read(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	reportEvents(b, burst)
}

func BenchmarkAppendEvent(b *testing.B) {
	data := []byte(strings.Repeat("x", 200))
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = sse.AppendEvent(dst[:0], "content_block_delta", data)
	}
}
