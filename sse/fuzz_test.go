package sse_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/sse"
)

// chop divides text into pieces. The bytes of cuts, repeated, are their lengths.
func chop(text string, cuts []byte) []string {
	var parts []string
	for i := 0; text != ""; i++ {
		n := len(text)
		if len(cuts) > 0 {
			n = min(n, int(cuts[i%len(cuts)])+1)
		}
		parts = append(parts, text[:n])
		text = text[n:]
	}
	return parts
}

// FuzzCuts compares the Reader with the reference, with any limit, for one read, for
// reads of single bytes and for any other reads.
func FuzzCuts(f *testing.F) {
	for _, c := range cases {
		f.Add(c.in, []byte{3, 0, 7}, uint16(1<<10), byte(16))
		f.Add(c.in, []byte{1}, uint16(12), byte(0))
	}
	f.Fuzz(func(t *testing.T, text string, cuts []byte, limit uint16, buffer byte) {
		o := sse.Options{MaxEvent: max(int(limit), 3), Buffer: make([]byte, buffer)}
		want := reference(text, o.MaxEvent)
		for _, parts := range [][]string{{text}, bytewise(text), chop(text, cuts)} {
			got := readSwapping(t, &pieces{parts: slices.Clone(parts), err: io.EOF}, o)
			got.rest = want.rest // of one that is too long, it is checked below
			same(t, "swapping reader", got, want)
			got = readAll(t, &pieces{parts: parts, err: io.EOF}, o)
			if _, long := errors.AsType[*sse.TooLongError](got.err); long {
				// The number of bytes read beyond the limit depends on the reads.
				if !strings.HasPrefix(want.rest, got.rest) || len(got.rest) <= o.MaxEvent {
					t.Fatalf("rest is %q, want a beginning of %q", got.rest, want.rest)
				}
				got.rest = want.rest
			}
			same(t, "reader", got, want)
		}
	})
}
