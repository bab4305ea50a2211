package observe

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rankEvery  = time.Minute // at which rankings are updated
	maxSwaps   = 16          // values that lose their name in one update
	minTracked = 1000        // values whose use is tracked, at least
	fade       = 0.99        // of the use at each update: a half-life of about an hour
	samples    = 8           // tracked values of which the least used one is forgotten
)

// ranking decides which values of a label are named: those with the most use. A value
// is named at once while there is room, and later when its use is more than twice that
// of a named one. It is not safe for concurrent use.
type ranking[K comparable] struct {
	top   int
	named int
	uses  map[K]*use
}

func newRanking[K comparable](top int) ranking[K] {
	return ranking[K]{top: top, uses: map[K]*use{}}
}

// use is the recent use of a value.
type use struct {
	fresh  atomic.Int64 // since the last update
	amount float64      // before it
	named  bool
}

func (u *use) total() float64 { return u.amount + float64(u.fresh.Load()) }

// add adds to the use of a value.
func (r *ranking[K]) add(value K, amount int64) *use {
	u := r.uses[value]
	if u == nil {
		if len(r.uses) >= max(minTracked, 2*r.top) {
			r.forget()
		}
		u = &use{}
		r.uses[value] = u
	}
	u.fresh.Add(amount)
	if !u.named && r.named < r.top {
		u.named = true
		r.named++
	}
	return u
}

// forget removes the least used of some values without a name. A value with much use is
// unlikely to be the least used one, so it is named in the end, however many others there
// are.
func (r *ranking[K]) forget() {
	var least K
	lowest, seen := 0.0, 0
	for value, u := range r.uses { // in random order
		if u.named {
			continue
		}
		if total := u.total(); seen == 0 || total < lowest {
			least, lowest = value, total
		}
		if seen++; seen == samples {
			break
		}
	}
	if seen > 0 {
		delete(r.uses, least)
	}
}

// update lets old use fade and exchanges some named values for others that are used more
// than twice as much. It returns those that lost their name.
func (r *ranking[K]) update() (lost []K) {
	var named, rest []K
	for value, u := range r.uses {
		u.amount = (u.amount + float64(u.fresh.Swap(0))) * fade
		switch {
		case u.named:
			named = append(named, value)
		case u.amount < 0.5:
			delete(r.uses, value)
		default:
			rest = append(rest, value)
		}
	}
	slices.SortFunc(named, r.compare)
	slices.SortFunc(rest, r.compare)
	slices.Reverse(rest)
	for i := range min(len(named), len(rest), maxSwaps) {
		low, high := r.uses[named[i]], r.uses[rest[i]]
		if high.amount <= 2*low.amount {
			break
		}
		low.named, high.named = false, true
		lost = append(lost, named[i])
	}
	return lost
}

// compare orders values by their use.
func (r *ranking[K]) compare(a, b K) int { return cmp.Compare(r.uses[a].amount, r.uses[b].amount) }

// remove takes the name of a value away.
func (r *ranking[K]) remove(value K) {
	if u := r.uses[value]; u != nil && u.named {
		r.named--
	}
	delete(r.uses, value)
}

// leaders holds what build returns for the most used keys. For all other keys it holds what
// build returns for overflow(key). overflow has few results.
type leaders[K comparable, V any] struct {
	overflow func(K) K
	build    func(K) V

	mu      sync.RWMutex
	ranking ranking[K]
	entries map[K]leader[V]
	rest    map[K]V
}

type leader[V any] struct {
	value V
	use   *use
}

func newLeaders[K comparable, V any](top int, overflow func(K) K, build func(K) V) *leaders[K, V] {
	return &leaders[K, V]{overflow: overflow, build: build, ranking: newRanking[K](top), entries: map[K]leader[V]{}, rest: map[K]V{}}
}

// get counts a use of the key.
func (l *leaders[K, V]) get(k K) V {
	l.mu.RLock()
	e, ok := l.entries[k]
	l.mu.RUnlock()
	if ok {
		e.use.fresh.Add(1)
		return e.value
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.ranking.add(k, 1)
	if !u.named {
		return l.other(k)
	}
	if e, ok = l.entries[k]; !ok {
		e = leader[V]{l.build(k), u}
		l.entries[k] = e
	}
	return e.value
}

// other returns what stands for a key without a name. The caller holds the lock.
func (l *leaders[K, V]) other(k K) V {
	k = l.overflow(k)
	v, ok := l.rest[k]
	if !ok {
		v = l.build(k)
		l.rest[k] = v
	}
	return v
}

// instead returns the value for a key without a name of its own.
func (l *leaders[K, V]) instead(k K) V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.other(k)
}

// update updates the ranking, and removes and returns the values of the keys that lost
// their name.
func (l *leaders[K, V]) update() (lost []V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.ranking.update() {
		if e, ok := l.entries[k]; ok {
			lost = append(lost, e.value)
			delete(l.entries, k)
		}
	}
	return lost
}

// remove removes and returns the values of some keys.
func (l *leaders[K, V]) remove(which func(K) bool) (lost []V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, e := range l.entries {
		if which(k) {
			lost = append(lost, e.value)
			delete(l.entries, k)
			l.ranking.remove(k)
		}
	}
	return lost
}
