package sse_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/isogloss-gateway/isogloss/sse"
)

func TestNextReturnsTheEventsOfBatch(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := sse.NewReader(strings.NewReader(c.in), sse.Options{})
			var got []string
			e, err := r.Next()
			for ; err == nil; e, err = r.Next() {
				got = append(got, show(e))
			}
			sameError(t, "next", err, io.EOF)
			if !slices.Equal(got, c.events) {
				t.Errorf("got %s, want %s", got, c.events)
			}
			if string(r.Rest()) != c.rest {
				t.Errorf("rest is %q, want %q", r.Rest(), c.rest)
			}
		})
	}
}

func TestUseKeepsAnIncompleteEvent(t *testing.T) {
	for _, c := range cases {
		o := sse.Options{Buffer: make([]byte, 16)}
		for _, parts := range [][]string{{c.in}, bytewise(c.in)} {
			got := readSwapping(t, &pieces{parts: parts, err: io.EOF}, o)
			same(t, c.name, got, reference(c.in, 16<<20))
		}
	}
}

func TestUseRejectsABufferThatIsTooSmall(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data: a\n\ndata: b\n\ndata: c"), sse.Options{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if r.Use(make([]byte, 100)) {
		t.Error("the events that Next has not returned were given up")
	}
	if e, err := r.Next(); err != nil || show(e) != `data="b"` {
		t.Fatalf("got %s, %v", show(e), err)
	}
	if r.Use(make([]byte, len("data: c"))) {
		t.Error("a buffer was taken that leaves no room to read")
	}
	if !r.Use(make([]byte, len("data: c")+1)) {
		t.Error("a buffer with room was not taken")
	}
	if e, ok := r.Last(); ok {
		t.Errorf("last is %s before the end", show(e))
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if e, ok := r.Last(); !ok || show(e) != `data="c"` {
		t.Errorf("last is %s, %v", show(e), ok)
	}
}

func TestBatchAfterNextReturnsTheRemainingEvents(t *testing.T) {
	const in = "\xEF\xBB\xBFdata: a\n\ndata: b\ndata: c\n\n: x\n\ndata: d"
	r := sse.NewReader(strings.NewReader(in), sse.Options{})
	e, err := r.Next()
	if err != nil || show(e) != `data="a"` || string(e.Raw) != "data: a\n\n" {
		t.Fatalf("got %s, %q, %v", show(e), e.Raw, err)
	}
	b, err := r.Batch()
	if err != nil || string(b.Raw) != "data: b\ndata: c\n\n: x\n\n" {
		t.Fatalf("got %q, %v", b.Raw, err)
	}
	for e := range b.Events() {
		if show(e) != `data="b\nc"` {
			t.Errorf("got %s", show(e))
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("got %v", err)
	}
	if e, ok := r.Last(); !ok || show(e) != `data="d"` {
		t.Errorf("last is %s, %v", show(e), ok)
	}
}

// Leaving out the bytes of an event removes that event and no other.
func TestAnEventCanBeLeftOut(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for i := range c.events {
				b, err := sse.NewReader(strings.NewReader(c.in), sse.Options{}).Batch()
				if err != nil {
					t.Fatal(err)
				}
				events := slices.Collect(b.Events())
				less := string(b.Raw[:events[i].Start]) + string(b.Raw[events[i].End:])
				got := readAll(t, strings.NewReader(less), sse.Options{})
				got.rest = strings.TrimPrefix(got.rest, "\xEF\xBB\xBF")
				want := slices.Delete(slices.Clone(c.events), i, i+1)
				if !slices.Equal(got.events, want) || got.rest != "" {
					t.Errorf("without event %d: got %s and rest %q, want %s", i, got.events, got.rest, want)
				}
			}
		})
	}
}

func TestEventsOfOneBatchKeepTheirData(t *testing.T) {
	const in = "data: a\ndata: b\n\ndata: c\ndata: d\n\n"
	b, err := sse.NewReader(strings.NewReader(in), sse.Options{}).Batch()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 2 {
		for _, e := range slices.Collect(b.Events()) {
			got = append(got, show(e))
		}
	}
	want := []string{`data="a\nb"`, `data="c\nd"`, `data="a\nb"`, `data="c\nd"`}
	if !slices.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// SSE-13: a line may be as long as MaxEvent, and the Reader does not search a line
// from its start after each read. That would take more than ten minutes for the reads
// of 16 bytes, so the test would time out.
func TestLongLines(t *testing.T) {
	for _, size := range []int{70 << 10, 2 << 20, 20 << 20} {
		in := "data: " + strings.Repeat("x", size) + "\n\ndata: after\n\n"
		for _, chunk := range []int{16, 32 << 10, 1 << 30} {
			r := sse.NewReader(&looped{text: in, size: chunk}, sse.Options{MaxEvent: 32 << 20})
			e, err := r.Next()
			if err != nil || len(e.Data) != size {
				t.Fatalf("%d in reads of %d: got %d bytes, %v", size, chunk, len(e.Data), err)
			}
			if e, err = r.Next(); err != nil || string(e.Data) != "after" {
				t.Fatalf("after %d in reads of %d: got %q, %v", size, chunk, e.Data, err)
			}
		}
	}
}

// SSE-14: an event that is too long is an error at the same byte for all divisions
// into reads, after the events before it.
func TestTooLong(t *testing.T) {
	const limit = 20
	for _, c := range []struct {
		name, in string
		fits     bool
	}{
		{"at the limit, LF", "data: 345678901234\n\n", true},
		{"above the limit, LF", "data: 3456789012345\n\n", false},
		{"at the limit, the LF of the last CRLF is not counted", "data: 34567890123\r\n\r\n", true},
		{"above the limit, CRLF", "data: 345678901234\r\n\r\n", false},
		{"many lines", "data\ndata\ndata\ndata\n\n", false},
		{"a comment", ": 3456789012345678901\n", false},
		{"comments are no block together", ": 345678901234567890\n: 345678901234567890\n", false},
		{"short comments", ": 34567890123456789\n: 34567890123456789\n", true},
		{"unfinished at the limit", "data: 78901234567890", true},
		{"unfinished above the limit", "data: 789012345678901", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := "data: first\n\n" + c.in
			for _, parts := range [][]string{{in}, bytewise(in), {in[:25], in[25:]}} {
				got := readAll(t, &pieces{parts: parts, err: io.EOF}, sse.Options{MaxEvent: limit})
				long, failed := errors.AsType[*sse.TooLongError](got.err)
				if failed == c.fits || failed && long.Limit != limit {
					t.Errorf("error is %v", got.err)
				}
				if got.events[0] != `data="first"` || !strings.HasPrefix(in, got.raw+got.rest) {
					t.Errorf("events %s, raw %q, rest %q", got.events, got.raw, got.rest)
				}
				if failed && (got.last != "" || len(got.events) != 1) {
					t.Errorf("events %s and last %s beside the error", got.events, got.last)
				}
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	const in = "data: a\n\ndata: b"
	for _, c := range []struct {
		name string
		src  io.Reader
		err  error
		last string
	}{
		{"EOF after the bytes", strings.NewReader(in), io.EOF, `data="b"`},
		{"EOF with the bytes", iotest.DataErrReader(strings.NewReader(in)), io.EOF, `data="b"`},
		{"error after the bytes", &pieces{parts: []string{in}, err: errCut}, errCut, ""},
		{"error with the bytes", iotest.DataErrReader(&pieces{parts: []string{in}, err: errCut}), errCut, ""},
		{"unexpected EOF", &pieces{parts: []string{in}, err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF, ""},
		{"no progress", &pieces{parts: []string{in}}, io.ErrNoProgress, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := result{events: []string{`data="a"`}, raw: "data: a\n\n", rest: "data: b", last: c.last, err: c.err}
			same(t, c.name, readAll(t, c.src, sse.Options{}), want)
		})
	}
}

// stutter returns empty reads first, but too few for io.ErrNoProgress.
type stutter struct {
	io.Reader
	empty int
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.empty++; s.empty%90 != 0 {
		return 0, nil
	}
	return s.Reader.Read(p)
}

func TestEmptyReadsAreTolerated(t *testing.T) {
	src := &stutter{Reader: iotest.OneByteReader(strings.NewReader("data: a\n\n"))}
	want := result{events: []string{`data="a"`}, raw: "data: a\n\n", err: io.EOF}
	same(t, "stutter", readAll(t, src, sse.Options{}), want)
}

func TestErrorBatchHasNoEvents(t *testing.T) {
	b, err := sse.NewReader(strings.NewReader(""), sse.Options{}).Batch()
	if err == nil || len(slices.Collect(b.Events())) != 0 {
		t.Errorf("got %v, %v", slices.Collect(b.Events()), err)
	}
}

func TestInitialBufferIsUsedAgainAfterALargeEvent(t *testing.T) {
	buf := make([]byte, 1<<10)
	small, huge := "data: small\n\n", "data: "+strings.Repeat("x", 1<<20)+"\n\n"
	r := sse.NewReader(&pieces{parts: []string{small, huge, small, small}, err: io.EOF}, sse.Options{Buffer: buf})
	for i, mine := range []bool{true, false, true, true} {
		b, err := r.Batch()
		if err != nil {
			t.Fatal(err)
		}
		if &b.Raw[0] == &buf[0] != mine {
			t.Errorf("batch %d of %d bytes: in the caller's buffer: %v, want %v", i, len(b.Raw), !mine, mine)
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestLongStreamNeedsOneBuffer(t *testing.T) {
	for _, c := range []struct {
		name, block string
		total       int
	}{
		{"one data line", blockOf(220, "", "\n"), 100 << 20},
		{"several data lines", "data: a\n" + blockOf(212, "", "\n"), 10 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, count := 0, c.total/len(c.block)
			got := allocated(func() {
				src := io.LimitReader(&looped{text: strings.Repeat(c.block, burst), size: 32 << 10}, int64(count*len(c.block)))
				r := sse.NewReader(src, sse.Options{})
				b, err := r.Batch()
				for ; err == nil; b, err = r.Batch() {
					for range b.Events() {
						n++
					}
				}
				sameError(t, c.name, err, io.EOF)
			})
			if n != count {
				t.Errorf("%d events, want %d", n, count)
			}
			if got > 128<<10 {
				t.Errorf("%d bytes were allocated", got)
			}
		})
	}
}

func TestEndlessLineAllocatesNoMoreThanTheLimit(t *testing.T) {
	const limit = 1 << 20
	src := io.LimitReader(&looped{text: strings.Repeat("x", 32<<10), size: 32 << 10}, 1<<30)
	got := allocated(func() {
		_, err := sse.NewReader(src, sse.Options{MaxEvent: limit}).Batch()
		sameError(t, "endless", err, &sse.TooLongError{Limit: limit})
	})
	// Doubling the buffer up to the limit allocates twice the limit in total.
	if got > 2*limit+128<<10 {
		t.Errorf("%d bytes were allocated", got)
	}
}

// The Reader must not search an event of many lines to its end for each line. With
// bare CRs that would take more than an hour, so the test would time out.
func TestManyLinesTakeLinearTime(t *testing.T) {
	const count = 1 << 22
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		in := strings.Repeat("data"+eol, count) + eol
		e, err := sse.NewReader(strings.NewReader(in), sse.Options{MaxEvent: 32 << 20}).Next()
		if err != nil || len(e.Data) != count-1 {
			t.Fatalf("%q: %d bytes, %v", eol, len(e.Data), err)
		}
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	text := blockOf(220, "delta", "\n") + ": ping\n\n" + "data: a\ndata: b\n\n" + blockOf(220, "", "\r\n")
	r := sse.NewReader(&looped{text: text, size: 100}, sse.Options{Buffer: make([]byte, 4<<10)})
	events := 0
	got := testing.AllocsPerRun(1000, func() {
		b, err := r.Batch()
		if err != nil {
			t.Fatal(err)
		}
		for e := range b.Events() {
			events += min(1, len(bytes.TrimSpace(e.Data)))
		}
		if _, err = r.Next(); err != nil {
			t.Fatal(err)
		}
		events++
	})
	if got != 0 || events < 1000 {
		t.Errorf("%v allocations, %d events", got, events)
	}
}
