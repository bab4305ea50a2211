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

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/internal/secret"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// stageKey is the credential of every provider on a stage: the real ones stay where
// they are.
const stageKey = "sk-replay-upstream"

// Stage is a gateway that serves one model of a configuration and calls nobody but
// the address that it was given. It opens no store and writes nothing.
type Stage struct {
	URL    string
	Target string // who is asked for the model

	server   *http.Server
	gateway  *relay.Relay
	observer *observe.Observer
	ended    chan struct{}
}

// Part is what is to be played on a stage.
type Part struct {
	Model    string // as a client asks for it
	Protocol string // of the target that is wanted, where the model has several
	Given    string // the target's model, likewise; empty is any
	Upstream string // host:port that stands in for every provider
}

// Stage builds it from the configuration that the options name.
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
	s := &Stage{Target: target, observer: observer, gateway: relay.New(all.Codecs(), observer), ended: make(chan struct{})}
	s.gateway.Divert(p.Upstream)
	state := newState(cfg, nil, time.Now())
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
		_ = s.server.Serve(l) // it ends with Close
	}()
	return s, nil
}

// Close ends it.
func (s *Stage) Close() {
	_ = s.server.Close() // what is open is of no use any more
	<-s.ended
	s.gateway.Close()
	closeObserver(s.observer)
}

// onStage leaves one model with one target in the configuration, and takes out of it
// what reaches further. It says who the target is.
func onStage(cfg *config.Config, p Part) (string, error) {
	match, ok := route.New(newRoutes(cfg.Models, pools{})).Find(p.Model) // as a gateway finds it
	if !ok {
		return "", fmt.Errorf("the configuration has no model %q; name one that it has with --model", p.Model)
	}
	m := cfg.Models[slices.IndexFunc(cfg.Models, func(m config.Model) bool { return m.Name == match.Route.Name })]
	found := slices.DeleteFunc(slices.Clone(m.Targets), func(t config.Target) bool { return t.Provider == nil })
	if len(found) == 0 {
		return "", fmt.Errorf("the model %q is served by workers that are found, and none is here; name another with --model", m.Name)
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
	base.Scheme = "http" // the name is kept: some vendors are known by it
	stand.BaseURL, stand.Key, stand.Health, stand.Concurrency = &base, secret.String(stageKey), provider.Check{}, 0
	stand.IncludeUsage = stand.IncludeUsage || cfg.Store.URL != "" // a ledger asks for it
	target.Provider, cfg.Retries.Attempts = &stand, 1
	cfg.Providers, cfg.Models = []*provider.Provider{&stand}, []config.Model{{Name: m.Name, OwnedBy: m.OwnedBy, Targets: []config.Target{target}}}
	return stand.Name + "/" + target.Model, nil
}
