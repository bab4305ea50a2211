package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
)

// stamp identifies a version of a file. It is nil if the file does not exist, which may
// happen during a rename.
type stamp struct{ info os.FileInfo }

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

// same also compares the inode: a file that replaced another may have the same time and
// size.
func (s stamp) same(as stamp) bool {
	if s.info == nil || as.info == nil {
		return s.info == as.info
	}
	return os.SameFile(s.info, as.info) && s.info.ModTime().Equal(as.info.ModTime()) && s.info.Size() == as.info.Size()
}

// sightings records the versions of a file that were seen.
type sightings struct {
	loaded, last stamp
	restless     int // consecutive looks that each found a different version
}

// enoughLooks is the number of looks after which a constantly changing file is loaded
// anyway.
const enoughLooks = 3

// changed looks at the file and reports whether to load it. The file must look the same
// twice, because an editor may write it in pieces.
func (s *sightings) changed(now stamp) bool {
	if now.same(s.last) {
		s.restless = 0
	} else {
		s.restless++
	}
	s.last = now
	if now.same(s.loaded) || s.restless > 0 && s.restless < enoughLooks {
		return false
	}
	s.loaded, s.restless = now, 0
	return true
}

// watcher reloads the file when it changes. It rejects an invalid file, reports all its
// errors and keeps the previous configuration.
type watcher struct {
	options  Options
	first    *config.Config // the configuration at start-up
	bound    net.Addr       // the listening address, which a reload does not change
	current  *current
	mu       sync.Mutex                    // serializes reloads by the watcher and by operators
	refused  atomic.Pointer[admin.Refusal] // the last reload, if it was refused
	observer *observe.Observer
}

// watch polls the file until the context ends.
func (w *watcher) watch(ctx context.Context, loaded stamp) {
	path := w.options.Config
	if path == "" {
		return
	}
	seen := sightings{loaded: loaded, last: loaded}
	tick := time.NewTicker(w.options.pace.look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if seen.changed(stampOf(path)) {
			_ = w.reload() // reload logs its errors
		}
	}
}

// reload loads the file, or returns its errors.
func (w *watcher) reload() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	cfg, err := w.options.LoadConfig()
	if err == nil {
		err = w.checkGuard(cfg)
	}
	if err == nil {
		err = w.current.load(cfg)
	}
	w.observer.Reloaded(err)
	logger := w.observer.Logger()
	if err != nil {
		w.refused.Store(&admin.Refusal{At: time.Now(), Errors: mistakesOf(err)})
		logger.Error("the changed configuration is refused and the old one kept", "error", err.Error())
		return err
	}
	w.refused.Store(nil)
	logger.Info("configuration loaded", "models", len(cfg.Models), "providers", len(cfg.Providers))
	warnOldPrices(logger, cfg)
	if keys := cfg.StartsOtherwise(&w.first.Listing); keys != nil {
		logger.Warn("changed settings take effect at the next start", "settings", keys)
	}
	return nil
}

// state returns what the gateway runs with, for commands on its machine.
func (w *watcher) state() running.Configuration {
	cfg, loaded := w.current.config()
	s := running.Configuration{Loaded: loaded, Text: cfg.String(), Waiting: cfg.StartsOtherwise(&w.first.Listing)}
	if refused := w.refused.Load(); refused != nil {
		for _, m := range refused.Errors {
			s.Refused = append(s.Refused, fmt.Sprintf("%s (line %d): %s", m.Location, m.Line, m.Message))
		}
	}
	return s
}

// checkGuard rejects a reload that removes all keys and identity providers while the bound address is reachable
// from other machines. The bound address does not change until the process exits.
func (w *watcher) checkGuard(cfg *config.Config) error {
	if tcp, ok := w.bound.(*net.TCPAddr); len(cfg.Keys)+len(cfg.Identity) > 0 || w.first.Store.URL != "" || ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s: keys: the gateway still listens on %s, which other machines can reach; keep a key or an identity provider, or restart it on another address", w.options.Config, w.bound)
}
