package codec

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
)

func TestUniqueIDs(t *testing.T) {
	u := UniqueIDs{}
	var got []string
	for _, id := range []string{"a", "a", "b", "a2", "a", "b2", "b"} {
		got = append(got, u.Add(func(n int) string {
			if n == 1 {
				return id
			}
			return id + strconv.Itoa(n)
		}))
	}
	if want := []string{"a", "a2", "b", "a22", "a3", "b2", "b3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWrapID(t *testing.T) {
	for id, want := range map[string]string{
		"call_1":           "call_1",
		"functions.Read:0": "iso_ZnVuY3Rpb25zLlJlYWQ6MA",
		"ключ":             "iso_0LrQu9GO0Yc",
		"iso_not base64":   "iso_aXNvX25vdCBiYXNlNjQ",
	} {
		got := WrapID(id, 128)
		if got != want {
			t.Errorf("%q is sent as %q, want %q", id, got, want)
		}
		if back := UnwrapID(got); back != id {
			t.Errorf("%q comes back as %q", id, back)
		}
	}
	// WrapID has not made these ids, so UnwrapID must return them unchanged.
	for _, id := range []string{"", "iso_", "iso_Y2FsbF8x", "iso_!", strings.Repeat("x", 300), "iso_" + strings.Repeat("Lg", 300)} {
		if back := UnwrapID(id); back != id {
			t.Errorf("%q became %q", id, back)
		}
	}
	for _, id := range []string{strings.Repeat("x", 200), strings.Repeat(".", 300)} {
		if got := WrapID(id, 128); got != llm.SafeName(id, 128, llm.WordByte) {
			t.Errorf("%q is sent as %q", id, got)
		}
	}
}
