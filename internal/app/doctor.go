package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/doctor"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
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
		in.State = func() *relay.State {
			only := *cfg
			only.Keys, only.Models, only.BasePath = nil, nil, ""
			return newState(&only, discover.Snapshot{}, time.Now())
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
