package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// breaker decides whether requests use Redis. It opens
//   - immediately when the connection is refused or breaks,
//   - at the third consecutive failure,
//   - when at least half of 20 or more calls within a second fail.
//
// With a timeout of 50 ms and more than a few requests per second it opens about 50 ms after Redis
// stops responding. Opening it for a short stall costs little: requests use this node's share, and
// the first probe follows 0.2 s later. Only a successful probe closes it.
type breaker struct {
	lost   atomic.Bool
	opened chan struct{} // receives a value when the breaker opens

	mu            sync.Mutex
	failuresInRow int
	windowStart   time.Time
	calls, fails  int
}

const (
	maxFailuresInRow = 3
	minCalls         = 20
	breakerWindow    = time.Second
)

func newBreaker() *breaker { return &breaker{opened: make(chan struct{}, 1)} }

// record counts the result of a call. connError means that the connection is broken. It reports
// whether the breaker has just opened.
func (b *breaker) record(failed, connError bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.windowStart) > breakerWindow {
		b.windowStart, b.calls, b.fails = now, 0, 0
	}
	b.calls++
	if !failed {
		b.failuresInRow = 0
		return false
	}
	b.fails++
	b.failuresInRow++
	if b.lost.Load() || !connError && b.failuresInRow < maxFailuresInRow && (b.calls < minCalls || b.fails*2 < b.calls) {
		return false
	}
	b.trip()
	return true
}

// trip opens the breaker.
func (b *breaker) trip() {
	b.lost.Store(true)
	select {
	case b.opened <- struct{}{}:
	default:
	}
}

// close closes the breaker and resets its counters.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failuresInRow, b.calls, b.fails = 0, 0, 0
	b.lost.Store(false)
}
