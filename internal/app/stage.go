package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// stageKey replaces the credentials of all providers in a Stage.
const stageKey = "sk-replay-upstream"

// Stage is a gateway for replays. It serves one model of a configuration and connects
// only to the given address. It opens no store and writes nothing.
type Stage struct {
	URL    string
	Target string // the target that serves the model

	server   *http.Server
	gateway  *relay.Relay
	observer *observe.Observer
	ended    chan struct{}
}

// Part describes the exchange that a Stage replays.
type Part struct {
	Model    string // as in the client's request
	Protocol string // selects one of the model's targets by its protocol
	Given    string // selects one of the model's targets by its upstream model; empty: any
	Upstream string // host:port that replaces every provider
}

// Stage builds a Stage from the configuration.
func (o Options) Stage(ctx context.Context, p Part) (*Stage, error) {
	cfg, err := o.LoadConfig()
	if err != nil {
		return nil, err
	}
	target, err := onStage(cfg, p)
	if err != nil {
		return nil, err
	}
	observer, err := observe.New(observe.Options{Log: io.Discard, Level: slog.LevelError, Format: "json"})
	if err != nil {
		return nil, err
	}
	s := &Stage{Target: target, observer: observer, gateway: relay.New(all.Dialects(), observer), ended: make(chan struct{})}
	s.gateway.Client().Divert(p.Upstream)
	state := newState(cfg, discover.Snapshot{}, time.Now())
	state.Keys = access.NewKeys(nil)
	s.gateway.Use(state)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		s.gateway.Close()
		return nil, errors.Join(err, observer.Close(ctx))
	}
	s.URL = "http://" + l.Addr().String()
	s.server = &http.Server{Handler: s.gateway, ReadHeaderTimeout: readHeaderTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(l) // ends with Close
	}()
	return s, nil
}

// Close stops the gateway.
func (s *Stage) Close() {
	_ = s.server.Close() // open requests are dropped
	<-s.ended
	s.gateway.Close()
	closeObserver(s.observer)
}

// onStage reduces the configuration to one model with one target and removes stores,
// checks and discovery. It returns the target.
func onStage(cfg *config.Config, p Part) (string, error) {
	match, ok := route.New(newRoutes(cfg.Models, pools{})).Find(p.Model) // the same lookup as in a gateway
	if !ok {
		return "", fmt.Errorf("the configuration has no model %q; name one that it has with --model", p.Model)
	}
	m := cfg.Models[slices.IndexFunc(cfg.Models, func(m config.Model) bool { return m.Name == match.Route.Name })]
	found := slices.DeleteFunc(slices.Clone(m.Targets), func(t config.Target) bool { return t.Provider == nil })
	if len(found) == 0 {
		return "", fmt.Errorf("the model %q is served only by discovered workers, of which a replay has none; name another with --model", m.Name)
	}
	target := found[0]
	best := 0
	for _, t := range found {
		fit := 1
		if string(t.Provider.Protocol) == p.Protocol {
			fit = 2
		}
		if fit == 2 && (t.Model == p.Given || strings.HasSuffix(t.Model, "*")) {
			fit = 3
		}
		if fit > best {
			best, target = fit, t
		}
	}
	stand := *target.Provider
	base := *stand.BaseURL
	base.Scheme = "http" // keeps the host name: some vendors are recognized by it
	stand.BaseURL, stand.Key, stand.Health, stand.Concurrency = &base, secret.String(stageKey), provider.Check{}, 0
	stand.IncludeUsage = stand.IncludeUsage || cfg.Store.URL != "" // a gateway with a ledger requests usage
	target.Provider, cfg.Retries.Attempts = &stand, 1
	cfg.Providers, cfg.Models = []*provider.Provider{&stand}, []config.Model{{Name: m.Name, OwnedBy: m.OwnedBy, Targets: []config.Target{target}}}
	return stand.Name + "/" + target.Model, nil
}
