package protocol

import (
	"slices"
	"strconv"
	"testing"
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
