package health

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options are for tests, and for checks that must take a certain way out.
type Options struct {
	Now       func() time.Time  // the zero value is the system's clock
	Rand      func() float64    // in [0, 1), safe for concurrent use; the zero value is math/rand
	Transport http.RoundTripper // makes the checks; the zero value is a transport that keeps no connections
}

// Fleet is all live state of a process. It is safe for concurrent use.
type Fleet struct {
	clock     func() time.Time // nil: the system's
	start     time.Time
	rand      func() float64
	transport http.RoundTripper

	ctx    context.Context // of the checks
	cancel context.CancelFunc
	checks sync.WaitGroup

	mu      sync.Mutex
	targets map[string]*Target
	quotas  map[string]*quota
	keys    map[string]*refusal
	budgets map[string]*Budget
}

// dialLimit is how long a check may wait for its connection.
const dialLimit = 2 * time.Second

// NewFleet returns a fleet without targets.
func NewFleet(o Options) *Fleet {
	f := &Fleet{
		clock: o.Now, rand: o.Rand, transport: o.Transport,
		targets: map[string]*Target{}, quotas: map[string]*quota{}, keys: map[string]*refusal{}, budgets: map[string]*Budget{},
	}
	f.start = f.wall()
	if f.rand == nil {
		f.rand = rand.Float64
	}
	if f.transport == nil {
		// A kept connection would hide that no new one can be made.
		// A dial goes on when its check was given up, so it has a limit of its own.
		f.transport = &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10}
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close ends all checks and waits for them. Everything else goes on working.
func (f *Fleet) Close() {
	f.mu.Lock() // no check is added to those that are waited for
	f.cancel()
	f.mu.Unlock()
	f.checks.Wait()
}

// Target returns the target with an id, and makes it when there is none. All
// targets of one quota group cool down together, all targets with one credential
// are refused together; an empty name stands for one of the target's own. The same
// arguments give the same pointer. Where only the group or the credential has
// changed, the pointer is a new one that shares everything else with the old.
func (f *Fleet) Target(id, group, credential string) *Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.targets[id]
	if old != nil && old.group == group && old.credential == credential {
		return old
	}
	t := &Target{group: group, credential: credential, quota: fetch(f.quotas, group), key: fetch(f.keys, credential)}
	if old != nil {
		t.live = old.live
	} else {
		t.live = &live{fleet: f, id: id}
	}
	f.targets[id] = t
	return t
}

// Keep forgets all targets but these, and ends their checks. A request that still
// has a forgotten target may go on reporting to it.
func (f *Fleet) Keep(ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := make(map[string]*Target, len(ids))
	for _, id := range ids {
		if t, ok := f.targets[id]; ok {
			kept[id] = t
		}
	}
	quotas, keys := map[string]*quota{}, map[string]*refusal{}
	for id, t := range f.targets {
		if kept[id] == nil {
			t.unwatch()
			continue
		}
		if t.group != "" {
			quotas[t.group] = t.quota
		}
		if t.credential != "" {
			keys[t.credential] = t.key
		}
	}
	f.targets, f.quotas, f.keys = kept, quotas, keys
}

// Budget returns the retry budget of a provider, and makes it when there is none.
// It holds for the life of the process.
func (f *Fleet) Budget(provider string) *Budget {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.budgets[provider]
	if !ok {
		b = &Budget{now: f.now}
		f.budgets[provider] = b
	}
	return b
}

// all lists the targets in the order of their ids.
func (f *Fleet) all() []*Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*Target, 0, len(f.targets))
	for _, t := range f.targets {
		list = append(list, t)
	}
	slices.SortFunc(list, byID)
	return list
}

// instant is a time on the fleet's monotonic clock. The zero value stands for
// "never", so the clock begins at one.
type instant int64

func (i instant) add(d time.Duration) instant      { return i + instant(d) }
func (i instant) since(past instant) time.Duration { return time.Duration(i - past) }

func (f *Fleet) now() instant {
	if f.clock == nil {
		return 1 + instant(time.Since(f.start)) // cheaper than time.Now
	}
	return 1 + instant(f.clock().Sub(f.start))
}

func (f *Fleet) wall() time.Time {
	if f.clock == nil {
		return time.Now()
	}
	return f.clock()
}

// time is an instant for people; never is the zero time.
func (f *Fleet) time(i instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return f.start.Add(time.Duration(i - 1))
}

// jitter moves a duration by up to a fifth, either way, so that what failed
// together does not come back together.
func (f *Fleet) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*f.rand()))
}

// fetch returns what has a name, and makes it when there is none. What has no name
// is not shared.
func fetch[T any](m map[string]*T, name string) *T {
	v, ok := m[name]
	if !ok {
		v = new(T)
	}
	if name != "" {
		m[name] = v
	}
	return v
}
