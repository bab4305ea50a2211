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
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/admin/client"
	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// findTime limits how long Doctor looks for a running gateway.
const findTime = 5 * time.Second

// Doctor returns what there is to check, with the parts that Run would build. With spend, requests that cost a few
// tokens are sent. The caller calls the function when the checks have ended. Doctor writes nothing.
func (o Options) Doctor(ctx context.Context, spend bool) (*doctor.Installation, func()) {
	logger := slog.New(slog.DiscardHandler)
	in := &doctor.Installation{File: o.Config, Version: o.Version, Now: time.Now}
	in.Config, in.Wrong = o.findRunning()
	place := o.place()
	if in.Config == nil && place != nil {
		in.Config, in.Partial = place.Config, true
	}
	o.findForDoctor(ctx, in, place)
	cfg := in.Config
	if cfg == nil || in.Partial {
		return in, func() {}
	}
	if in.Wrong == nil {
		in.Wrong = checkFiles(cfg)
	}
	clouds := cloud.NewPool(logger)
	clouds.Use(cfg.Providers)
	in.Catalog = newCatalog(upstream.NewClient(), logger)
	if cfg.Redis.URL != "" {
		in.Redis = redisOptions(cfg, logger)
	}
	in.Verifier, _ = newVerifier(cfg.Identity) // checkFiles has its error
	if sources, _, err := newSources(cfg, logger); err == nil && sources != nil {
		in.Workers, _ = discover.New(discover.Options{Sources: sources, Networks: cfg.Discover.Networks, Models: cfg.Discover.Models}) // as before
	}
	in.Targets = func(s discover.Snapshot) (list []route.Target) {
		for _, targets := range newPools(s, cfg).byName {
			list = append(list, targets...)
		}
		return list
	}
	if spend {
		in.Count = func(ctx context.Context, p *provider.Provider, model string) (string, error) {
			return countTokens(ctx, cfg, p, model)
		}
	}
	return in, func() {
		in.Catalog.Close()
		clouds.Close()
	}
}

// place returns what commands need of the file, also if it has mistakes; nil: there is no file, or it cannot be read.
func (o Options) place() *config.Place {
	if o.Config == "" {
		return nil
	}
	p, err := config.LoadPlace(o.Config, o.Env, config.Environment(o.Env)...)
	if err != nil {
		return nil
	}
	return p
}

// findForDoctor finds the running gateway, and whether the data folder is certain.
func (o Options) findForDoctor(ctx context.Context, in *doctor.Installation, p *config.Place) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	var err error
	if in.Gateway, err = o.findGateway(ctx, p); err == nil {
		return
	}
	if !errors.Is(err, errNoGateway) {
		in.GatewayError = err
	} else if p != nil && p.Store.URL != "" {
		in.Marker = o.checkMarker(p)
	}
}

// countTokens sends a short request to a model of a provider, by the way of every request, and says what it has used.
// It is a token count where the provider's dialect has one, and else a response of a few tokens.
func countTokens(ctx context.Context, cfg *config.Config, p *provider.Provider, model string) (string, error) {
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return "", err
	}
	defer closeObserver(observer)
	gateway := relay.New(all.Dialects(), observer)
	defer gateway.Close()
	only := *cfg
	only.Keys, only.Models, only.BasePath = nil, nil, ""
	state := newState(&only, discover.Snapshot{}, time.Now())
	state.Routes = route.New([]*route.Route{{Name: doctorModel, Balance: balance.InOrder, Targets: []route.Target{{Provider: p, Model: model, Weight: 1, Timeouts: p.Timeouts}}}})
	if state.Books.Prices, err = newBook(&cfg.Prices); err != nil {
		return "", err
	}
	gateway.Use(state)
	counts := false
	for _, d := range all.Dialects() {
		counts = counts || d.Name == p.Protocol && d.Count != nil
	}
	path, body := "/v1/messages", `{"model":"`+doctorModel+`","max_tokens":16,"messages":[{"role":"user","content":"ping"}]}`
	if counts {
		path, body = "/v1/messages/count_tokens", `{"model":"`+doctorModel+`","messages":[{"role":"user","content":"ping"}]}`
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Anthropic-Version", "2023-06-01")
	req.RemoteAddr, req.RequestURI = "127.0.0.1:1", path
	resp, err := client.InProcess(gateway).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAdminBody))
	if err != nil {
		return "", err
	}
	var got struct {
		Input int64 `json:"input_tokens"`
		Usage struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
		Error struct{ Type, Message string } `json:"error"`
	}
	if err := json.Unmarshal(text, &got); err != nil || resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, got.Error.Type)
	}
	if counts {
		return fmt.Sprintf("a token count says %d tokens", got.Input), nil
	}
	return fmt.Sprintf("a request has used %d input and %d output tokens", got.Usage.Input, got.Usage.Output), nil
}

// doctorModel is the name of the model of requests by which a provider is checked.
const doctorModel = "doctor"
