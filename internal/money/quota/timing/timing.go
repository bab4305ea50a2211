// Package timing measures elapsed time and waits.
package timing

import (
	"context"
	"math/rand/v2"
	"time"
)

// Monotonic returns a clock that follows elapsed time and ignores changes of the system clock.
func Monotonic(clock func() time.Time) func() time.Time {
	start := clock()
	return func() time.Time { return start.Add(clock().Sub(start)) }
}

// Every calls f immediately and then at each interval.
func Every(ctx context.Context, d time.Duration, f func()) {
	ticker := time.NewTicker(max(d, time.Millisecond))
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Jitter returns a random duration between two thirds and four thirds of d.
func Jitter(d time.Duration) time.Duration {
	return d*2/3 + rand.N(d*2/3) //nolint:gosec // not security-relevant
}

// Sleep waits for d and reports whether ctx is still active.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
