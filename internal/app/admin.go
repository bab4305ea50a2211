package app

import (
	"context"
	"errors"
	"net/http"

	"github.com/isogloss-gateway/isogloss/console"
	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/api/scim"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/edge/certs"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// operations serves the admin port: the console, metrics, explain, translate and, with a store, the
// admin API.
type operations struct {
	cfg      *config.Config
	gateway  *relay.Relay
	observer *observe.Observer
	stores   *stores
	current  *current
	watcher  *watcher
	captures *capture.Hub
	self     *self
	version  string

	clientURL string // base URL of the client port
	leaves    certs.Ports
}

// handler returns the handler of the admin port. If other machines can reach the port,
// every route needs an operator key, except for the files of the console.
func (o *operations) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.guard("list-targets", o.observer.Metrics()))
	mux.Handle("POST "+explainPath, o.guard("explain", serveExplain(o.gateway)))
	mux.Handle("GET "+modelsPath, o.guard("list-models", serveModels(o.gateway)))
	pages := console.Handler(func(r *http.Request) console.State {
		sessions := o.current.signIn.Load()
		return console.State{Version: o.version, Store: o.stores.store != nil, SignIn: sessions.HasSessions(), Session: sessions.HasSession(r)}
	})
	if !o.cfg.Admin.Open {
		pages = access.WithoutForeignHosts(pages)
	}
	mux.Handle("GET /{$}", pages)
	mux.Handle("GET "+console.Path, pages)
	if o.stores.store == nil {
		mux.Handle("POST "+admin.TranslatePath, o.guard("translate", admin.NewTranslate(admin.Options{Loopback: !o.cfg.Admin.Open, Logger: o.observer.Logger()})))
	}
	if s := o.stores; s.store != nil {
		options := o.adminOptions()
		mux.Handle("/api/", admin.New(options))
		mux.Handle("/scim/", scim.New(scim.Options{Guard: admin.NewGuard(options), Store: s.store, Issuers: o.current.scimIssuers}))
	}
	return mux
}

// adminOptions returns the options of the admin API, with a store.
func (o *operations) adminOptions() admin.Options {
	s := o.stores
	return admin.Options{
		Operators: o.current, Peppers: s.peppers, Keys: s.store, Tenants: s.store, Ledger: s.requests, Audit: s.store, Nodes: s.store, Self: o.self,
		Targets: targets{o.gateway}, Config: o.watcher, Limits: limits{s.quotas}, Captures: captures(o.captures), Runner: runner{o.gateway}, Sessions: o.current, ClientURL: o.clientURL, Cell: o.cfg.Cell, Loopback: !o.cfg.Admin.Open, Version: o.version, Logger: o.observer.Logger(),
	}
}

// metricsHandler returns the handler of the metrics port: metrics and probes, for which no
// key is needed.
func (o *operations) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.observer.Metrics())
	mux.Handle("GET /live", o.gateway)
	mux.Handle("GET /ready", o.gateway)
	return mux
}

// guard requires the key of an operator who may use a route of the API if other machines can reach the
// admin port: the path shows the same. Otherwise it rejects web pages.
func (o *operations) guard(route string, h http.Handler) http.Handler {
	if !o.cfg.Admin.Open {
		return access.WithoutPages(h)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operator, err := o.current.Operator(r)
		if err == nil {
			err = operator.MayOperate(access.AdminAPI)
		}
		if err != nil {
			http.Error(w, err.Message, err.HTTPStatus())
			return
		}
		if p := admin.Permit(operator, route); p != nil {
			http.Error(w, p.Detail, p.Status)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// captures returns a function that lists the attached captures.
func captures(hub *capture.Hub) func() []admin.Capture {
	return func() (list []admin.Capture) {
		for _, a := range hub.Attached() {
			list = append(list, admin.Capture{Since: a.Since, User: a.UID, Model: a.Filter.Model, Key: a.Filter.Key, Request: a.Filter.Request})
		}
		return list
	}
}

// targets implements admin.Targets.
type targets struct{ gateway *relay.Relay }

// Targets lists the gateway's targets with their states.
func (t targets) Targets() []admin.Target {
	all := t.gateway.Targets()
	out := make([]admin.Target, len(all))
	for i, s := range all {
		out[i] = admin.Target{Target: s.Target + " at " + s.Address, Models: s.Models, TargetState: s.Live, Waiting: s.Waiting, Limit: s.Limit,
			Consecutive: s.Consecutive, Succeeded: s.Succeeded, P50: s.P50.Seconds(), P95: s.P95.Seconds()}
		for _, n := range s.Failed {
			out[i].Failed += n
		}
	}
	return out
}

// Models lists the models with their routes.
func (t targets) Models(ctx context.Context) models.Listing { return t.gateway.Models().Listing(ctx) }

// Explain lists the targets of a request.
func (t targets) Explain(dialect, model string, body []byte) (*fleet.Explanation, *llm.Error) {
	return t.gateway.Explain(protocol.Name(dialect), model, body)
}

// runner implements admin.Runner.
type runner struct{ gateway *relay.Relay }

// Run serves a request as a key.
func (r runner) Run(key access.Record, begin func(id, model string) *llm.Error, w http.ResponseWriter, req *http.Request) bool {
	return r.gateway.Run(access.NewDelegate(key, begin), w, req)
}

// limits implements admin.Limits.
type limits struct{ quotas *quota.Limiter }

// Use returns an account's current use across all nodes.
func (l limits) Use(ctx context.Context, org string, a quota.Account) (admin.Use, error) {
	c, err := l.quotas.Count(ctx, org, a.ID)
	return admin.Use{Requests: c.Requests, Tokens: c.Tokens, Concurrency: c.Open, Spent: c.Spent}, err
}

// Effective returns the configuration in use.
func (w *watcher) Effective() admin.Configuration {
	cfg, loaded := w.current.config()
	out := admin.Configuration{Path: w.options.Config, Loaded: loaded, Text: cfg.String(), Settings: make([]admin.Setting, len(cfg.Settings)), Cut: cfg.SettingsCut,
		Refused: w.refused.Load()}
	for i, s := range cfg.Settings {
		out.Settings[i] = admin.Setting(s)
	}
	return out
}

// Reload reads the configuration file again.
func (w *watcher) Reload(context.Context) ([]openapi.Mistake, error) {
	err := w.reload()
	var wrong *settings.Problems
	if !errors.As(err, &wrong) {
		return nil, err
	}
	return mistakesOf(err), nil
}

// mistakesOf returns the mistakes of a configuration that is refused.
func mistakesOf(err error) []openapi.Mistake {
	var wrong *settings.Problems
	if !errors.As(err, &wrong) {
		return []openapi.Mistake{{Message: err.Error()}}
	}
	mistakes := make([]openapi.Mistake, len(wrong.List))
	for i, p := range wrong.List {
		mistakes[i] = openapi.Mistake{Line: p.Line, Location: p.Path, Message: p.Text}
	}
	return mistakes
}
