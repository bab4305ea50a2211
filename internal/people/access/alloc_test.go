//go:build !race

package access

import "testing"

// TestCheckDoesNotAllocate checks that a check of a known key does not allocate. The race detector drops
// pooled objects, so it is not run with it.
func TestCheckDoesNotAllocate(t *testing.T) {
	x := newTimed(t)
	r := request(x.right)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := x.d.Check(r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
