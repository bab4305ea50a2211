package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// explainPath is where a running gateway is asked.
const explainPath = "/explain"

const (
	explainPatience = 2 * time.Second
	maxExplainBody  = 64 << 20
)

// Explain asks the gateway that runs with the configuration who would be asked for
// a request. Where none runs, it says what a fresh one would do; live is false
// then.
func (o Options) Explain(ctx context.Context, dialect, model string, body []byte) (e *relay.Explanation, live bool, err error) {
	cfg, err := o.LoadConfig()
	if err != nil {
		return nil, false, err
	}
	if cfg.Admin.Cert == "" { // else it speaks TLS and may ask for a key, which this command has not
		e, err = askRunning(ctx, cfg.Admin.Listen, dialect, model, body)
		var nobody *url.Error
		if !errors.As(err, &nobody) {
			return e, true, err
		}
	}
	e, err = explainFresh(cfg, dialect, model, body)
	return e, false, err
}

func askRunning(ctx context.Context, address, dialect, model string, body []byte) (*relay.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	query := url.Values{"dialect": {dialect}, "model": {model}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+explainPath+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxExplainBody))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", bytes.TrimSpace(answer))
	}
	e := &relay.Explanation{}
	return e, json.Unmarshal(answer, e)
}

// explainFresh builds a gateway that contacts nobody.
func explainFresh(cfg *config.Config, dialect, model string, body []byte) (*relay.Explanation, error) {
	for _, p := range cfg.Providers {
		p.Health = provider.Check{}
	}
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return nil, err
	}
	defer closeObserver(observer)
	gateway := relay.New(all.Codecs(), observer)
	defer gateway.Close()
	gateway.Use(newState(cfg, nil, time.Now()))
	e, fault := gateway.Explain(protocol.Name(dialect), model, body)
	if fault != nil {
		return nil, fault
	}
	return e, nil
}

// serveExplain answers what Options.Explain asks. Web pages are not answered.
func serveExplain(gateway *relay.Relay) http.Handler {
	nobody := access.NewKeys(nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := nobody.Check(r); err != nil {
			http.Error(w, err.Message, err.HTTPStatus())
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxExplainBody))
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
		_ = json.NewEncoder(w).Encode(e) // the one who asked has gone
	})
}
