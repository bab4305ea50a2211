package access

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/recent"
	"github.com/isogloss-gateway/isogloss/llm"
)

const (
	wrongPerMinute = 20
	wrongEvery     = time.Minute / wrongPerMinute
	wrongBurst     = time.Minute - wrongEvery
	wrongAddresses = 8192
)

// Failures limits each address to twenty wrong credentials per minute. Beyond that, wrong keys get a
// wait, and unknown ids are not looked up in the store. Correct keys from the address are still
// accepted: many clients may share an address, and checking a known key costs less than refusing
// it.
type Failures struct {
	mu      sync.Mutex
	expires recent.Map[netip.Addr, time.Time] // when all wrong keys of an address are forgiven
}

// NewFailures returns an empty count.
func NewFailures() *Failures {
	return &Failures{expires: recent.New[netip.Addr, time.Time](wrongAddresses)}
}

// Add counts a failure of a client, or returns the wait if its address is over the limit.
func (w *Failures) Add(r *http.Request, now time.Time) time.Duration { return w.add(address(r), now) }

// Wait returns how long a client has to wait before its next failure; 0: not at all.
func (w *Failures) Wait(r *http.Request, now time.Time) time.Duration {
	return w.wait(address(r), now)
}

// wait returns how long an address has to wait before the next wrong key; 0: not at all.
func (w *Failures) wait(from netip.Addr, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, _ := w.expires.Get(networkOf(from))
	return excess(until, now)
}

// add counts a wrong key, or returns the wait if the address is over its limit.
func (w *Failures) add(from netip.Addr, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = networkOf(from)
	until, _ := w.expires.Get(from)
	if wait := excess(until, now); wait > 0 {
		return wait
	}
	if until.Before(now) {
		until = now
	}
	w.expires.Put(from, until.Add(wrongEvery))
	return 0
}

// reject counts a wrong key and returns the error. A missing key is not counted.
func (w *Failures) reject(r *http.Request, sent string, now time.Time) *llm.Error {
	if sent == "" {
		return errNoKey(r)
	}
	if wait := w.Add(r, now); wait > 0 {
		return errTooManyWrong(wait)
	}
	return errWrongKey()
}

// excess returns how long an address is over its limit.
func excess(until, now time.Time) time.Duration {
	if free := until.Add(-wrongBurst); free.After(now) {
		return free.Sub(now)
	}
	return 0
}

// Network returns the network of a client, by which clients without a credential are limited.
func Network(r *http.Request) netip.Addr {
	if from := networkOf(address(r)); from.IsValid() {
		return from
	}
	return netip.IPv6Unspecified()
}

// networkOf returns the /64 network of an IPv6 address, because a customer has at least that, and
// an IPv4 address unchanged.
func networkOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
