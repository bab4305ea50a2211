package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/app/draft"
	"github.com/isogloss-gateway/isogloss/internal/app/running"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// newDiscovery builds the configured discovery, or returns nil if there is none.
func newDiscovery(cfg *config.Config, logger *slog.Logger) (*discover.Discovery, error) {
	d, snapshot := &cfg.Discover, filepath.Join(cfg.Data, "workers.snapshot")
	sources, gateways, err := newSources(cfg, logger)
	if err != nil || sources == nil {
		return nil, err
	}
	if d.Local {
		snapshot = "" // a local gateway writes nothing to disk
	}
	return discover.New(discover.Options{Sources: sources, Networks: d.Networks, Models: d.Models, Gateways: gateways, Snapshot: snapshot, Logger: logger})
}

// newSources builds the configured sources of workers, and the count of gateways that share them. It contacts nobody.
func newSources(cfg *config.Config, logger *slog.Logger) (sources []discover.Source, gateways *discover.Gateways, err error) {
	d := &cfg.Discover
	if len(d.Etcd.Endpoints) > 0 {
		o := d.Etcd
		o.Logger = logger
		source, err := discover.Etcd(o)
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, source)
		if gateways, err = discover.NewGateways(discover.GatewayOptions{Etcd: o, Node: cmp.Or(cfg.Node, running.Hostname())}); err != nil {
			return nil, nil, err
		}
	}
	if d.File != "" {
		sources = append(sources, discover.File(d.File))
	}
	if len(d.DNS) > 0 {
		source, err := discover.DNS(discover.DNSOptions{Names: d.DNS, Logger: logger})
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, source)
	}
	if d.Local {
		sources = append(sources, discover.Local(discover.LocalOptions{Not: cfg.Listen, Logger: logger}))
	}
	return sources, gateways, nil
}

// withEngines returns the configuration of the environment with the discovery of engines on
// this machine. If the environment has no provider, the gateway waits for an engine.
func withEngines(env func(string) (string, bool), overrides []settings.Override) (*config.Config, error) {
	cfg, err := config.FromEnvironment(env, overrides...)
	var nobody *config.NobodyError
	if err != nil && !errors.As(err, &nobody) {
		return nil, err
	}
	not, chosen := "", slices.ContainsFunc(overrides, func(o settings.Override) bool { return o.Key == "listen" })
	if chosen {
		not = cfg.Listen
	}
	found := discover.LookLocally(context.Background(), discover.LocalOptions{Not: not})
	if !chosen && slices.ContainsFunc(found, func(w discover.Worker) bool { return strings.HasPrefix(w.URL, "http://"+cfg.Listen+"/") }) {
		beside := settings.Override{Source: "engine on " + cfg.Listen, Key: "listen", Value: draft.BesideEngine}
		cfg, err = config.FromEnvironment(env, append(slices.Clone(overrides), beside)...)
		if err != nil && !errors.As(err, &nobody) {
			return nil, err
		}
	}
	cfg.Discover.Local = true
	cfg.Discover.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return cfg, nil
}

// pools maps models to the targets of their discovered workers.
type pools struct {
	names  []string // of the models, in the snapshot's order
	byName map[string][]route.Target
}

// newPools converts workers to targets. It skips workers with an invalid URL or
// protocol.
func newPools(found discover.Snapshot, cfg *config.Config) pools {
	p := pools{byName: map[string][]route.Target{}}
	engines := map[string]provider.Preset{} // built once: there may be a hundred thousand workers
	for _, preset := range provider.Catalog() {
		engines[preset.Name] = preset
	}
	for _, w := range found.Workers {
		var turn *limit.Turn
		if found.Turns != nil && found.Share.TakesTurns(w) {
			turn = found.Turns.Turn(w.ID)
		}
		w.Capacity = found.Share.Of(w)
		base, err := provider.ParseBaseURL(protocol.Name(w.Protocol), w.URL)
		if err != nil {
			continue
		}
		if p.byName[w.Model] == nil {
			p.names = append(p.names, w.Model)
		}
		p.byName[w.Model] = append(p.byName[w.Model], route.Target{Provider: newWorker(w, base, engines[w.Engine], cfg), Model: cmp.Or(w.Name, w.Model), Weight: max(w.Weight, 1), Timeouts: cfg.Timeouts, Zone: zoneOf(w, cfg), Turn: turn})
	}
	for _, targets := range p.byName { // for targets that are tried in order
		slices.SortStableFunc(targets, func(a, b route.Target) int { return cmp.Compare(a.Zone, b.Zone) })
	}
	return p
}

// zoneOf returns where a worker is, seen from this gateway.
func zoneOf(w discover.Worker, cfg *config.Config) balance.Zone {
	switch cfg.Zone {
	case "":
		return balance.NoZone
	case w.Zone:
		return balance.OwnZone
	}
	return balance.OtherZone
}

// newWorker converts a worker to a provider with the settings of an engine and, if it
// is known, of its engine's preset.
func newWorker(w discover.Worker, base *url.URL, engine provider.Preset, cfg *config.Config) *provider.Provider {
	p := &provider.Provider{
		Name: strings.ReplaceAll(w.ID, "/", ":"), Workers: config.Discovered + "/" + w.Model, Protocol: protocol.Name(w.Protocol), BaseURL: base, Auth: provider.NoneAuth,
		UpstreamStream: provider.Always, Extensions: provider.RefuseExtensions, Rerank: provider.RerankSame, Quota: provider.QuotaModel,
		Timeouts: cfg.Timeouts, Concurrency: w.Capacity, Continuation: provider.NoContinuation,
	}
	if engine.Protocol == p.Protocol {
		p.Quirks, p.CacheSalt = engine.Quirks, engine.CacheSalt
	}
	if engine.Metrics && cfg.Discover.EngineMetrics {
		at := *base
		at.Path, at.RawPath = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v1")+"/metrics", ""
		p.Metrics = at.String()
	}
	if key := cfg.Discover.APIKey; key != "" {
		p.Key, p.Auth = key, provider.Bearer
	}
	p.Bind(nil)
	return p
}

// targets expands a configured target: to itself, or to all workers of a model.
func (p pools) targets(t config.Target) []route.Target {
	if t.Provider != nil {
		return []route.Target{{Provider: t.Provider, Model: t.Model, Weight: t.Weight, Timeouts: t.Timeouts}}
	}
	out := slices.Clone(p.byName[t.Model])
	for i := range out {
		out[i].Weight *= t.Weight
		out[i].Timeouts = t.Timeouts
	}
	return out
}
