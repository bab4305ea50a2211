package balance

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

const (
	// window is the number of requests from which the shares of prefixes are computed.
	// It is also the maximum number of prefixes.
	window = 4096
	// enough is the minimum number of requests to compute a share from.
	enough = 256
	// maxTargets is the maximum number of targets with token counts.
	maxTargets = 4096
	// commonPart is the part of a choice's fair share of the requests above which a
	// prefix is common. The conversations of an uncommon prefix go to two choices only,
	// and must be few compared with a choice's share to not overload them.
	commonPart = 1.0 / 16
)

// History counts the prefixes of a model's requests and the cached tokens of its
// targets. The zero value is ready to use. It is safe for concurrent use.
type History struct {
	mu      sync.Mutex
	tokens  map[string]Tokens
	seen    map[uint64]int // requests by shared prefix
	counted int            // the sum of seen
}

// Tokens counts the prompt tokens of a target.
type Tokens struct {
	ID     string
	Prompt int64 // all prompt tokens
	Cached int64 // those that the target reported as cached
}

// Share returns the part of the prompt tokens that was cached, from 0 to 1.
func (t Tokens) Share() float64 {
	if t.Prompt == 0 {
		return 0
	}
	return float64(t.Cached) / float64(t.Prompt)
}

// Seen counts a response of a choice: the tokens of its prompt and those of them that
// were cached, 0 if not reported.
func (h *History) Seen(id string, s Session, prompt, cached int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if prompt > 0 {
		h.count(id, prompt, cached)
	}
	if len(s.Prefixes) > 1 {
		h.note(s.Prefixes[0])
	}
}

func (h *History) count(id string, prompt, cached int) {
	if h.tokens == nil {
		h.tokens = map[string]Tokens{}
	}
	t, known := h.tokens[id]
	if !known && len(h.tokens) == maxTargets {
		return
	}
	t.ID = id
	t.Prompt += int64(prompt)
	t.Cached += int64(min(max(cached, 0), prompt))
	h.tokens[id] = t
}

// note counts a request with a prefix. When the window is full, all counts are halved. This
// removes prefixes that are not used any more.
func (h *History) note(prefix uint64) {
	if h.seen == nil {
		h.seen = map[uint64]int{}
	}
	h.seen[prefix]++
	h.counted++
	if h.counted < window {
		return
	}
	h.counted = 0
	for p, n := range h.seen {
		if n /= 2; n == 0 {
			delete(h.seen, p)
		} else {
			h.seen[p] = n
			h.counted += n
		}
	}
}

// common reports whether a prefix has so many requests that every choice caches it.
// Without a history it is assumed to be common.
func (h *History) common(prefix uint64, choices int) bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	part := float64(h.seen[prefix]) / float64(max(h.counted, enough))
	return part*float64(choices) > commonPart
}

// Targets returns the token counts of the targets, sorted by ID.
func (h *History) Targets() []Tokens {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.tokens), func(a, b Tokens) int { return cmp.Compare(a.ID, b.ID) })
}

// Forget removes the counts of targets that are gone.
func (h *History) Forget(gone func(id string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.tokens, func(id string, _ Tokens) bool { return gone(id) })
}
