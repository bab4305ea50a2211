package access

import (
	"net/netip"
	"sync"
	"time"
)

const (
	wrongPerMinute = 20
	wrongEvery     = time.Minute / wrongPerMinute
	wrongBurst     = time.Minute - wrongEvery
	wrongAddresses = 8192
)

// wrongKeys holds each address to twenty wrong keys a minute. Whoever is over that is
// told to wait, and for ids that are not in memory the store is no longer asked. A
// right key from the same address is served all the same: many clients may share one,
// and checking a key that is in memory costs less than refusing it.
type wrongKeys struct {
	mu    sync.Mutex
	until recent[netip.Addr, time.Time] // when all of an address's wrong keys are forgiven
}

func newWrongKeys() *wrongKeys {
	return &wrongKeys{until: newRecent[netip.Addr, time.Time](wrongAddresses)}
}

// wait is how long an address has to wait before the next wrong key; 0 is not at all.
func (w *wrongKeys) wait(from netip.Addr, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	until, _ := w.until.get(household(from))
	return over(until, now)
}

// add counts a wrong key, unless the address is over its limit. It returns the wait
// if so.
func (w *wrongKeys) add(from netip.Addr, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	from = household(from)
	until, _ := w.until.get(from)
	if wait := over(until, now); wait > 0 {
		return wait
	}
	if until.Before(now) {
		until = now
	}
	w.until.put(from, until.Add(wrongEvery))
	return 0
}

// over is how far an address is over its limit.
func over(until, now time.Time) time.Duration {
	if free := until.Add(-wrongBurst); free.After(now) {
		return free.Sub(now)
	}
	return 0
}

// household is who an address stands for. One customer has a /64 of IPv6 at least.
func household(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// recent is a map that forgets what was not used for long. It has two generations:
// when the younger is full the older one is dropped, so that it never holds more than
// twice its size.
type recent[K comparable, V any] struct {
	most       int
	young, old map[K]V
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{most: most, young: map[K]V{}}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	return v, ok
}

func (r *recent[K, V]) put(k K, v V) {
	if _, ok := r.young[k]; !ok && len(r.young) >= r.most {
		r.old, r.young = r.young, map[K]V{}
	}
	r.young[k] = v
}
