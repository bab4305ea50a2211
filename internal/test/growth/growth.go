// Package growth compares what work costs, for tests of work that must not grow faster than its input.
package growth

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Pieces of PieceSize bytes are 1 MiB together: what tests of states that wait in the middle of a text give them.
const (
	Pieces    = 32 << 10
	PieceSize = 32
)

// Linear fails if work on all pieces takes much more time than the same on an eighth of them, eight times. Work that
// reads again what it has held back takes eight times as long.
func Linear(t testing.TB, work func(n int)) {
	t.Helper()
	const parts, costs = 8, 5
	CostsAtMost(t, costs, func() { work(Pieces) }, func() {
		for range parts {
			work(Pieces / parts)
		}
	})
}

// CostsAtMost fails if work takes more than so many times the processor time of a control, which
// runs beside it. The least times of several runs count, because other processes take the caches
// of the processor.
func CostsAtMost(t testing.TB, times float64, work, control func()) {
	t.Helper()
	measure := func(do func()) time.Duration {
		before := testrig.ProcessorTime(t)
		do()
		return testrig.ProcessorTime(t) - before
	}
	cost, base := measure(work), max(measure(control), time.Millisecond) // less is not measured exactly
	for again := 0; again < 3 && float64(cost) > times*float64(base); again++ {
		cost, base = min(cost, measure(work)), max(base, measure(control))
	}
	t.Logf("%v, the control takes %v", cost, base)
	if float64(cost) > times*float64(base) {
		t.Errorf("%v, more than %g times the control, which takes %v", cost, times, base)
	}
}
