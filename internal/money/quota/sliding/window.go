package sliding

import (
	"math"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// Buckets is the number of parts of a window. Spending leaves the window one bucket at a time.
const Buckets = 60

// Window sums the spending of a time span. A span of 0 is all time.
type Window struct {
	Span time.Duration
	Sum  usage.Money

	newest  int64                 // number of the newest bucket
	buckets *[Buckets]usage.Money // nil for all time
}

// Roll moves the window to the current time in ms. Call it before the first Add.
func (w *Window) Roll(now int64) {
	if w.Span == 0 {
		return
	}
	at := bucketAt(now, w.Span)
	if w.buckets == nil {
		w.buckets, w.newest = &[Buckets]usage.Money{}, at
	}
	for w.newest < at {
		if at-w.newest > Buckets { // everything has left the window
			*w.buckets, w.Sum, w.newest = [Buckets]usage.Money{}, 0, at
			return
		}
		w.newest++
		slot := &w.buckets[w.newest%Buckets]
		w.Sum -= *slot
		*slot = 0
	}
}

// Add adds a cost to the bucket that is age buckets older than the newest. A cost whose bucket has
// left the window is ignored.
func (w *Window) Add(cost usage.Money, age int64) {
	if w.buckets != nil {
		if age >= Buckets {
			return
		}
		w.buckets[(w.newest-age)%Buckets] += cost
	}
	w.Sum += cost
}

// Clear removes all spending.
func (w *Window) Clear() {
	w.Sum = 0
	if w.buckets != nil {
		*w.buckets = [Buckets]usage.Money{}
	}
}

// WaitFor returns the time in ms until a cost fits under a budget. A negative result means never.
func (w *Window) WaitFor(now int64, cost, budget usage.Money) int64 {
	over := w.Sum + cost - budget
	switch {
	case cost > budget:
		return -1
	case over <= 0: // only reservations exceed the budget
		return 1000
	case w.buckets == nil:
		return -1
	}
	width := float64(w.Span.Milliseconds()) / Buckets
	for at := w.newest - Buckets + 1; at <= w.newest; at++ {
		if over -= w.buckets[((at%Buckets)+Buckets)%Buckets]; over <= 0 {
			return max(1, int64(math.Ceil(float64(at+Buckets)*width-float64(now))))
		}
	}
	return w.Span.Milliseconds()
}

// bucketAt returns the number of the bucket of a time in ms.
func bucketAt(now int64, span time.Duration) int64 {
	return int64(float64(now) * Buckets / float64(span.Milliseconds()))
}

// Reset returns the time in ms at which a cost that is booked now has left the window.
func Reset(now int64, span time.Duration) float64 {
	return float64(bucketAt(now, span)+Buckets) * float64(span.Milliseconds()) / Buckets
}
