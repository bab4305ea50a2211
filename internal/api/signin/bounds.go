package signin

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Bounds of the calls to the identity provider that anybody can cause.
const (
	maxCalls      = 64   // renewals and revocations that may wait for it
	maxStrangers  = 48   // of these, for clients without a session; the rest is for sessions
	maxFromSource = 12   // of these, for one address
	maxKinds      = 1000 // of refusals that are remembered
)

// slots counts the calls in progress.
type slots struct {
	mu        sync.Mutex
	all       int
	strangers int
	from      map[netip.Addr]int
}

// enter takes a slot for a client, or for a session if the client's address is not valid. It reports
// whether there was one; leave returns it.
func (s *slots) enter(from netip.Addr) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= maxCalls || from.IsValid() && (s.strangers >= maxStrangers || s.from[from] >= maxFromSource) {
		return nil, false
	}
	s.add(from, 1)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.add(from, -1)
	}, true
}

func (s *slots) add(from netip.Addr, n int) {
	s.all += n
	if !from.IsValid() {
		return
	}
	if s.from == nil {
		s.from = map[netip.Addr]int{}
	}
	s.strangers += n
	if s.from[from] += n; s.from[from] == 0 {
		delete(s.from, from)
	}
}

// refusals limits the entries about sign-ins of people whom nobody knows.
type refusals struct {
	mu   sync.Mutex
	last map[string]time.Time // by kind, and person if one is known
}

// allow reports whether a refusal of a kind is written: the first of a minute.
func (f *refusals) allow(kind string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, ok := f.last[kind]; ok && now.Sub(last) < time.Minute {
		return false
	}
	if f.last == nil || len(f.last) >= maxKinds {
		f.last = map[string]time.Time{}
	}
	f.last[kind] = now
	return true
}

// auditRefusal records that a sign-in was refused, once per minute and kind: anybody can cause one.
func (s *Server) auditRefusal(r *http.Request, p *access.Person, where, kind string, err error) {
	if p != nil {
		kind += p.Record.ID
	}
	if s.refusals.allow(where+kind, time.Now()) {
		s.o.Logger.Warn("a sign-in was refused; further ones like it are not recorded for a minute", "where", where, "error", err, "address", access.Peer(r))
		s.audit(r, p, "sign-in.refuse", where+": "+err.Error())
	}
}
