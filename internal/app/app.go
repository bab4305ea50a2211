// Package app builds the gateway from its parts and runs it.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// Options are what the command line says.
type Options struct {
	Config  string // the configuration file; empty means that the environment says it all
	Listen  string // overrides the configuration's listen
	Env     func(string) (string, bool)
	Log     io.Writer
	Version string

	pace pace // the zero value is usualPace
}

// pace is how long the steps of the process's own life take.
type pace struct {
	look      time.Duration // between two looks at the configuration file
	notice    time.Duration // between /health saying "draining" and the port being closed
	drain     time.Duration // for requests that are open then
	lastWords time.Duration // for the errors that end those that are left
}

// usualPace fits a shutdown into the 30 seconds that Kubernetes leaves between
// SIGTERM and SIGKILL.
func usualPace() pace {
	return pace{look: 250 * time.Millisecond, notice: 400 * time.Millisecond, drain: 25 * time.Second, lastWords: 2 * time.Second}
}

// LoadConfig reads the configuration that the options name.
func (o Options) LoadConfig() (*config.Config, error) {
	cfg, err := o.readConfig()
	if err != nil || o.Listen == "" {
		return cfg, err
	}
	return cfg.WithListen(o.Listen)
}

func (o Options) readConfig() (*config.Config, error) {
	if o.Config == "" {
		return config.FromEnvironment(o.Env)
	}
	return config.Load(o.Config, o.Env)
}

// Run serves until the context ends, and then drains.
func Run(ctx context.Context, o Options) error {
	if o.pace == (pace{}) {
		o.pace = usualPace()
	}
	seen := stampOf(o.Config) // before it is read, so that no change falls in between
	cfg, err := o.LoadConfig()
	if err != nil {
		return err
	}
	observer, err := observe.New(observe.Options{Log: o.Log, Level: cfg.Log.Level, Format: cfg.Log.Format,
		TraceEndpoint: cfg.Traces.Endpoint, TraceSample: cfg.Traces.Sample, Version: o.Version})
	if err != nil {
		return err
	}
	defer closeObserver(observer)
	gateway := relay.New(all.Codecs(), observer)
	defer gateway.Close()
	started := time.Now()
	gateway.Use(newState(cfg, started))

	servers, err := listen(ctx, cfg, gateway, observer)
	if err != nil {
		return err
	}
	greet(observer.Logger(), cfg, servers, o.Version)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w := watcher{options: o, first: cfg, bound: servers.data.listener.Addr(), started: started, observer: observer, gateway: gateway}
		w.watch(watching, seen)
	}()
	err = servers.run(ctx, o.pace, gateway, observer.Logger())
	stop()
	<-watched
	return err
}

// closeObserver flushes traces, for a bounded time.
func closeObserver(o *observe.Observer) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := o.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		o.Logger().Warn("traces were not flushed", "error", err.Error())
	}
}

// greet tells the operator where the gateway is and what it serves.
func greet(logger *slog.Logger, cfg *config.Config, s *servers, version string) {
	logger.Info("listening", "url", "http://"+s.data.addr(), "metrics", s.metricsURL(), "models", len(cfg.Models), "providers", len(cfg.Providers), "version", version)
	if len(cfg.Keys) == 0 {
		logger.Info("no keys are configured, so only this machine is served", "hint", "point an OpenAI SDK at http://"+s.data.addr()+"/v1")
	}
}
