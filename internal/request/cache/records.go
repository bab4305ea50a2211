package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Records implements Locks in this process, with a limit in bytes. At the limit it evicts
// entries of the tenant that uses the most. So the entries within a tenant's equal share are
// safe from other tenants: the responses of the oldest records first, then those records. It
// never evicts the record of an open run.
type Records struct {
	mu      sync.Mutex
	all     map[Key]entry
	tenants map[string]*tenant
	size    int64
	max     int64
	now     func() time.Time
	swept   time.Time
}

type entry struct {
	value  []byte
	until  time.Time
	tenant *tenant
}

// tenant holds the records of one tenant that can be evicted, and the bytes of all.
type tenant struct {
	size      int64
	responses []Key // records with a response, oldest first
	ended     []Key // records of ended runs without a response, oldest first
}

// DefaultRecords is the default limit of Records in bytes.
const DefaultRecords = 64 << 20

// errFull is returned if all records belong to open runs.
var errFull = errors.New("cache: too many requests with an Idempotency-Key are running")

// NewRecords returns Records of up to size bytes; 0 means DefaultRecords.
func NewRecords(size int64) *Records {
	if size <= 0 {
		size = DefaultRecords
	}
	return &Records{all: map[Key]entry{}, tenants: map[string]*tenant{}, max: size, now: time.Now}
}

// Claim implements Locks.
func (m *Records) Claim(_ context.Context, k Key, c Claim) (there []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.sweep(now)
	old, found := m.all[k]
	if found && now.After(old.until) {
		m.drop(k)
		found = false
	}
	if found && !c.owns(old.value) {
		return old.value, nil
	}
	m.drop(k)
	if len(c.Value) == 0 {
		return nil, nil
	}
	if !m.makeRoom(cost(c.Value)) {
		if found {
			m.set(k, old)
		}
		return nil, errFull
	}
	m.set(k, entry{value: c.Value, until: now.Add(c.TTL), tenant: m.tenantOf(c.Tenant)})
	return nil, nil
}

func (m *Records) tenantOf(name string) *tenant {
	t, ok := m.tenants[name]
	if !ok {
		t = &tenant{}
		m.tenants[name] = t
	}
	return t
}

func cost(value []byte) int64 { return int64(cap(value) + overhead) }

func (m *Records) set(k Key, e entry) {
	m.all[k] = e
	m.size += cost(e.value)
	t := e.tenant
	t.size += cost(e.value)
	switch kind(e.value[1]) {
	case full:
		t.responses = append(t.responses, k)
	case lost:
		t.ended = append(t.ended, k)
	}
}

func (m *Records) drop(k Key) {
	if e, ok := m.all[k]; ok {
		m.size -= cost(e.value)
		e.tenant.size -= cost(e.value)
		delete(m.all, k)
	}
}

// makeRoom evicts until a value of need bytes fits, and reports whether it does.
func (m *Records) makeRoom(need int64) bool {
	for m.size+need > m.max {
		t := m.largest()
		if t == nil {
			return false
		}
		m.evict(t)
	}
	return true
}

// largest returns the tenant with the most bytes of those that have something to evict, or
// nil.
func (m *Records) largest() (most *tenant) {
	for _, t := range m.tenants {
		if len(t.responses)+len(t.ended) > 0 && (most == nil || t.size > most.size) {
			most = t
		}
	}
	return most
}

// evict evicts the oldest response of a tenant, or else its oldest record.
func (m *Records) evict(t *tenant) {
	if len(t.responses) > 0 {
		k := t.responses[0]
		t.responses = t.responses[1:]
		if e, ok := m.all[k]; ok && kind(e.value[1]) == full {
			m.drop(k)
			m.set(k, entry{value: dropResponse(e.value), until: e.until, tenant: t})
		}
		return
	}
	k := t.ended[0]
	t.ended = t.ended[1:]
	if e, ok := m.all[k]; ok && kind(e.value[1]) == lost {
		m.drop(k)
	}
}

// sweep removes expired records, once a minute.
func (m *Records) sweep(now time.Time) {
	if now.Sub(m.swept) < time.Minute {
		return
	}
	m.swept = now
	for k, e := range m.all {
		if now.After(e.until) {
			m.drop(k)
		}
	}
	for name, t := range m.tenants {
		t.responses, t.ended = m.filter(t.responses, full), m.filter(t.ended, lost)
		if t.size == 0 {
			delete(m.tenants, name)
		}
	}
}

// filter returns the keys of a queue whose records still have the wanted kind.
func (m *Records) filter(queue []Key, want kind) []Key {
	var left []Key
	for _, k := range queue {
		if e, ok := m.all[k]; ok && kind(e.value[1]) == want {
			left = append(left, k)
		}
	}
	return left
}
