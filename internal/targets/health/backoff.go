package health

import (
	"math/rand/v2"
	"time"
)

// LongestWait is the longest Retry-After that a request waits for. It also bounds the
// cool-down after anything but a 429 response.
const LongestWait = 60 * time.Second

const (
	backoffBase = 100 * time.Millisecond
	backoffMax  = 2 * time.Second
)

// Backoff returns how long to wait before a retry. attempt is 0 for the first retry. The
// wait is a random time up to 100 ms, which doubles with each attempt to at most 2 s: full
// jitter separates requests that failed together. If retryAfter is set, Backoff returns it
// unchanged; a caller that gets more than [LongestWait] must not retry. A nil rnd is
// math/rand.
func Backoff(attempt int, retryAfter time.Duration, rnd func() float64) time.Duration {
	if retryAfter > 0 {
		return retryAfter
	}
	if rnd == nil {
		rnd = rand.Float64
	}
	ceiling := min(backoffBase<<min(max(attempt, 0), 10), backoffMax)
	return time.Duration(rnd() * float64(ceiling))
}
