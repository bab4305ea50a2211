package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/edge/local"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
)

// newIdentity returns the identity of this process.
func newIdentity(o *operations) running.Identity {
	data, _ := filepath.Abs(o.cfg.Data) // a relative path is as good without a working directory
	file := o.watcher.options.Config
	if abs, err := filepath.Abs(file); err == nil && file != "" {
		file = abs
	}
	id := running.Identity{Configuration: file, Address: o.cfg.Listen, Data: data, Node: o.stores.node, Version: o.version, PID: os.Getpid()}
	if o.cfg.Store.URL != "" {
		id.Store = o.cfg.Store.AbsoluteName()
	}
	return id
}

// localSocket serves commands on this machine: captures, and the admin API for commands that administer.
type localSocket struct {
	*operations
	server  *server // nil until opened, or if opening failed
	serving sync.WaitGroup
}

// handler returns the handler of the socket. Callers are owners: see admin.LocalOwner.
func (l *localSocket) handler(id running.Identity) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+running.Path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(id) // the command may have ended
	})
	mux.HandleFunc("GET "+running.ConfigurationPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(l.watcher.state()) // the command may have ended
	})
	mux.Handle("GET "+running.MetricsPath, l.observer.Metrics())
	mux.Handle("GET "+running.LogPath, l.observer.Recent())
	mux.Handle("POST "+capture.Path, capture.NewHandler(capture.Options{Hub: l.captures, Logger: l.observer.Logger(), Attached: l.auditCapture}))
	if l.stores.store != nil {
		mux.Handle("/api/", admin.New(l.adminOptions()))
	} else {
		mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
			openapi.NewProblem(http.StatusNotImplemented, "no_store", "the gateway on %s has no store, in which keys are kept; write 'store: sqlite' into its configuration and restart it", id.Address).Write(w)
		})
	}
	return local.Guard(mux)
}

// mark writes the marker of the data folder, if there is a store.
func (l *localSocket) mark(id running.Identity) {
	if l.stores.store == nil {
		return
	}
	if err := running.WriteMarker(id); err != nil {
		l.observer.Logger().Warn("the data folder does not say which gateway uses it", "error", err.Error())
	}
}

// open creates the socket when this process starts to serve. A failure is logged and has
// no other effect.
func (l *localSocket) open(bound net.Addr) {
	logger := l.observer.Logger()
	id := newIdentity(l.operations)
	id.Address = local.AddressOf(l.cfg.Listen, bound)
	l.mark(id)
	listener, err := local.Listen(id.Address)
	if err != nil {
		logger.Warn("commands on this machine, such as 'isogloss keys' and 'isogloss capture', will not find this gateway", "error", err.Error())
		return
	}
	l.server = newServer(listener, l.handler(id), l.observer)
	l.server.ConnContext = local.ConnContext
	l.serving.Go(func() { // until close
		crash.Do(logger, func() { _ = l.server.Serve(listener) })
	})
}

// close finishes open requests and removes the socket.
func (l *localSocket) close() {
	if l.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.watcher.options.pace.errorTime)
	defer cancel()
	_ = l.server.Shutdown(ctx)
	_ = l.server.Close()
	l.serving.Wait()
}

// auditTimeout limits the time of the audit entry of a capture, which does not wait for it.
const auditTimeout = 10 * time.Second

// auditCapture writes an audit entry for an attachment, if there is a store.
func (l *localSocket) auditCapture(ctx context.Context, uid string, f capture.Filter) {
	if l.stores.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	what, _ := json.Marshal(f) // a struct of strings and numbers always encodes
	if err := l.stores.store.Audit(ctx, store.Entry{At: time.Now(), Actor: admin.LocalOwner(uid).ID, Action: "capture", Detail: string(what)}); err != nil {
		l.observer.Logger().Warn("the audit entry of a capture could not be written", slog.String("error", err.Error()))
	}
}
