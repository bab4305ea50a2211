package health

import (
	"math/rand/v2"
	"time"
)

// LongestWait is the longest Retry-After that is worth waiting for within a
// request, and the longest rest that anything but a limited answer can cause.
const LongestWait = 60 * time.Second

const (
	backoffBase = 100 * time.Millisecond
	backoffMax  = 2 * time.Second
)

// Backoff is how long to wait before a retry; attempt is 0 before the first. It
// is anything up to 100 ms, doubling with each attempt to 2 s: full jitter keeps
// those apart who failed together. A Retry-After wins and is returned as it is:
// who is told more than [LongestWait] does not retry. A nil rnd is math/rand.
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
