package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// explainPath is the path on the admin address.
const explainPath = "/explain"

// maxAdminBody is the largest request or response of a command.
const maxAdminBody = running.MaxAdminBody

// Explain asks the running gateway which targets it would try for a request. If no
// gateway listens on the admin address, Explain computes the result without live state
// and live is false. If a gateway listens but its response cannot be read, Explain
// returns an error.
func (o Options) Explain(ctx context.Context, dialect, model string, body []byte) (e *fleet.Explanation, live bool, err error) {
	cfg, wrong := o.findRunning()
	if cfg == nil {
		return nil, false, wrong
	}
	e = &fleet.Explanation{}
	query := url.Values{"dialect": {dialect}, "model": {model}}
	err = running.AskAdmin(ctx, cfg.Admin, o.Env, http.MethodPost, explainPath+"?"+query.Encode(), body, e)
	switch {
	case !running.NotListening(err):
		return e, true, err
	case wrong != nil:
		return nil, false, wrong
	}
	e, err = explainFresh(cfg, dialect, model, body)
	return e, false, err
}

// findRunning returns the configuration with the admin address of the running gateway. The
// error says why the configuration can be used for nothing else: in this environment, which
// need not be the gateway's, variables are missing. The configuration is nil if it has
// another mistake.
func (o Options) findRunning() (*config.Config, error) {
	cfg, err := o.LoadConfig()
	var nobody *config.NobodyError
	if err == nil || errors.As(err, &nobody) {
		return cfg, err
	}
	lenient := o
	lenient.Env = func(name string) (string, bool) {
		value, ok := o.Env(name)
		if !ok && !strings.HasPrefix(name, "ISOGLOSS_") {
			return doctor.Placeholder, true
		}
		return value, ok
	}
	cfg, again := lenient.LoadConfig()
	if again != nil {
		return nil, err
	}
	return cfg, err
}

// explainFresh computes an explanation with a new relay, which has no live state and
// sends no requests.
func explainFresh(cfg *config.Config, dialect, model string, body []byte) (*fleet.Explanation, error) {
	for _, p := range cfg.Providers {
		p.Health = provider.Check{}
	}
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return nil, err
	}
	defer closeObserver(observer)
	gateway := relay.New(all.Dialects(), observer)
	defer gateway.Close()
	state := newState(cfg, discover.Snapshot{}, time.Now())
	if state.Books.Prices, err = newBook(&cfg.Prices); err != nil {
		return nil, err
	}
	gateway.Use(state)
	e, fault := gateway.Explain(protocol.Name(dialect), model, body)
	if fault != nil {
		return nil, fault
	}
	return e, nil
}

// serveExplain handles the requests of Options.Explain.
func serveExplain(gateway *relay.Relay) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
		if err != nil {
			http.Error(w, "the request could not be read", http.StatusBadRequest)
			return
		}
		e, fault := gateway.Explain(protocol.Name(r.URL.Query().Get("dialect")), r.URL.Query().Get("model"), body)
		if fault != nil {
			http.Error(w, fault.Message, fault.HTTPStatus())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(e) // fails only if the client has disconnected
	})
}
