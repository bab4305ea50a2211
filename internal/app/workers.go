package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/discover"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// newDiscovery looks for workers where the configuration says; nil where it does
// not.
func newDiscovery(cfg *config.Config, logger *slog.Logger) (*discover.Discovery, error) {
	d, snapshot := &cfg.Discover, filepath.Join(cfg.Data, "workers.snapshot")
	if !d.On() {
		return nil, nil
	}
	var sources []discover.Source
	if len(d.Etcd.Endpoints) > 0 {
		source, err := discover.Etcd(discover.EtcdOptions{Endpoints: d.Etcd.Endpoints, Prefix: d.Etcd.Prefix, Username: d.Etcd.Username, Password: d.Etcd.Password,
			CA: d.Etcd.CA, Cert: d.Etcd.Cert, Key: d.Etcd.Key, Logger: logger})
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	if d.File != "" {
		sources = append(sources, discover.File(d.File, logger))
	}
	if len(d.DNS) > 0 {
		names := make([]discover.Name, len(d.DNS))
		for i, n := range d.DNS {
			names[i] = discover.Name{Name: n.Name, Port: n.Port, Model: n.Model, Protocol: n.Protocol}
		}
		source, err := discover.DNS(discover.DNSOptions{Names: names, Logger: logger})
		if err != nil {
			return nil, err
		}
		sources = append(sources, source)
	}
	if d.Local {
		sources = append(sources, discover.Local(discover.LocalOptions{Not: cfg.Listen, Logger: logger}))
		snapshot = "" // nothing is written to disk that nobody asked for
	}
	return discover.New(discover.Options{Sources: sources, Networks: d.Networks, Snapshot: snapshot, Logger: logger})
}

// withEngines serves the engines of this machine too. Where the environment names
// nobody, one has to be there at the start: a gateway that serves nothing is a
// mistake more often than a wish. chosen is the address that the command line has for
// the gateway itself, if it has one.
func withEngines(cfg *config.Config, err error, chosen string) (*config.Config, error) {
	var nobody *config.NobodyError
	if err != nil && !errors.As(err, &nobody) {
		return nil, err
	}
	found := discover.LookLocally(context.Background(), discover.LocalOptions{Not: chosen})
	if chosen == "" && slices.ContainsFunc(found, func(w discover.Worker) bool { return strings.HasPrefix(w.URL, "http://"+cfg.Listen+"/") }) {
		cfg.Listen = besideEngine
	}
	if nobody != nil && len(found) == 0 {
		var engines []string
		for _, e := range discover.Engines() {
			engines = append(engines, e.Name+" on port "+strconv.Itoa(e.Port))
		}
		return nil, fmt.Errorf("%w; or start an engine: none was found of %s", nobody, strings.Join(engines, ", "))
	}
	cfg.Discover.Local = true
	cfg.Discover.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return cfg, nil
}

// besideEngine is where the gateway listens if its usual port is an engine's, as it is
// llama.cpp's, and nobody has chosen another. Its metrics are on the port between.
const besideEngine = "127.0.0.1:8082"

// pools are the workers that were found, as targets, by the model that they serve.
type pools struct {
	names  []string // of the models, in the snapshot's order
	byName map[string][]route.Target
}

// newPools makes targets of workers. They were checked when they were found; what
// cannot be called all the same is left out.
func newPools(workers []discover.Worker, cfg *config.Config) pools {
	p := pools{byName: map[string][]route.Target{}}
	engines := map[string]provider.Preset{} // made once: there may be a hundred thousand workers
	for _, preset := range provider.Catalog() {
		engines[preset.Name] = preset
	}
	for _, w := range workers {
		base, err := provider.ParseBaseURL(protocol.Name(w.Protocol), w.URL)
		if err != nil {
			continue
		}
		if p.byName[w.Model] == nil {
			p.names = append(p.names, w.Model)
		}
		p.byName[w.Model] = append(p.byName[w.Model], route.Target{Provider: newWorker(w, base, engines[w.Engine], cfg), Model: cmp.Or(w.Name, w.Model), Weight: max(w.Weight, 1), Timeouts: cfg.Timeouts})
	}
	return p
}

// newWorker is a worker as a provider. Workers are engines, and are asked as those
// are, in the way of their own where that is known.
func newWorker(w discover.Worker, base *url.URL, engine provider.Preset, cfg *config.Config) *provider.Provider {
	p := &provider.Provider{
		Name: strings.ReplaceAll(w.ID, "/", ":"), Workers: config.Discovered + "/" + w.Model, Protocol: protocol.Name(w.Protocol), BaseURL: base, Auth: provider.NoneAuth,
		UpstreamStream: provider.Always, NvExt: provider.NvExtRefuse, Rerank: provider.RerankSame, Quota: provider.QuotaModel,
		Timeouts: cfg.Timeouts, Concurrency: w.Capacity, Continuation: provider.NoContinuation,
	}
	if engine.Protocol == p.Protocol {
		p.Quirks = engine.Quirks
	}
	if key := cfg.Discover.APIKey; key != "" {
		p.Key, p.Auth = key, provider.Bearer
	}
	return p
}

// targets are what a target of the file stands for: itself, or all workers of a
// model.
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
