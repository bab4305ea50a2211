package app

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
)

// self describes this process to the operators of all nodes.
type self struct {
	id, version string
	current     *current
	watcher     *watcher
	captures    *capture.Hub

	mu     sync.Mutex
	of     *config.Config // whose text and digest these are
	text   string
	digest string
}

func newSelf(version string, now *current, w *watcher, h *capture.Hub) *self {
	return &self{id: now.stores.node + "." + rand.Text()[:10], version: version, current: now, watcher: w, captures: h}
}

// Node returns the state of this process.
func (s *self) Node() store.Node {
	_, digest, loaded := s.config()
	n := store.Node{ID: s.id, Name: s.current.stores.node, Version: s.version, Started: s.current.started, Seen: time.Now(), Config: digest, Loaded: loaded,
		Captured: s.captures.Active()}
	if r := s.watcher.refused.Load(); r != nil {
		n.Refused = r.At
	}
	for _, t := range s.current.gateway.Targets() {
		n.Open += int64(t.InFlight)
	}
	if l := s.current.stores.snapshot().Ledger; l != nil {
		n.Waiting, n.Oldest = l.Rows, l.Oldest
	}
	return n
}

// Config returns the configuration as nodes compare it.
func (s *self) Config() string {
	text, _, _ := s.config()
	return text
}

// config returns the configuration and its digest. They are computed once for each configuration,
// which may be long.
func (s *self) config() (text, digest string, loaded time.Time) {
	cfg, loaded := s.current.config()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != cfg {
		s.of, s.text = cfg, nodes.Encode(cfg.Values())
		s.digest = nodes.Digest(s.text)
	}
	return s.text, s.digest, loaded
}
