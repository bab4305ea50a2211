package app

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// newState makes of a configuration what the request path works with. created is
// when the process started, so that lists of models stay the same over reloads.
func newState(cfg *config.Config, workers []discover.Worker, created time.Time) *relay.State {
	return &relay.State{
		Routes:    route.New(newRoutes(cfg.Models, newPools(workers, cfg))),
		Keys:      access.NewKeys(newKeys(cfg.Keys)),
		Paths:     newPaths(cfg.Providers),
		Retries:   relay.Retries(cfg.Retries),
		Overload:  limit.Config(cfg.Overload),
		Limits:    relay.Limits(cfg.Limits),
		KeepAlive: cfg.KeepAlive,
		Fidelity:  llm.Mode(cfg.Fidelity),
		Gates:     provider.NewGates(cfg.Gates),
		Created:   created,
	}
}

func newKeys(keys []config.Key) []access.Key {
	out := make([]access.Key, len(keys))
	for i, k := range keys {
		out[i] = access.Key(k)
	}
	return out
}

// newRoutes are the rows of the configuration, and the models that only workers
// serve. What the file says is not changed by what is found.
func newRoutes(models []config.Model, found pools) []*route.Route {
	routes := make([]*route.Route, 0, len(models)+len(found.names))
	written := map[string]bool{}
	for _, m := range models {
		written[m.Name] = true
		r := &route.Route{Name: m.Name, OwnedBy: m.OwnedBy, Balance: balance.Policy(m.Balance), Continue: m.Continue,
			Hedge: route.Hedge{Quantile: m.Hedge.Percentile / 100, Share: m.Hedge.Share}}
		for _, t := range m.Targets {
			r.Targets = append(r.Targets, found.targets(t)...)
		}
		routes = append(routes, r)
	}
	for _, name := range found.names {
		if !written[name] {
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
