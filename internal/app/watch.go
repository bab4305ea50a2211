package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
)

// stamp tells one version of a file from another. It is nil for a file that is
// not there: it may be between two names.
type stamp struct{ info os.FileInfo }

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

// same compares identity too: a file that was moved here may be as old and as
// long as the one that it replaced.
func (s stamp) same(as stamp) bool {
	if s.info == nil || as.info == nil {
		return s.info == as.info
	}
	return os.SameFile(s.info, as.info) && s.info.ModTime().Equal(as.info.ModTime()) && s.info.Size() == as.info.Size()
}

// sightings are the versions of a file that were seen.
type sightings struct {
	loaded, last stamp
	restless     int // looks in a row that each saw another version
}

// enoughLooks is after how many looks a file that is written all the time is
// loaded as it is: else it never would be.
const enoughLooks = 3

// changed takes a look at the file and reports whether it is to be loaded. It has
// to look the same twice, because an editor may write a file in pieces.
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

// watcher loads the file again whenever it has changed. A file with a mistake is
// refused with all its mistakes, and what was loaded before stays.
type watcher struct {
	options  Options
	first    *config.Config // what the process was started with
	bound    net.Addr       // where it listens until it ends
	current  *current
	mu       sync.Mutex // against the file's change and an operator's wish at once
	observer *observe.Observer
}

// watch returns when the context ends.
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
			_ = w.reload() // it is logged
		}
	}
}

// reload reads the file and takes it into use, or says what is wrong with it.
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
		logger.Error("the changed configuration is refused and the old one kept", "error", err.Error())
		return err
	}
	logger.Info("configuration loaded", "models", len(cfg.Models), "providers", len(cfg.Providers))
	if cfg.StartsOtherwise(w.first) {
		logger.Warn("a change of listen, admin, log, traces, node, data, store, redis, cache or discover takes effect at the next start")
	}
	return nil
}

// checkGuard keeps keys on an address that other machines can reach. The file may
// well say another address by now, but this one is bound until the process ends.
func (w *watcher) checkGuard(cfg *config.Config) error {
	if tcp, ok := w.bound.(*net.TCPAddr); len(cfg.Keys) > 0 || w.first.Store.URL != "" || ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s: keys: the gateway still listens on %s, which other machines can reach; keep a key, or restart it on another address", w.options.Config, w.bound)
}
