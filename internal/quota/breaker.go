package quota

import (
	"sync"
	"sync/atomic"
	"time"
)

// breaker says whether Redis is asked at all. It opens
//   - at once when the connection is refused or breaks,
//   - at the third failure in a row, whatever it was,
//   - when half of twenty calls or more within a second have failed.
//
// With a timeout of 50 ms and more than a few requests a second it is open some 50 ms
// after Redis froze. To open it for a hiccup costs little: requests go on with this
// node's share, and the first probe is a fifth of a second away. Only a probe closes it.
type breaker struct {
	lost   atomic.Bool
	opened chan struct{} // has one in it when it was opened

	mu           sync.Mutex
	row          int
	since        time.Time
	calls, fails int
}

const (
	breakerRow    = 3
	breakerCalls  = 20
	breakerWindow = time.Second
)

func newBreaker() *breaker { return &breaker{opened: make(chan struct{}, 1)} }

// done counts a call. It reports whether that has opened the breaker.
func (b *breaker) done(failed, broken bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.since) > breakerWindow {
		b.since, b.calls, b.fails = now, 0, 0
	}
	b.calls++
	if !failed {
		b.row = 0
		return false
	}
	b.fails++
	b.row++
	if b.lost.Load() || !broken && b.row < breakerRow && (b.calls < breakerCalls || b.fails*2 < b.calls) {
		return false
	}
	b.trip()
	return true
}

// trip opens it.
func (b *breaker) trip() {
	b.lost.Store(true)
	select {
	case b.opened <- struct{}{}:
	default:
	}
}

// close lets requests to Redis again.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row, b.calls, b.fails = 0, 0, 0
	b.lost.Store(false)
}
