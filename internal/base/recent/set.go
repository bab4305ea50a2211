package recent

import (
	"sync"
	"time"
)

// Set is a set whose members leave it after a time. It can be used from several goroutines.
type Set[K comparable] struct {
	most  int
	lasts time.Duration

	mu    sync.Mutex
	until Map[K, time.Time]
}

// NewSet returns a set with a maximum of members for each of two generations.
func NewSet[K comparable](most int, lasts time.Duration) *Set[K] {
	return &Set[K]{most: most, lasts: lasts, until: New[K, time.Time](most)}
}

// Clear removes all members.
func (s *Set[K]) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = New[K, time.Time](s.most)
}

// Has reports whether k is a member at a time.
func (s *Set[K]) Has(k K, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.until.Get(k)
	return ok && now.Before(until)
}

// Add adds k at a time.
func (s *Set[K]) Add(k K, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until.Put(k, now.Add(s.lasts))
}
