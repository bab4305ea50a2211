package upstream

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func TestReadSizedBelievesNoSize(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, maxTrustedSize - 1, maxTrustedSize, maxTrustedSize + 513, 3 * maxTrustedSize} {
		want := bytes.Repeat([]byte("ab"), n)[:n]
		for _, size := range []int{-1, 0, 1, n, n - 1, n + 1, 2 * n, 64 << 20} {
			got, err := readSized(iotest.HalfReader(bytes.NewReader(want)), int64(size))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, said to be %d: got %d, %v", n, size, len(got), err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := readSized(io.MultiReader(bytes.NewReader(make([]byte, 10)), iotest.ErrReader(broken)), 20); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestLargeAnswerIsHeldOnce(t *testing.T) {
	const size = 32 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := readSized(io.LimitReader(zeros{}, size), size)
	runtime.ReadMemStats(&after)
	if err != nil || len(b) != size {
		t.Fatal(len(b), err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > size+size/4 {
		t.Errorf("%d bytes took %d", size, got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestClosedBodyLetsGo(t *testing.T) {
	body := []byte("body")
	b := (&resends{body: body}).newBody()
	if got, err := io.ReadAll(b); err != nil || string(got) != "body" {
		t.Fatalf("got %q, %v", got, err)
	}
	b = (&resends{body: body}).newBody()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(b); err != nil || len(got) > 0 {
		t.Errorf("got %q, %v", got, err)
	}
}
