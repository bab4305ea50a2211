package app

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec/gates"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// newState builds the relay's state from a configuration. created is the start time of
// the process, so that model lists stay the same across reloads.
func newState(cfg *config.Config, workers discover.Snapshot, created time.Time) *relay.State {
	return &relay.State{
		Routes:    route.New(newRoutes(cfg.Models, newPools(workers, cfg))),
		Keys:      access.NewKeys(cfg.Keys),
		Paths:     newPaths(cfg.Providers),
		Retries:   cfg.Retries,
		Overload:  cfg.Overload,
		KeepAlive: cfg.KeepAlive,
		Settings:  exchange.Settings{Limits: cfg.Limits, Fidelity: llm.Mode(cfg.Fidelity), Gates: gates.New(cfg.Gates)},
		Models:    models.View{Created: created},
		BasePath:  cfg.BasePath,
	}
}

// newRoutes returns the configured routes and those of models that only discovered
// workers serve. Configured routes take precedence.
func newRoutes(models []config.Model, found pools) []*route.Route {
	routes := make([]*route.Route, 0, len(models)+len(found.names))
	for _, m := range models {
		r := &route.Route{Name: m.Name, OwnedBy: m.OwnedBy, Balance: balance.Policy(m.Balance), Continue: m.Continue, Params: m.Params,
			Hedge: route.Hedge{Quantile: m.Hedge.Percentile / 100, Share: m.Hedge.Share}}
		for _, t := range m.Targets {
			r.Targets = append(r.Targets, found.targets(t)...)
		}
		routes = append(routes, r)
	}
	configured := route.New(routes)
	for _, name := range found.names {
		if _, ok := configured.Find(name); !ok {
			routes = append(routes, &route.Route{Name: name, OwnedBy: config.Discovered, Targets: found.byName[name], Balance: balance.LeastBusy})
		}
	}
	return routes
}

func newPaths(providers []*provider.Provider) map[provider.Path]*provider.Provider {
	paths := map[provider.Path]*provider.Provider{}
	for _, p := range providers {
		for _, path := range p.Paths {
			paths[path] = p
		}
	}
	return paths
}
