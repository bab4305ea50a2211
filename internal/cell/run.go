package cell

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/isogloss-gateway/isogloss/internal/certs"
	"github.com/isogloss-gateway/isogloss/internal/crash"
)

const (
	lookEvery         = time.Second // at the file
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
)

// Options configure Run.
type Options struct {
	File   string
	Logger *slog.Logger
	// Listening is called with the addresses when the ports are open; nil: it is not.
	Listening func(clients, metrics net.Addr)
}

// Check reports whether the file and the files that it names can be used.
func Check(file string) (*Config, error) {
	c, err := Load(file)
	if err != nil {
		return nil, err
	}
	return c, c.TLS.files().Check("tls")
}

func (t TLS) files() certs.Files {
	return certs.Files{Cert: t.Cert, Key: t.Key, MinVersion: tls.VersionTLS12}
}

// Run serves until ctx ends, and then lets open requests finish.
func Run(ctx context.Context, o Options) error {
	c, err := Load(o.File)
	if err != nil {
		return err
	}
	secure, err := certs.New("tls", c.TLS.files(), certs.NewLeaves(o.Logger, nil))
	if err != nil {
		return err
	}
	r := NewRouter(c, o.Logger)
	clients, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return err
	}
	s := &server{router: r}
	main := newServer(s.clients(), o.Logger)
	main.TLSConfig = secure
	var pages *http.Server
	var metrics net.Listener
	var metricsAddr net.Addr
	if c.Metrics != "" {
		if metrics, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Metrics); err != nil {
			return errors.Join(err, clients.Close())
		}
		pages, metricsAddr = newServer(s.pages(), o.Logger), metrics.Addr()
	}
	watch, end := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() { r.Watch(watch) })
	background.Go(func() { r.follow(watch, o.File, c) })
	failed := make(chan error, 2)
	background.Go(func() { failed <- serve(main, clients) })
	if pages != nil {
		background.Go(func() { failed <- pages.Serve(metrics) })
	}
	o.Logger.Info("routing", "listen", clients.Addr().String(), "cells", len(c.Cells))
	if o.Listening != nil {
		o.Listening(clients.Addr(), metricsAddr)
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.draining.Store(true)
	if err == nil {
		time.Sleep(c.Notice)
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Drain)
	defer cancel()
	if main.Shutdown(stop) != nil {
		_ = main.Close()
	}
	if pages != nil {
		_ = pages.Close()
	}
	end()
	background.Wait()
	if t, ok := r.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
	return err
}

func newServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: crash.ServerLog(logger)}
}

// serve serves a port. It does not check request heads as a gateway does: the cell does, and
// connections that change their protocol pass.
func serve(s *http.Server, l net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "")
	}
	return s.Serve(l)
}

// server has the handlers of the two ports.
type server struct {
	router   *Router
	draining atomic.Bool
}

// clients serves the client port.
func (s *server) clients() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && (req.URL.Path == "/live" || req.URL.Path == "/ready") {
			s.ready(w, req)
			return
		}
		s.router.ServeHTTP(w, req)
	})
}

// pages serves the metrics port.
func (s *server) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.router.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /live", s.ready)
	mux.HandleFunc("GET /ready", s.ready)
	return mux
}

// ready says whether the router accepts requests. A cell that is down does not change it: the
// router serves the others.
func (s *server) ready(w http.ResponseWriter, req *http.Request) {
	if s.draining.Load() && req.URL.Path == "/ready" {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("draining\n")) // the client may have left
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// follow loads the file again when it changes. An invalid file is refused, and the old
// configuration stays.
func (r *Router) follow(ctx context.Context, file string, c *Config) {
	last, _ := os.ReadFile(file) //nolint:gosec // the operator names it; without it the next read counts
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil || bytes.Equal(now, last) {
			continue
		}
		last = now
		next, err := Load(file)
		if err != nil {
			r.reloads.WithLabelValues("error").Inc()
			r.logger.Warn("configuration refused; the old one stays", "error", err)
			continue
		}
		if next.Listen != c.Listen || next.Metrics != c.Metrics || next.TLS != c.TLS || next.Connect != c.Connect {
			r.logger.Warn("listen, metrics, tls and connect are read at the start; restart to change them")
		}
		r.Use(next)
		r.reloads.WithLabelValues("ok").Inc()
		r.logger.Info("configuration loaded", "cells", len(next.Cells))
	}
}
