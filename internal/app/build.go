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
		Routes:    route.New(newPools(workers, cfg).fill(newRoutes(cfg.Models), cfg.Models)),
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

// newRoutes are the rows of the configuration, without their targets.
func newRoutes(models []config.Model) []*route.Route {
	routes := make([]*route.Route, 0, len(models))
	for _, m := range models {
		r := &route.Route{Name: m.Name, OwnedBy: m.OwnedBy, Balance: balance.Policy(m.Balance), Continue: m.Continue,
			Hedge: route.Hedge{Quantile: m.Hedge.Percentile / 100, Share: m.Hedge.Share}}
		routes = append(routes, r)
	}
	return routes
}

func newTarget(t config.Target) route.Target {
	return route.Target{Provider: t.Provider, Model: t.Model, Weight: t.Weight, Timeouts: t.Timeouts}
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
