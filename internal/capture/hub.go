package capture

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds of what is held for somebody who looks on.
const (
	maxOpen     = 16 // exchanges that are copied at the same time, for each who is attached
	maxAttached = 4
	maxBytes    = 16 << 20 // a side, whatever is asked for
)

// Filter is what somebody wants to see.
type Filter struct {
	Model   string `json:"model,omitempty"`
	Key     string `json:"key,omitempty"`     // id of a key, or sha256: and the beginning of its digest
	Request string `json:"request,omitempty"` // as the client names it
	All     bool   `json:"all,omitempty"`
	Count   int    `json:"count"`
	Bytes   int    `json:"bytes"` // a side
}

// Subject is what an exchange is chosen by.
type Subject struct {
	Model    string
	Key      string
	Digest   string   // hexadecimal, of keys that have no id
	Requests []string // the names that the client gave the request
}

// wants reports whether an exchange is one of those that are asked for. What is not
// named is not asked about.
func (f *Filter) wants(s *Subject) bool {
	if f.Model != "" && f.Model != s.Model || f.Key != "" && !f.wantsKey(s) || f.Request != "" && !slices.Contains(s.Requests, f.Request) {
		return false
	}
	return f.All || f.Model != "" || f.Key != "" || f.Request != ""
}

func (f *Filter) wantsKey(s *Subject) bool {
	if digest, ok := strings.CutPrefix(f.Key, "sha256:"); ok {
		return len(digest) >= 8 && strings.HasPrefix(s.Digest, digest)
	}
	return f.Key == s.Key
}

// Hub knows who looks on. The zero value is ready, and nobody does.
type Hub struct {
	Version string

	viewers atomic.Pointer[[]*viewer] // nil while there is none
	mu      sync.Mutex                // of those who come and go
}

// viewer is somebody who is attached.
type viewer struct {
	filter Filter
	open   atomic.Int64   // exchanges that are held, until they are sent
	given  atomic.Int64   // exchanges that were put into out
	large  atomic.Int64   // that matched and were larger than the limit
	missed atomic.Int64   // that matched when there were too many
	out    chan *Exchange // never waited for
	news   chan struct{}  // a count has changed
}

// Active reports whether anybody looks on. It is all that a request pays while
// nobody does.
func (h *Hub) Active() bool { return h.viewers.Load() != nil }

// Follow returns a tape for an exchange that somebody wants to see, else nil.
func (h *Hub) Follow(s Subject) *Tape {
	all := h.viewers.Load()
	if all == nil {
		return nil
	}
	var t *Tape
	for _, v := range *all {
		if !v.filter.wants(&s) {
			continue
		}
		if v.given.Load() >= int64(v.filter.Count) {
			continue // it has what it wanted, and is about to leave
		}
		if v.open.Add(1) > maxOpen {
			v.open.Add(-1)
			v.missed.Add(1)
			v.poke()
			continue
		}
		if t == nil {
			t = &Tape{x: Exchange{Version: h.Version, Taken: -1}}
		}
		t.viewers = append(t.viewers, v)
		t.max = max(t.max, v.filter.Bytes)
	}
	return t
}

// join adds somebody, unless there are enough.
func (h *Hub) join(f Filter) (*viewer, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*viewer
	if p := h.viewers.Load(); p != nil {
		all = *p
	}
	if len(all) >= maxAttached {
		return nil, false
	}
	f.Count = max(f.Count, 1)
	f.Bytes = min(max(f.Bytes, 1), maxBytes)
	v := &viewer{filter: f, out: make(chan *Exchange, maxOpen), news: make(chan struct{}, 1)}
	all = append(slices.Clone(all), v)
	h.viewers.Store(&all)
	return v, true
}

// leave takes somebody away. Tapes that still run for them end in nothing.
func (h *Hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*h.viewers.Load()), func(o *viewer) bool { return o == v })
	if len(left) == 0 {
		h.viewers.Store(nil)
		return
	}
	h.viewers.Store(&left)
}

// give hands an exchange over, if there is room for it.
func (v *viewer) give(x *Exchange) {
	if x == nil {
		v.open.Add(-1)
		v.large.Add(1)
		v.poke()
		return
	}
	if v.given.Add(1) > int64(v.filter.Count) {
		v.open.Add(-1)
		return
	}
	select {
	case v.out <- x:
	default: // there is room for as many as may be open
		v.open.Add(-1)
		v.given.Add(-1)
		v.missed.Add(1)
		v.poke()
	}
}

// poke says that a count has changed.
func (v *viewer) poke() {
	select {
	case v.news <- struct{}{}:
	default: // it was said and not heard yet
	}
}
