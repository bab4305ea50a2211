package health

import (
	"sync"
	"time"
)

const (
	retryShare  = 5                // one retry for this many requests: 20 %
	retryMin    = 3                // in a window, however few requests there are
	retryWindow = 10 * time.Second // what "recent" means
	retryLoan   = 2 * time.Second  // of requests, about as many as wait for a first token
	retryForget = 60 * time.Second // after which retries count no longer
)

// Budget bounds what retries add to the load of a provider: a fifth of what is
// offered, or three in ten seconds where that is more. Requests that fail all at
// once may take a fifth of what comes in two seconds on loan: it is earned back
// before there are more. So an upstream that begins to fail gets at most 1.2 times
// what it is offered in any time from there that is longer than two seconds. Only
// where retries have been denied just before, what was earned since then comes on
// top, at most the fifth of two seconds. It is safe for concurrent use.
//
// failsafe-go's budget was weighed. It compares retries in flight with requests
// in flight and always lets three fly: an upstream that fails within a
// millisecond has next to nothing in flight, so that all its failures would be
// retried, and 1.2 times the load becomes two or three. Nor are its permits part
// of what it exports: they are for that library's own policies.
type Budget struct {
	now func() instant
	mu  sync.Mutex

	// The count of requests and retries, by windows.
	window           int64
	offered, retried int // in this window
	before           int // offered in the window before it

	// An episode is some retries and what was offered since the first of them.
	spent   int  // retries
	loan    int  // retries that need not be earned first
	balance int  // requests offered, less retryShare for each retry; below zero while it owes
	denied  bool // the loan was not enough: there is no new one before all is calm
	last    instant
}

// Offered counts a request that comes to the provider for the first time. A
// request that fails over from another provider is new load here, not a retry.
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

// Retry asks whether a request may come to the provider once more, and counts it
// if so. A hedge is a retry, too.
func (b *Budget) Retry() bool {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn(now)
	recent := b.recent(now)
	if b.balance >= 0 && !b.denied || now.since(b.last) > retryForget {
		// What was earned before is not taken along, so that the retries since
		// now are never more than the loan or a fifth of the requests since now.
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
		// fifth is more than it, and it must not come on top.
	default:
		b.denied = true
		return false
	}
	b.retried++
	return true
}

// turn begins a new window when it is time.
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

// recent is about what was offered in the last ten seconds.
func (b *Budget) recent(now instant) int {
	left := int64(retryWindow) - int64(now)%int64(retryWindow)
	return b.offered + int(float64(b.before)*float64(left)/float64(retryWindow))
}
