package route

import "sync"

// Share permits a share of the requests, and of their bytes. Each request earns its
// share before it can be used, so the permitted requests never exceed it.
type Share struct {
	mu       sync.Mutex
	requests float64 // that are permitted now
	bytes    float64 // that are permitted now
}

// maxSaved is the maximum number of requests that are permitted at once after a time
// without use.
const maxSaved = 10

// Offer counts a request that earns a part of one.
func (s *Share) Offer(part float64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = min(s.requests+part, maxSaved)
	s.bytes += part * float64(size)
}

// Take reports whether a request of this size is permitted, and counts it if so.
func (s *Share) Take(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests < 1 || s.bytes < float64(size) {
		return false
	}
	s.requests--
	s.bytes = min(s.bytes-float64(size), maxSaved*float64(size))
	return true
}
