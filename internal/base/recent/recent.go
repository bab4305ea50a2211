// Package recent has a map that forgets what was not used for long.
package recent

// Map is a map that drops entries that were not put for long. When the younger generation is
// full, the older one is dropped, so it never holds more than twice its maximum.
type Map[K comparable, V any] struct {
	max        int
	young, old map[K]V
}

// New returns a map with a maximum of entries for each of two generations.
func New[K comparable, V any](most int) Map[K, V] {
	return Map[K, V]{max: most, young: map[K]V{}}
}

// IsZero reports whether the map was not made by New.
func (m *Map[K, V]) IsZero() bool { return m.young == nil }

// Len returns the number of entries of both generations.
func (m *Map[K, V]) Len() int { return len(m.young) + len(m.old) }

// Get returns an entry.
func (m *Map[K, V]) Get(k K) (V, bool) {
	if v, ok := m.young[k]; ok {
		return v, true
	}
	v, ok := m.old[k]
	return v, ok
}

// Put adds or replaces an entry.
func (m *Map[K, V]) Put(k K, v V) {
	if _, ok := m.young[k]; !ok && len(m.young) >= m.max {
		m.old, m.young = m.young, map[K]V{}
	}
	m.young[k] = v
}
