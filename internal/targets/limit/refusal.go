package limit

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The reasons for a refusal.
const (
	Process   = "process"   // the process is at its limit of open requests
	Key       = "key"       // the caller's key is at its limit
	Upstream  = "target"    // the target is at its limit
	Memory    = "memory"    // the process is near its memory limit
	Queue     = "queue"     // the queue is full, or the caller's share of it
	Cancelled = "cancelled" // the context ended while the request waited
	TooLarge  = "too_large" // the request needs more memory than the process may use
)

// Refusal says why a request is refused, and when to retry.
type Refusal struct {
	Reason     string
	RetryAfter time.Duration // 1 to 30 s, with jitter; 0 if the context ended
}

// Error returns the message for the client.
func (r *Refusal) Error() string {
	after := r.RetryAfter.Round(time.Second)
	switch r.Reason {
	case Key:
		return fmt.Sprintf("this key has as many requests open as it may; let one end first, or try again in %s", after)
	case Upstream:
		return fmt.Sprintf("the model has as many requests open as it can serve; try again in %s, or use another model", after)
	case Memory:
		return fmt.Sprintf("the gateway is short of memory and takes no more requests of this class; try again in %s", after)
	case TooLarge:
		return "the translation of this text takes more memory than the gateway may use; send less, or raise overload.memory"
	case Queue:
		return fmt.Sprintf("too many requests are waiting already; try again in %s", after)
	case Cancelled:
		return "the request ended while it waited for its turn"
	}
	return fmt.Sprintf("the gateway has as many requests open as it may; try again in %s", after)
}

const (
	soonest = time.Second
	latest  = 30 * time.Second
)

// retryAfter returns the Retry-After for an estimated wait. It adds a random part of up to
// half of the wait, so that clients that were refused together do not return together.
func retryAfter(wait time.Duration) time.Duration {
	wait = min(max(wait, soonest), latest*2/3)
	return wait + rand.N(wait/2+1) //nolint:gosec // jitter is no secret
}
