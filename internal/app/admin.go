package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/admin"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/quota"
	"github.com/isogloss-gateway/isogloss/internal/relay"
)

// operations is the operator's side: metrics, who would be asked, and with a store
// the admin API.
type operations struct {
	cfg      *config.Config
	gateway  *relay.Relay
	observer *observe.Observer
	stores   *stores
	watcher  *watcher
	version  string
}

// handler serves it. What other machines can reach asks for an operator's key
// everywhere.
func (o *operations) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.guard(o.observer.Metrics()))
	mux.Handle("POST "+explainPath, o.guard(serveExplain(o.gateway)))
	if s := o.stores; s.store != nil {
		mux.Handle("/api/", admin.New(admin.Options{
			Operators: s.keys, Peppers: s.peppers, Keys: s.store, Orgs: s.store, Teams: s.store, Ledger: s.store, Audit: s.store,
			Targets: targets{o.gateway}, Config: o.watcher, Limits: limits{s.quotas}, Loopback: !o.cfg.Admin.Open, Version: o.version, Logger: o.observer.Logger(),
		}))
	}
	return mux
}

// guard asks for an operator's key where the address is open.
func (o *operations) guard(h http.Handler) http.Handler {
	if !o.cfg.Admin.Open {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := o.stores.keys.Operator(r); err != nil {
			http.Error(w, err.Message, err.HTTPStatus())
			return
		}
		h.ServeHTTP(w, r)
	})
}

// secured is a listener with the configured certificate. A certificate that cannot
// be read is a reason not to start, and never one to go on without.
func secured(l net.Listener, a config.Admin) (net.Listener, error) {
	if a.Cert == "" {
		return l, nil
	}
	pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return nil, fmt.Errorf("admin.tls: %w; write the files of a certificate and its key", err)
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}), nil
}

// targets shows the gateway's targets to the API.
type targets struct{ gateway *relay.Relay }

// Targets lists them.
func (t targets) Targets() []admin.Target {
	all := t.gateway.Targets()
	out := make([]admin.Target, len(all))
	for i, s := range all {
		state := "up"
		if !s.Ready {
			state = "set aside"
		}
		out[i] = admin.Target{Target: s.Target + " at " + s.Address, Models: s.Models, State: state, Why: s.Reason, Until: s.Until, Open: s.InFlight,
			Consecutive: s.Consecutive, Succeeded: s.Succeeded, P50: s.P50.Seconds(), P95: s.P95.Seconds()}
		for _, n := range s.Failed {
			out[i].Failed += n
		}
	}
	return out
}

// limits shows the API what accounts have used.
type limits struct{ quotas *quota.Keeper }

// Use is what an account has used, on all nodes together.
func (l limits) Use(ctx context.Context, org string, a quota.Account) (admin.Use, error) {
	c, err := l.quotas.Count(ctx, org, a.ID)
	return admin.Use{Requests: c.Requests, Tokens: c.Tokens, Concurrency: c.Open, Spent: c.Spent}, err
}

// Effective is the configuration that is in use.
func (w *watcher) Effective() admin.Configuration {
	cfg, loaded := w.current.config()
	return admin.Configuration{Path: w.options.Config, Loaded: loaded, Text: cfg.String()}
}

// Reload reads the file again at an operator's wish.
func (w *watcher) Reload(context.Context) ([]admin.Mistake, error) {
	err := w.reload()
	var wrong *config.Problems
	if !errors.As(err, &wrong) {
		return nil, err
	}
	mistakes := make([]admin.Mistake, len(wrong.List))
	for i, p := range wrong.List {
		mistakes[i] = admin.Mistake{Line: p.Line, Location: p.Path, Message: p.Text}
	}
	return mistakes, nil
}
