package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/test/growth"
	"github.com/isogloss-gateway/isogloss/sse"
)

// sized is a reader whose reads have at most so many bytes.
type sized struct {
	text []byte
	size int
}

func (s *sized) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.size)], s.text)
	s.text = s.text[n:]
	return n, nil
}

// TestWaitingReader reads 1 MiB of each input that a Reader waits in the middle of, however it arrives.
func TestWaitingReader(t *testing.T) {
	for name, text := range map[string]struct{ before, piece string }{
		"a line":            {"data: ", strings.Repeat("x", growth.PieceSize)},
		"lines of an event": {"", "data: " + strings.Repeat("x", growth.PieceSize-7) + "\n"},
		"lines without LF":  {"", "data: " + strings.Repeat("x", growth.PieceSize-7) + "\r"},
		"short lines":       {"data\n", strings.Repeat("d:\n", growth.PieceSize/3)},
		"comments":          {"", strings.Repeat(":\n", growth.PieceSize/2)},
		"comments of an event": {"data: x\n",
			strings.Repeat(":\n", growth.PieceSize/2)},
		"blank lines": {"", strings.Repeat("\n", growth.PieceSize)},
		"blank CRLF":  {"", strings.Repeat("\r\n", growth.PieceSize/2)},
		"blank CR":    {"", strings.Repeat("\r", growth.PieceSize)},
		"events":      {"", "data: a\ndata: b\n\n" + strings.Repeat(":", growth.PieceSize-18) + "\n"},
		"marks":       {"", "\xEF\xBB\xBF"},
	} {
		for _, size := range []int{1, growth.PieceSize / 2, 4 << 10} {
			t.Run(fmt.Sprintf("%s/%d", name, size), func(t *testing.T) {
				inputs := map[int][]byte{}
				for _, n := range []int{growth.Pieces, growth.Pieces / 8} {
					inputs[n] = []byte(text.before + strings.Repeat(text.piece, n))
				}
				small, large := make([]byte, 0, 1<<10), make([]byte, 0, 16<<10)
				growth.Linear(t, func(n int) {
					r, rest := sse.NewReader(&sized{inputs[n], size}, sse.Options{Buffer: small}), inputs[n]
					for {
						b, err := r.Batch()
						if !bytes.HasPrefix(rest, b.Raw) {
							t.Fatal("other bytes were read")
						}
						rest = rest[len(b.Raw):]
						for range b.Events() { // reads them
						}
						if errors.Is(err, io.EOF) {
							break
						}
						if err != nil {
							t.Fatal(err)
						}
						if small, large = large, small; !r.Use(small) {
							small, large = large, small
						}
					}
					if r.Last(); !bytes.Equal(r.Rest(), rest) {
						t.Fatal("bytes were lost")
					}
				})
			})
		}
	}
}
