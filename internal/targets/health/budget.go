package health

import (
	"sync"
	"time"
)

const (
	retryShare  = 5                // one retry for this many requests: 20 %
	retryMin    = 3                // retries in a window, however few requests there are
	retryWindow = 10 * time.Second // requests of the last retryWindow are recent
	retryLoan   = 2 * time.Second  // a burst may use the retries of this time in advance
	retryForget = 60 * time.Second // after this time without a retry, earlier retries no longer count
)

// Budget bounds the load that retries add to a provider: one retry for five requests,
// or three retries in ten seconds if that is more. Requests that fail together may
// use the retries of two seconds in advance, as a loan. There are no further retries
// until later requests have paid the loan back. So an upstream that starts to fail
// receives at most 1.2 times its requests, over any later period longer than two
// seconds. If retries were denied just before that period, the retries earned since
// the denial are added, at most those of two seconds. A Budget is safe for concurrent
// use.
//
// failsafe-go's budget does not fit. It compares retries in flight with requests in
// flight and always allows three: an upstream that fails within a millisecond has
// almost nothing in flight, so that every failure would be retried. It also does not
// export its permits.
type Budget struct {
	now func() instant
	mu  sync.Mutex

	// Requests and retries by window.
	window           int64
	offered, retried int // in this window
	before           int // requests in the window before it

	// An episode begins with a retry and lasts until the loan is paid back.
	spent   int     // retries of this episode
	loan    int     // retries that need not be earned first
	balance int     // requests, less retryShare for each retry; negative while the loan is unpaid
	denied  bool    // the loan was not enough; there is no new one before it is paid back
	last    instant // of the latest retry
}

// Offered counts the first attempt of a request at the provider. A request that fails
// over from another provider is new load here, not a retry.
func (b *Budget) Offered() {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	b.offered++
	if b.balance++; b.balance >= retryShare*b.loan {
		b.denied = false
	}
}

// Retry reports whether a request may be sent to the provider again, and counts the
// retry if so. A hedge is a retry, too.
func (b *Budget) Retry() bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	recent := b.recent(now)
	if b.balance >= 0 && !b.denied || now.since(b.last) > retryForget {
		// A new episode starts at zero, so that its retries never exceed the loan
		// or a fifth of its requests.
		b.spent, b.balance, b.denied = 0, 0, false
		b.loan = max(int(retryLoan*time.Duration(recent)/retryWindow)/retryShare, retryMin)
	}
	switch {
	case b.spent < b.loan, b.balance >= retryShare:
		b.spent++
		b.balance -= retryShare
		b.last = now
	case recent < retryShare*retryMin && b.retried < retryMin:
		// The minimum is for providers with few requests. With more of them a
		// fifth exceeds it, and the two must not add up.
	default:
		b.denied = true
		return false
	}
	b.retried++
	return true
}

// turn starts a new window if the current one has ended.
func (b *Budget) turn(now instant) {
	switch w := int64(now) / int64(retryWindow); w - b.window {
	case 0:
		return
	case 1:
		b.window, b.before = w, b.offered
	default:
		b.window, b.before = w, 0
	}
	b.offered, b.retried = 0, 0
}

// recent estimates the number of requests in the last ten seconds.
func (b *Budget) recent(now instant) int {
	left := int64(retryWindow) - int64(now)%int64(retryWindow)
	return b.offered + int(float64(b.before)*float64(left)/float64(retryWindow))
}
