package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/agentapi"
	"github.com/isogloss-gateway/isogloss/internal/api/mine"
	"github.com/isogloss-gateway/isogloss/internal/api/signin"
	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/edge/conns"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// Limits of client connections. readTimeout holds for whole requests, also for bodies that
// no handler reads. A handler that takes longer sets a deadline of its own.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 15 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
)

// server is a listener with its HTTP server.
type server struct {
	http.Server
	listener net.Listener
}

func (s *server) addr() string { return s.listener.Addr().String() }

// servers holds the server for clients, the admin server if its port could be opened,
// and the metrics server if one is configured.
type servers struct {
	data, admin, metrics *server
	conns                *conns.Conns            // connections of clients
	leaving              atomic.Bool             // responses ask clients to close the connection
	abort                context.CancelCauseFunc // ends all open requests
}

// listen opens the ports, or none of them. The context of the client server carries the
// shutdown cause to requests that exceed the drain time.
func listen(ctx context.Context, p Process, o *operations) (*servers, error) {
	s := &servers{}
	// listenData is first: it sets the URL of the client port, which the admin API shows.
	err := s.listenData(ctx, p, o)
	err = errors.Join(err, s.listenAdmin(ctx, p, o))
	err = errors.Join(err, s.listenMetrics(ctx, p, o))
	if err != nil {
		for _, opened := range s.each() {
			_ = opened.listener.Close() // unused so far
		}
		return nil, err
	}
	return s, nil
}

func (s *servers) listenData(ctx context.Context, p Process, o *operations) error {
	l, err := p.Listen(ctx, "data", o.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w; %s", err, remedy(err, "--listen"))
	}
	base, abort := context.WithCancelCause(context.Background())
	base = upstream.ServerContext(base)
	s.abort = abort
	most := o.cfg.Overload.Connections()
	s.conns = conns.New(conns.Options{Limit: most, PerAddress: most / 2, Proxies: o.cfg.TrustedProxies, Logger: o.observer.Logger()})
	s.data = newServer(s.conns.Listen(l), ingress.Public{BasePath: o.cfg.BasePath, Origins: o.cfg.CORS.Origins, Proxies: o.cfg.TrustedProxies}.Handler(o.mine(o.paths().Before(o.gateway))), o.observer)
	s.data.BaseContext = func(net.Listener) context.Context { return base }
	s.data.ConnState = s.conns.Note
	s.data.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: o.cfg.Limits.Streams}
	if o.cfg.H2C {
		s.data.Protocols = new(http.Protocols)
		s.data.Protocols.SetHTTP1(true)
		s.data.Protocols.SetUnencryptedHTTP2(true)
	}
	s.data.TLSConfig, err = publicTLS(o.cfg, o.leaves.New(o.observer.Logger(), o.current.signsIn))
	o.clientURL = s.data.url() + o.cfg.BasePath
	if sign := o.cfg.SignIn; sign != nil {
		o.clientURL = sign.URL
	}
	return err
}

// paths returns the endpoints of the client port that are not about models.
func (o *operations) paths() ingress.Paths {
	a := agentapi.Options{Dialects: all.Dialects(), Clients: o.current.clients.Load, Collector: o.cfg.Telemetry.Endpoint, Logger: o.observer.Logger()}
	if o.stores.store != nil {
		a.Ledger, a.Books.Quotas = o.stores.store, o.stores.quotas
	}
	return o.current.addSignIn(agentapi.Paths(a), signin.ClientPaths(), (*signin.Server).Client, o.gateway)
}

// mine returns the handler of the client port with what clients use and the keys of people. Without a store there is
// neither.
func (o *operations) mine(rest http.Handler) http.Handler {
	s := o.stores
	if s.store == nil {
		return rest
	}
	books := billing.Books{Quotas: s.quotas}
	return mine.Before(mine.Options{Visitors: o.current.Visitor, SignIn: o.current.signIn.Load, Keys: s.store, Ledger: s.requests, Audit: s.store, Budgets: books.Budgets,
		Peppers: s.peppers, Cell: o.cfg.Cell, Errors: all.Dialects()[0], Logger: o.observer.Logger()}, rest)
}

// adminHandler returns the handler of the admin port with the sign-in of operators.
func (o *operations) adminHandler() http.Handler {
	h := o.handler()
	return o.current.addSignIn(ingress.Paths{}, signin.AdminPaths(), (*signin.Server).Admin, h).Before(h)
}

func (s *servers) listenAdmin(ctx context.Context, p Process, o *operations) error {
	l, err := p.Listen(ctx, "admin", o.cfg.Admin.Listen)
	switch {
	case err == nil:
		s.admin = newServer(l, o.adminHandler(), o.observer)
		if s.data != nil { // its address may be taken
			s.admin.BaseContext = s.data.BaseContext // operators run requests too
		}
		s.admin.TLSConfig, err = certs.New("admin.tls", o.cfg.Admin.TLS, o.leaves.New(o.observer.Logger(), nil))
		return err
	case o.cfg.Admin.Explicit:
		return fmt.Errorf("admin.listen: %w; %s", err, remedy(err, o.settingOf("admin.listen", "ISOGLOSS_ADMIN_LISTEN")))
	}
	// The default port is a convenience, not a reason to stay down.
	o.observer.Logger().Warn("the admin port is not served: its default address cannot be used", "error", err.Error(), "hint", "write another as "+o.settingOf("admin.listen", "ISOGLOSS_ADMIN_LISTEN"))
	return nil
}

func (s *servers) listenMetrics(ctx context.Context, p Process, o *operations) error {
	if o.cfg.Metrics.Listen == "" {
		return nil
	}
	l, err := p.Listen(ctx, "metrics", o.cfg.Metrics.Listen)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w; %s", err, remedy(err, o.settingOf("metrics.listen", "ISOGLOSS_METRICS_LISTEN")))
	}
	h := o.metricsHandler()
	if a, ok := l.Addr().(*net.TCPAddr); ok && a.IP.IsLoopback() {
		h = access.WithoutPages(h)
	}
	s.metrics = newServer(l, h, o.observer)
	return nil
}

// settingOf returns the name of a setting in the file, or of its variable if there is no file.
func (o *operations) settingOf(key, variable string) string {
	if o.watcher == nil || o.watcher.options.Config != "" {
		return key
	}
	return variable
}

// remedy returns advice for an address that could not be opened.
func remedy(err error, setting string) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop what holds the address, or choose another with " + setting
	case errors.Is(err, syscall.EACCES):
		return "ports below 1024 need a privilege; choose a higher one with " + setting
	}
	return "choose an address of this machine with " + setting
}

func newServer(l net.Listener, h http.Handler, observer *observe.Observer) *server {
	return &server{listener: l, Server: http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          crash.ServerLog(observer.Logger()),
	}}
}

func (s *servers) metricsURL() string {
	switch {
	case s.metrics != nil:
		return s.metrics.url() + "/metrics"
	case s.admin != nil:
		return s.admin.url() + "/metrics"
	}
	return ""
}

// consoleURL returns the address of the console, or nothing if it is not served.
func (s *servers) consoleURL() string {
	if s.admin == nil {
		return ""
	}
	return s.admin.url() + "/"
}

// each returns the open servers.
func (s *servers) each() []*server {
	return slices.DeleteFunc([]*server{s.data, s.admin, s.metrics}, func(s *server) bool { return s == nil })
}
