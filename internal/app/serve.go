package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/observe"
)

const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
)

// server is a listener with what answers on it.
type server struct {
	http.Server
	listener net.Listener
}

func (s *server) addr() string { return s.listener.Addr().String() }

// servers are the data path and, where it could be opened, the operator's side.
type servers struct {
	data, admin *server
	conns       conns                   // of the data path
	leaving     atomic.Bool             // connections are not to be used again
	abort       context.CancelCauseFunc // ends every request that is left
}

// listen opens the ports. The data path's context carries the cause of a
// shutdown to requests that outlast the drain.
func listen(ctx context.Context, p Process, o *operations) (*servers, error) {
	cfg, gateway, observer := o.cfg, o.gateway, o.observer
	base, abort := context.WithCancelCause(context.Background())
	s := &servers{abort: abort}
	data, err := p.Listen(ctx, "data", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w; %s", err, remedy(err, "--listen"))
	}
	s.data = newServer(data, &untilLeaving{gateway, &s.leaving}, observer)
	s.data.BaseContext = func(net.Listener) context.Context { return base }
	s.data.ConnState = s.conns.note
	admin, err := p.Listen(ctx, "admin", cfg.Admin.Listen)
	if err == nil {
		if admin, err = secured(admin, cfg.Admin); err != nil {
			_ = data.Close() // nothing was served on it
			return nil, err
		}
	}
	switch {
	case err == nil:
		s.admin = newServer(admin, &untilLeaving{o.handler(), &s.leaving}, observer)
	case cfg.Admin.Explicit:
		_ = data.Close() // nothing was served on it
		return nil, fmt.Errorf("admin.listen: %w; %s", err, remedy(err, "admin.listen"))
	default: // the default port is a convenience, not a reason to stay down
		observer.Logger().Warn("no metrics are served: their default address cannot be used", "error", err.Error(), "hint", "write another as admin.listen")
	}
	return s, nil
}

// remedy says what to do about an address that could not be opened.
func remedy(err error, setting string) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop what holds the address, or choose another with " + setting
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 need a privilege; choose a higher one with " + setting
	}
	return "choose an address of this machine with " + setting
}

// untilLeaving asks clients to leave their connections once the process is about
// to end: a request that comes on one that is being closed would be lost.
type untilLeaving struct {
	http.Handler
	leaving *atomic.Bool
}

func (u *untilLeaving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u.leaving.Load() {
		askToLeave(w.Header())
	}
	u.Handler.ServeHTTP(w, r)
}

// askToLeave is apart so that a stream, which waits below ServeHTTP, does not wait
// on its frame.
//
//go:noinline
func askToLeave(h http.Header) { h.Set("Connection", "close") }

func newServer(l net.Listener, h http.Handler, observer *observe.Observer) *server {
	return &server{listener: l, Server: http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(observer.Logger().Handler(), slog.LevelDebug),
	}}
}

func (s *servers) metricsURL() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.addr() + "/metrics"
}

// each are the servers that there are.
func (s *servers) each() []*server {
	if s.admin == nil {
		return []*server{s.data}
	}
	return []*server{s.data, s.admin}
}
