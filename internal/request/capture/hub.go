package capture

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is held in memory for attached commands.
const (
	maxOpen     = 16 // exchanges at a time, for each command
	maxAttached = 4
	maxBytes    = 16 << 20 // of one body
)

// Filter selects exchanges. All fields that are set must match.
type Filter struct {
	Model   string `json:"model,omitempty"`
	Key     string `json:"key,omitempty"`     // id of an API key, or "sha256:" and a prefix of its digest
	Request string `json:"request,omitempty"` // a request id that the client sent
	All     bool   `json:"all,omitempty"`     // match also where no other field is set
	Count   int    `json:"count"`             // number of exchanges
	Bytes   int    `json:"bytes"`             // limit of each body
}

// Subject is what a Filter is matched against.
type Subject struct {
	Model    string
	Key      string
	Digest   string   // hexadecimal, of API keys that have no id
	Requests []string // request ids that the client sent
}

// RequestIDs returns the ids by which a client may know its request: those of its own headers, and its trace.
func RequestIDs(h http.Header) (ids []string) {
	for _, name := range []string{"X-Request-Id", "X-Client-Request-Id"} {
		if v := h.Get(name); v != "" {
			ids = append(ids, v)
		}
	}
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) == 4 {
		ids = append(ids, parts[1])
	}
	return ids
}

// matches reports whether the filter selects an exchange. An empty filter selects none.
func (f *Filter) matches(s *Subject) bool {
	if f.Model != "" && f.Model != s.Model || f.Key != "" && !f.matchesKey(s) || f.Request != "" && !slices.Contains(s.Requests, f.Request) {
		return false
	}
	return f.All || f.Model != "" || f.Key != "" || f.Request != ""
}

func (f *Filter) matchesKey(s *Subject) bool {
	if digest, ok := strings.CutPrefix(f.Key, "sha256:"); ok {
		return len(digest) >= 8 && strings.HasPrefix(s.Digest, digest)
	}
	return f.Key == s.Key
}

// Hub holds the attached commands. The zero value is ready to use.
type Hub struct {
	Version string // of the gateway

	viewers atomic.Pointer[[]*viewer] // nil while no command is attached
	mu      sync.Mutex                // serializes attach and detach
	closed  bool
}

// isClosed reports whether the gateway stops.
func (h *Hub) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

// Close detaches all commands, and lets no other attach.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if all := h.viewers.Load(); all != nil {
		for _, v := range *all {
			v.end()
		}
	}
}

// Attachment describes an attached command.
type Attachment struct {
	Since  time.Time
	UID    string // user id of the process; ? where the system does not say
	Filter Filter
}

// Attached returns the attached commands.
func (h *Hub) Attached() []Attachment {
	all := h.viewers.Load()
	if all == nil {
		return nil
	}
	list := make([]Attachment, len(*all))
	for i, v := range *all {
		list[i] = Attachment{Since: v.since, UID: v.uid, Filter: v.filter}
	}
	return list
}

// viewer is an attached command.
type viewer struct {
	filter    Filter
	uid       string
	since     time.Time
	open      atomic.Int64   // exchanges that are recorded or wait in out
	delivered atomic.Int64   // exchanges that were put into out
	oversized atomic.Int64   // exchanges that matched and exceeded the limit
	dropped   atomic.Int64   // exchanges that matched while too many were open
	out       chan *Exchange // senders never block
	changed   chan struct{}  // signals that oversized or dropped has changed
	stopping  chan struct{}  // closed when the gateway stops
	end       func()         // closes stopping
}

// Active reports whether a command is attached. It is all that a request costs while
// none is.
func (h *Hub) Active() bool { return h.viewers.Load() != nil }

// Record returns a recorder for an exchange that an attached command selects, else nil.
func (h *Hub) Record(s Subject) *Recorder {
	all := h.viewers.Load()
	if all == nil {
		return nil
	}
	var r *Recorder
	for _, v := range *all {
		if !v.filter.matches(&s) {
			continue
		}
		if v.delivered.Load() >= int64(v.filter.Count) {
			continue // it has all exchanges and is about to detach
		}
		if v.open.Add(1) > maxOpen {
			v.open.Add(-1)
			v.dropped.Add(1)
			v.signal()
			continue
		}
		if r == nil {
			r = &Recorder{x: Exchange{Version: h.Version, Answered: -1}}
		}
		r.viewers = append(r.viewers, v)
		r.max = max(r.max, v.filter.Bytes)
	}
	return r
}

// attach adds a command. It reports false where too many are attached or the hub is closed.
func (h *Hub) attach(uid string, f Filter) (*viewer, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*viewer
	if p := h.viewers.Load(); p != nil {
		all = *p
	}
	if len(all) >= maxAttached || h.closed {
		return nil, false
	}
	f.Count = max(f.Count, 1)
	f.Bytes = min(max(f.Bytes, 1), maxBytes)
	v := &viewer{filter: f, uid: uid, since: time.Now(), out: make(chan *Exchange, maxOpen), changed: make(chan struct{}, 1), stopping: make(chan struct{})}
	v.end = sync.OnceFunc(func() { close(v.stopping) })
	all = append(slices.Clone(all), v)
	h.viewers.Store(&all)
	return v, true
}

// detach removes a command. What is still recorded for it is discarded.
func (h *Hub) detach(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*h.viewers.Load()), func(o *viewer) bool { return o == v })
	if len(left) == 0 {
		h.viewers.Store(nil)
		return
	}
	h.viewers.Store(&left)
}

// deliver hands an exchange to the command. A nil exchange exceeded the limit.
func (v *viewer) deliver(x *Exchange) {
	if x == nil {
		v.open.Add(-1)
		v.oversized.Add(1)
		v.signal()
		return
	}
	if v.delivered.Add(1) > int64(v.filter.Count) {
		v.open.Add(-1)
		return
	}
	select {
	case v.out <- x:
	default: // out has room for all that may be open
		v.open.Add(-1)
		v.delivered.Add(-1)
		v.dropped.Add(1)
		v.signal()
	}
}

// signal wakes the command's connection to send the new counts.
func (v *viewer) signal() {
	select {
	case v.changed <- struct{}{}:
	default: // a signal is pending
	}
}
