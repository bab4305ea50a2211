// Package growth compares what work costs, for tests of work that must not grow faster than its input.
package growth

import (
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/testrig"
)

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
	cost, base := measure(work), measure(control)
	for again := 0; again < 3 && float64(cost) > times*float64(base); again++ {
		cost, base = min(cost, measure(work)), max(base, measure(control))
	}
	t.Logf("%v, the control takes %v", cost, base)
	if float64(cost) > times*float64(base) {
		t.Errorf("%v, more than %g times the control, which takes %v", cost, times, base)
	}
}
