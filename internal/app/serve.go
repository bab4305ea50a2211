package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/relay"
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
	leaving     atomic.Bool             // connections are not to be used again
	abort       context.CancelCauseFunc // ends every request that is left
}

// listen opens the ports. The data path's context carries the cause of a
// shutdown to requests that outlast the drain.
func listen(ctx context.Context, cfg *config.Config, gateway *relay.Relay, observer *observe.Observer) (*servers, error) {
	base, abort := context.WithCancelCause(context.Background())
	s := &servers{abort: abort}
	var err error
	if s.data, err = newServer(ctx, cfg.Listen, &untilLeaving{gateway, &s.leaving}, observer); err != nil {
		return nil, fmt.Errorf("listen: %w; %s", err, remedy(err, "--listen"))
	}
	s.data.BaseContext = func(net.Listener) context.Context { return base }
	s.admin, err = newServer(ctx, cfg.Admin.Listen, newAdmin(observer), observer)
	switch {
	case err != nil && cfg.Admin.Explicit:
		_ = s.data.listener.Close() // nothing was served on it
		return nil, fmt.Errorf("admin.listen: %w; %s", err, remedy(err, "admin.listen"))
	case err != nil: // the default port is a convenience, not a reason to stay down
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
		w.Header().Set("Connection", "close")
	}
	u.Handler.ServeHTTP(w, r)
}

func newServer(ctx context.Context, address string, h http.Handler, observer *observe.Observer) (*server, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &server{listener: l, Server: http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(observer.Logger().Handler(), slog.LevelDebug),
	}}, nil
}

// newAdmin is the operator's side: metrics.
func newAdmin(observer *observe.Observer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", observer.Metrics())
	return mux
}

func (s *servers) metricsURL() string {
	if s.admin == nil {
		return ""
	}
	return "http://" + s.admin.addr() + "/metrics"
}

// run serves until the context ends or a listener breaks, then drains.
func (s *servers) run(ctx context.Context, p pace, gateway *relay.Relay, logger *slog.Logger) error {
	broken := make(chan error, 2)
	var wg sync.WaitGroup
	for _, srv := range []*server{s.data, s.admin} {
		if srv != nil {
			wg.Go(func() { broken <- srv.Serve(srv.listener) })
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-broken:
	}
	gateway.Drain()
	s.leaving.Store(true)
	logger.Info("draining", "at_most", (p.notice + p.drain + p.lastWords).String())
	select {
	case <-time.After(p.notice):
	case err = <-broken:
	}
	s.drain(p, logger)
	wg.Wait()
	return err
}

// drain closes the port and waits for open requests. Those that take too long end
// with an error in their own dialect, not with a cut. The operator's side stays
// until then.
func (s *servers) drain(p pace, logger *slog.Logger) {
	defer s.abort(nil)
	ctx, cancel := context.WithTimeout(context.Background(), p.drain)
	defer cancel()
	if err := s.data.Shutdown(ctx); err != nil {
		logger.Warn("requests that are still open are ended")
		s.abort(relay.ErrShutdown)
		last, stop := context.WithTimeout(context.Background(), p.lastWords)
		defer stop()
		_ = s.data.Shutdown(last)
		_ = s.data.Close()
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
}
