package conversation

import (
	"bytes"
	"container/heap"
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// bounds limit a store.
type bounds struct {
	ttl        time.Duration // since the last use
	maxEntries int
	maxValue   int   // bytes of one value
	maxBytes   int64 // bytes of all values together
}

// store is a map from digests to bytes. When it runs out of bytes or of entries, it evicts
// the least recently used entries of the tenant that uses most of them. So a tenant that
// uses no more than an equal share keeps its entries, whatever the others do. An LRU fits
// better than a cache by frequency: a conversation is used a few times in a row and then
// never again.
type store struct {
	mu      sync.Mutex
	bounds  bounds
	entries map[key]*list.Element
	tenants map[string]*tenant
	largest [resources]ranking // all tenants, by their use of each resource
	bytes   int64
	swept   time.Time // when expired entries of all tenants were last removed
}

// sweepEvery is the interval in which expired entries of all tenants are removed.
const sweepEvery = time.Minute

// tenant holds the entries of one tenant.
type tenant struct {
	name   string
	recent list.List // of *entry, most recently used last
	bytes  int64
	at     [resources]int // positions in the rankings
}

// ranking is a heap of tenants with the one that uses most of a resource first.
type ranking struct {
	resource resource
	list     []*tenant
}

// resource is something that a store has a limited amount of: bytes or entries.
type resource int

const (
	ofBytes resource = iota
	ofEntries
	resources
)

func (t *tenant) uses(r resource) int64 {
	if r == ofBytes {
		return t.bytes
	}
	return int64(t.recent.Len())
}

func (r *ranking) Len() int { return len(r.list) }
func (r *ranking) Less(i, j int) bool {
	return r.list[i].uses(r.resource) > r.list[j].uses(r.resource)
}

func (r *ranking) Swap(i, j int) {
	r.list[i], r.list[j] = r.list[j], r.list[i]
	r.list[i].at[r.resource], r.list[j].at[r.resource] = i, j
}

func (r *ranking) Push(x any) {
	t := x.(*tenant) //nolint:forcetypeassert // only tenants are pushed
	t.at[r.resource] = len(r.list)
	r.list = append(r.list, t)
}

func (r *ranking) Pop() any {
	last := len(r.list) - 1
	t := r.list[last]
	r.list = r.list[:last]
	return t
}

// key is a digest of everything that a caller has to know to find an entry.
type key [sha256.Size]byte

type entry struct {
	key     key
	tenant  *tenant
	value   []byte // empty if the key is ambiguous
	expires time.Time
}

// entryOverhead is the approximate memory of one entry in the map and the list.
const entryOverhead = 256

func (e *entry) size() int64 { return int64(len(e.value)) + entryOverhead }

func newStore(b bounds) *store {
	return &store{bounds: b, entries: map[key]*list.Element{}, tenants: map[string]*tenant{}, largest: [resources]ranking{{resource: ofBytes}, {resource: ofEntries}}}
}

// newKey returns the digest of the parts.
func newKey(parts ...string) key {
	d := newDigester()
	d.write(d.turns, parts...)
	return key(d.sum().turns)
}

// setMaxBytes changes the bound of all values together and evicts what exceeds it.
func (s *store) setMaxBytes(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds.maxBytes = n
	s.evict(time.Now())
}

// put stores a copy of a tenant's value and replaces the key's previous value. It reports
// whether the value is within the limits.
func (s *store) put(tenant string, k key, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(value) {
		return false
	}
	s.set(tenant, k, value)
	return true
}

// putOnce stores a copy of value under a key that must stand for one value only. If the
// key already has a different value, it becomes ambiguous: get then finds neither value.
// putOnce reports whether get will find value.
func (s *store) putOnce(tenant string, k key, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(value) {
		return false
	}
	if old, ok := s.use(k); ok && !bytes.Equal(old, value) {
		s.set(tenant, k, nil)
		return false
	}
	s.set(tenant, k, value)
	return true
}

// putFirst stores a copy of value unless the key already has a value. It returns the key's
// value, or value if that is too large to be stored.
func (s *store) putFirst(tenant string, k key, value []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.use(k); ok {
		return old
	}
	if s.fits(value) {
		s.set(tenant, k, value)
	}
	return value
}

// get returns the value of a key and renews its TTL. The value must not be changed.
func (s *store) get(k key) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, _ := s.use(k)
	return value, len(value) > 0
}

func (s *store) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) == 0
}

func (s *store) fits(value []byte) bool {
	return len(value) <= s.bounds.maxValue && int64(len(value))+entryOverhead <= s.bounds.maxBytes
}

func (s *store) use(k key) ([]byte, bool) {
	at, ok := s.entries[k]
	if !ok {
		return nil, false
	}
	e, now := at.Value.(*entry), time.Now()
	if now.After(e.expires) {
		return nil, false
	}
	e.expires = now.Add(s.bounds.ttl)
	e.tenant.recent.MoveToBack(at)
	return e.value, true
}

func (s *store) set(name string, k key, value []byte) {
	if at, ok := s.entries[k]; ok {
		s.remove(at)
	}
	t, ok := s.tenants[name]
	if !ok {
		t = &tenant{name: name}
		s.tenants[name] = t
		for r := range s.largest {
			heap.Push(&s.largest[r], t)
		}
	}
	now := time.Now()
	e := &entry{key: k, tenant: t, value: bytes.Clone(value), expires: now.Add(s.bounds.ttl)}
	s.entries[k] = t.recent.PushBack(e)
	s.grow(t, e.size())
	s.evict(now)
}

// evict removes expired entries, and the least recently used ones of the largest tenants
// until the rest is within the bounds.
func (s *store) evict(now time.Time) {
	if now.Sub(s.swept) >= sweepEvery {
		s.swept = now
		for _, t := range s.tenants {
			for at := t.recent.Front(); at != nil && now.After(at.Value.(*entry).expires); at = t.recent.Front() {
				s.remove(at)
			}
		}
	}
	for len(s.entries) > s.bounds.maxEntries {
		s.remove(s.largest[ofEntries].list[0].recent.Front())
	}
	for s.bytes > s.bounds.maxBytes {
		s.remove(s.largest[ofBytes].list[0].recent.Front())
	}
}

func (s *store) remove(at *list.Element) {
	e := at.Value.(*entry) //nolint:forcetypeassert // only entries are in the lists
	t := e.tenant
	t.recent.Remove(at)
	delete(s.entries, e.key)
	s.grow(t, -e.size())
	if t.recent.Len() == 0 {
		for r := range s.largest {
			heap.Remove(&s.largest[r], t.at[r])
		}
		delete(s.tenants, t.name)
	}
}

// grow adds to the bytes of a tenant and of the store, and updates the rankings. The caller
// has already changed the number of the tenant's entries.
func (s *store) grow(t *tenant, by int64) {
	t.bytes += by
	s.bytes += by
	for r := range s.largest {
		heap.Fix(&s.largest[r], t.at[r])
	}
}
