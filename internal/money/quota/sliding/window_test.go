package sliding

import (
	"testing"
	"time"
)

// TestOldCostIsIgnored checks that a cost whose bucket has left the window changes nothing.
func TestOldCostIsIgnored(t *testing.T) {
	w := Window{Span: time.Minute}
	w.Roll(1_000_000)
	w.Add(5, 0)
	w.Add(7, Buckets-1)
	w.Add(100, Buckets)
	if w.Sum != 12 {
		t.Errorf("the sum is %d, want 12", w.Sum)
	}
}
