package health

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Options replaces the clock, the random numbers and the transport, for tests.
type Options struct {
	Now       func() time.Time  // default: the system's clock
	Rand      func() float64    // in [0, 1), safe for concurrent use; default: math/rand
	Transport http.RoundTripper // for the checks; default: a transport without keep-alive
	Changed   func(Change)      // called when a target goes out of service or comes back; must not call the fleet
	Logger    *slog.Logger      // of panics in checks; default: no log
}

// Fleet is the health of all targets of a process. It is safe for concurrent use.
type Fleet struct {
	clock     func() time.Time // nil: the system's clock
	start     time.Time
	rand      func() float64
	transport http.RoundTripper
	changed   func(Change)
	logger    *slog.Logger
	seed      maphash.Seed // for callerID

	ctx    context.Context // of the checks
	cancel context.CancelFunc
	checks sync.WaitGroup

	mu      sync.Mutex
	targets map[string]*Target
	quotas  map[string]*quota
	keys    map[string]*refusal
	budgets map[string]*Budget
}

// dialLimit bounds the time in which a check connects.
const dialLimit = 2 * time.Second

// NewFleet returns a fleet without targets.
func NewFleet(o Options) *Fleet {
	f := &Fleet{
		clock: o.Now, rand: o.Rand, transport: o.Transport, changed: o.Changed, logger: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), seed: maphash.MakeSeed(),
		targets: map[string]*Target{}, quotas: map[string]*quota{}, keys: map[string]*refusal{}, budgets: map[string]*Budget{},
	}
	if f.changed == nil {
		f.changed = func(Change) {}
	}
	f.start = f.wall()
	if f.rand == nil {
		f.rand = rand.Float64
	}
	if f.transport == nil {
		// A kept connection would hide that no new one can be made. A dial outlives
		// its check's timeout, so it has a limit of its own.
		f.transport = &http.Transport{DialContext: (&net.Dialer{Timeout: dialLimit}).DialContext, DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10}
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// Close stops all checks and waits for them. All other methods keep working.
func (f *Fleet) Close() {
	f.mu.Lock() // no check starts while Close waits
	f.cancel()
	f.mu.Unlock()
	f.checks.Wait()
}

// Target returns the target with an id and creates it if needed. All targets of a
// quota group cool down together, and a refused credential concerns all targets that use
// it. An empty group or credential is not shared with other targets. The same arguments
// give the same pointer. If only the group or the credential has changed, the new
// pointer shares all other state with the old one.
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
		if now := f.now(); now.since(0) > warmTime { // right after the start all targets are new, so none needs less than the others
			t.warmUp(now)
		}
	}
	f.targets[id] = t
	return t
}

// Keep removes all targets except those with these ids, and stops their checks. A request
// in flight may still report to a removed target.
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

// Budget returns the retry budget of a provider and creates it if needed. It exists
// until the process ends.
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

// all returns the targets sorted by id.
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

// callerID returns a non-zero number that stands for a client key.
func (f *Fleet) callerID(caller string) uint64 { return maphash.String(f.seed, caller) | 1 }

// instant is a time on the fleet's monotonic clock. Zero means "never", so the clock
// starts at one.
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

// time converts an instant to wall-clock time. "Never" is the zero time.
func (f *Fleet) time(i instant) time.Time {
	if i == 0 {
		return time.Time{}
	}
	return f.start.Add(time.Duration(i - 1))
}

// jitter changes a duration by up to a fifth in either direction, so that targets
// that failed together do not return together.
func (f *Fleet) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*f.rand()))
}

// fetch returns the entry with a name and creates it if needed. For an empty name it
// returns a new entry each time.
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
