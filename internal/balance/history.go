package balance

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

const (
	// window is how many requests the shares of prefixes are taken from. It is also
	// the most prefixes that are kept.
	window = 4096
	// enough is how many requests a share must be taken from.
	enough = 256
	// maxTargets is the most targets that are counted for.
	maxTargets = 4096
	// commonPart is the part of a choice's fair share of the requests from which on
	// a prefix is common. Those with less are spread unevenly, two choices for each,
	// and have to be small beside a choice's share for it not to show.
	commonPart = 1.0 / 16
)

// History is what answers have told about the prompt caches of a model's targets.
// The zero value is ready. Its methods may be called at the same time.
type History struct {
	mu      sync.Mutex
	tokens  map[string]Tokens
	seen    map[uint64]int // requests by shared prefix
	counted int            // the sum of seen
}

// Tokens says how much of a target's prompts came from its cache.
type Tokens struct {
	ID     string
	Prompt int64 // tokens of prompts
	Cached int64 // how many of them were cached, as the target says
}

// Share is the part of the prompts that was cached: 0 to 1.
func (t Tokens) Share() float64 {
	if t.Prompt == 0 {
		return 0
	}
	return float64(t.Cached) / float64(t.Prompt)
}

// Seen is to be called once for each answer, with the ID of the choice that gave it
// and the tokens of the prompt in all and from the cache; 0 where it did not say.
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

// note counts a request of a prefix. When the window is full all counts are halved:
// prefixes that are not used any more are forgotten.
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

// common reports whether a prefix has so many of the requests that every choice
// will have it cached anyway. Where nothing is known it is taken to be so.
func (h *History) common(prefix uint64, choices int) bool {
	if h == nil {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	part := float64(h.seen[prefix]) / float64(max(h.counted, enough))
	return part*float64(choices) > commonPart
}

// Targets returns the counters of the targets, sorted by ID. They only grow.
func (h *History) Targets() []Tokens {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.tokens), func(a, b Tokens) int { return cmp.Compare(a.ID, b.ID) })
}

// Forget drops the counters of targets that are no more.
func (h *History) Forget(gone func(id string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.tokens, func(id string, _ Tokens) bool { return gone(id) })
}
