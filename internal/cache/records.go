package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Records keeps the records of idempotent requests in this process, up to a number of
// bytes. Where that is reached the answers of the oldest are let go first, then what
// is known of them; what is under way is never let go.
type Records struct {
	mu      sync.Mutex
	all     map[Key]entry
	size    int64
	max     int64
	answers []Key // those that have an answer, oldest first
	ended   []Key // those that have none any more, oldest first
	now     func() time.Time
	swept   time.Time
}

type entry struct {
	value []byte
	until time.Time
}

// DefaultRecords is what Records holds where nothing is said, in bytes.
const DefaultRecords = 64 << 20

// errFull says that everything that is held is under way.
var errFull = errors.New("cache: too many requests with an Idempotency-Key are under way")

// NewRecords returns one of up to size bytes; 0 is DefaultRecords.
func NewRecords(size int64) *Records {
	if size <= 0 {
		size = DefaultRecords
	}
	return &Records{all: map[Key]entry{}, max: size, now: time.Now}
}

// Claim puts a value where nothing is, or where what is there begins with mine;
// otherwise it returns what is there. An empty value removes.
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
	if !m.room(cost(c.Value)) {
		if found {
			m.set(k, old)
		}
		return nil, errFull
	}
	m.set(k, entry{value: c.Value, until: now.Add(c.TTL)})
	return nil, nil
}

func cost(value []byte) int64 { return int64(cap(value) + overhead) }

func (m *Records) set(k Key, e entry) {
	m.all[k] = e
	m.size += cost(e.value)
	switch kind(e.value[1]) {
	case full:
		m.answers = append(m.answers, k)
	case spent:
		m.ended = append(m.ended, k)
	}
}

func (m *Records) drop(k Key) {
	if e, ok := m.all[k]; ok {
		m.size -= cost(e.value)
		delete(m.all, k)
	}
}

// room makes space for a value and says whether there is.
func (m *Records) room(need int64) bool {
	for m.size+need > m.max && len(m.answers) > 0 {
		k := m.answers[0]
		m.answers = m.answers[1:]
		if e, ok := m.all[k]; ok && kind(e.value[1]) == full {
			m.drop(k)
			m.set(k, entry{value: spend(e.value), until: e.until})
		}
	}
	for m.size+need > m.max && len(m.ended) > 0 {
		k := m.ended[0]
		m.ended = m.ended[1:]
		if e, ok := m.all[k]; ok && kind(e.value[1]) == spent {
			m.drop(k)
		}
	}
	return m.size+need <= m.max
}

// sweep lets go of what has expired, once a minute.
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
	m.answers = m.still(m.answers, full)
	m.ended = m.still(m.ended, spent)
}

// still is the part of a queue that it still speaks of.
func (m *Records) still(queue []Key, want kind) []Key {
	var left []Key
	for _, k := range queue {
		if e, ok := m.all[k]; ok && kind(e.value[1]) == want {
			left = append(left, k)
		}
	}
	return left
}
