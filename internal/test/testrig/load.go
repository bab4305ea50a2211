package testrig

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// Each calls do for every number below n, at most `parallel` of them at a time.
func Each(n, parallel int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, parallel) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// Offer starts requests at a constant rate for a time, without waiting for earlier
// ones; a time of 0 means until the context ends. It returns when all requests have
// ended.
func Offer(ctx context.Context, rate float64, during time.Duration, do func(i int)) (offered int) {
	var wg sync.WaitGroup
	defer wg.Wait()
	began := time.Now()
	for i := 0; ; i++ {
		due := time.Duration(float64(i) / rate * float64(time.Second))
		if during > 0 && due >= during {
			return i
		}
		Pause(ctx, due-time.Since(began))
		if ctx.Err() != nil {
			return i
		}
		wg.Go(func() { do(i) })
	}
}

// Keep runs clients for a time. Each sends its next request when the last one has ended.
func Keep(ctx context.Context, clients int, during time.Duration, do func(i int)) {
	end := time.Now().Add(during)
	Each(clients, clients, func(c int) {
		for i := c; time.Now().Before(end) && ctx.Err() == nil; i += clients {
			do(i)
		}
	})
}

// History collects the observations of one side of a run.
type History[T any] struct {
	mu  sync.Mutex
	all []T
}

// Add appends an entry.
func (h *History[T]) Add(one T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, one)
}

// List returns all entries so far.
func (h *History[T]) List() []T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// Pick returns the entries that match.
func (h *History[T]) Pick(match func(T) bool) []T { return Pick(h.List(), match) }

// Pick returns the elements that match.
func Pick[T any](all []T, match func(T) bool) (some []T) {
	for _, one := range all {
		if match(one) {
			some = append(some, one)
		}
	}
	return some
}

// Count counts the elements that match.
func Count[T any](all []T, match func(T) bool) int { return len(Pick(all, match)) }

// Quantile returns a quantile of the durations of the elements, 0 if there are none.
func Quantile[T any](all []T, q float64, duration func(T) time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	times := make([]time.Duration, len(all))
	for i, one := range all {
		times[i] = duration(one)
	}
	slices.Sort(times)
	i := int(math.Ceil(q*float64(len(times)))) - 1
	return times[min(max(i, 0), len(times)-1)]
}

// Millis formats a duration with the digits that matter for a latency.
func Millis(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// Clip shortens a text for a message.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
