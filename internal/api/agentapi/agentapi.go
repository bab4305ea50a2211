// Package agentapi serves the endpoints that coding agents call on a gateway beside inference:
// managed settings, spending, and a receiver for telemetry. The paths and the formats of the first two
// come from the dialect of the agent's vendor.
package agentapi

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/edge/ingress"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Names of the endpoints in the scopes of keys.
const (
	settingsEndpoint  = "settings"
	usageEndpoint     = "usage"
	telemetryEndpoint = "telemetry"
)

// Options configure the endpoints.
type Options struct {
	Dialects  []*codec.Dialect
	Clients   func() *access.Clients // the credentials in use
	Books     billing.Books          // without Quotas there are no budgets
	Ledger    quota.Ledger           // nil: nothing is recorded
	Collector string                 // base URL of an OTLP/HTTP collector; empty: telemetry is discarded
	Logger    *slog.Logger
}

// Paths returns the endpoints by their paths.
func Paths(o Options) ingress.Paths {
	paths := ingress.Paths{}
	usage, t := &spending{make(chan struct{}, querySlots)}, newTelemetry(o.Collector, o.Logger)
	for _, d := range o.Dialects {
		if d.Agent == nil {
			continue
		}
		paths[d.Agent.SettingsPath] = &endpoint{&o, d, settingsEndpoint, reading, serveSettings}
		paths[d.Agent.UsagePath] = &endpoint{&o, d, usageEndpoint, reading, usage.serve}
		for _, path := range signals {
			if paths[path] == nil {
				paths[path] = &endpoint{&o, d, telemetryEndpoint, []string{http.MethodPost}, t.at(path)}
			}
		}
	}
	return paths
}

// reading are the methods of endpoints that only read.
var reading = []string{http.MethodGet, http.MethodHead}

// endpoint is one of the endpoints. Its errors are in the form of the dialect.
type endpoint struct {
	*Options
	dialect *codec.Dialect
	name    string
	methods []string
	serve   func(e *endpoint, c *call) *llm.Error
}

// call is an authenticated request.
type call struct {
	id     string
	w      http.ResponseWriter
	r      *http.Request
	caller access.Caller
	person *access.Person // nil for a key
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{id: uuid.NewString(), w: w, r: r}
	h := w.Header()
	h[ingress.RequestIDHeader(e.dialect)] = []string{c.id}
	h.Set("Cache-Control", "no-store")
	if !slices.Contains(e.methods, r.Method) {
		h.Set("Allow", strings.Join(append(slices.Clone(e.methods), http.MethodOptions), ", "))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if err := e.answer(c); err != nil {
		exchange.SetRetry(h, err)
		write(w, e.dialect.Codec.ErrorStatus(err), "application/json", e.dialect.Codec.EncodeError(err))
	}
}

func (e *endpoint) answer(c *call) (err *llm.Error) {
	if c.caller, c.person, err = e.Clients().Person(c.r); err != nil {
		return err
	}
	if !slices.Contains(e.methods, c.r.Method) {
		return ingress.WrongMethod(c.r, e.methods[0])
	}
	if err := c.caller.MayUse(e.name); err != nil {
		return err
	}
	return e.serve(e, c)
}

func write(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails only if the client has gone
}
