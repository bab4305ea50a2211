package route

import "sync"

// Share lets a part of what passes through. It is saved up as requests come, so
// that what was let through is never more than the part of what came, and a
// little of it in advance is never given.
type Share struct {
	mu     sync.Mutex
	number float64 // of requests that may be let through now
	bytes  float64 // of what they send
}

// saved is how many requests may be saved up at most: a lull does not pay for a
// storm.
const saved = 10

// Offer counts a request.
func (s *Share) Offer(part float64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number = min(s.number+part, saved)
	s.bytes += part * float64(size)
}

// Take asks for one of them to be let through.
func (s *Share) Take(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number < 1 || s.bytes < float64(size) {
		return false
	}
	s.number--
	s.bytes = min(s.bytes-float64(size), saved*float64(size))
	return true
}
