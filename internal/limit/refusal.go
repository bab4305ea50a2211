package limit

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// The reasons of a refusal.
const (
	Process   = "process"   // the gateway has as many requests open as it may
	Key       = "key"       // the caller has
	Upstream  = "target"    // the target has
	Memory    = "memory"    // the process is short of memory
	Queue     = "queue"     // the queue is full, or the caller's share of it
	Cancelled = "cancelled" // the context ended while the request waited
)

// Refusal is why a request is not let in, and when to come back.
type Refusal struct {
	Reason     string
	RetryAfter time.Duration // 1 to 30 s, never the same for two; 0 where the context ended
}

// Error says what to do.
func (r *Refusal) Error() string {
	after := r.RetryAfter.Round(time.Second)
	switch r.Reason {
	case Key:
		return fmt.Sprintf("this key has as many requests open as it may; let one end first, or try again in %s", after)
	case Upstream:
		return fmt.Sprintf("the model has as many requests open as it can serve; try again in %s, or use another model", after)
	case Memory:
		return fmt.Sprintf("the gateway is short of memory and takes no more requests of this class; try again in %s", after)
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

// retryAfter turns an estimated wait into what clients are told. They are spread
// over half as long again, so that those refused together do not return together.
func retryAfter(wait time.Duration) time.Duration {
	wait = min(max(wait, soonest), latest*2/3)
	return wait + rand.N(wait/2+1) //nolint:gosec // spreads clients, keeps no secret
}
