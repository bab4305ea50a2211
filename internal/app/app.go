// Package app builds the gateway from its parts and runs it.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/relay"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// Options are what the command line says.
type Options struct {
	Config  string // the configuration file; empty means that the environment says it all
	Local   bool   // without a file: serve the engines of this machine too
	Listen  string // overrides the configuration's listen
	Env     func(string) (string, bool)
	Log     io.Writer
	Version string
	Process Process // nil: nobody takes this one's place

	pace pace // the zero value is usualPace
}

// Process is this process as the last so far of those that serve on the same
// ports.
type Process interface {
	// Listen takes a listener over from the process before, or opens the address.
	Listen(ctx context.Context, name, address string) (net.Listener, error)
	// Ready tells the process before that this one serves. The context ends when
	// this one is to end.
	Ready(ctx context.Context, logger *slog.Logger) error
	// Replaced is closed when the next process serves.
	Replaced() <-chan struct{}
}

// alone is a process that is never replaced.
type alone struct{}

func (alone) Listen(ctx context.Context, _, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

func (alone) Ready(context.Context, *slog.Logger) error { return nil }

func (alone) Replaced() <-chan struct{} { return nil }

// pace is how long the steps of the process's own life take.
type pace struct {
	look      time.Duration // between two looks at the configuration file
	notice    time.Duration // between /health saying "draining" and the port being closed
	drain     time.Duration // for requests that are open then
	lastWords time.Duration // for the errors that end those that are left

	// Of a process that was replaced:
	lameDuck time.Duration // without a request, before connections that are kept are closed
	finish   time.Duration // for requests that are open
}

// usualPace fits a shutdown into the 30 seconds that Kubernetes leaves between
// SIGTERM and SIGKILL. Nobody waits for a process that was replaced, so it has ten
// minutes: longer than nearly every stream, and short enough that a forgotten one
// does not keep an old version alive, and the next restart waiting, for the half
// hour that a stream may take.
func usualPace() pace {
	return pace{look: 250 * time.Millisecond, notice: 400 * time.Millisecond, drain: 25 * time.Second, lastWords: 2 * time.Second,
		lameDuck: 2 * time.Second, finish: 10 * time.Minute}
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
	if o.Config != "" {
		return config.Load(o.Config, o.Env)
	}
	cfg, err := config.FromEnvironment(o.Env)
	if !o.Local {
		return cfg, err
	}
	return withEngines(cfg, err, o.Listen)
}

// Run serves until the context ends, and then drains.
func Run(ctx context.Context, o Options) error {
	if o.pace == (pace{}) {
		o.pace = usualPace()
	}
	if o.Process == nil {
		o.Process = alone{}
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
	shared, err := openStores(cfg, observer)
	if err != nil {
		return err
	}
	defer shared.close()
	gateway := relay.New(all.Codecs(), observer)
	defer gateway.Close()
	looking := newLooking(gateway, shared, observer.Logger(), o.Version)
	now := &current{gateway: gateway, stores: shared, started: time.Now()}
	if err := now.load(cfg); err != nil {
		return err
	}
	shared.run(observer, now.found)
	if err := shared.ready(ctx); err != nil {
		return err
	}

	watcher := &watcher{options: o, first: cfg, current: now, observer: observer}
	servers, err := listen(ctx, o.Process, &operations{cfg: cfg, gateway: gateway, observer: observer, stores: shared, watcher: watcher, version: o.Version})
	if err != nil {
		return err
	}
	watcher.bound = servers.data.listener.Addr()
	greet(observer.Logger(), cfg, now.served(), servers, o.Version)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	l := life{servers: servers, process: o.Process, pace: o.pace, gateway: gateway, logger: observer.Logger(), leave: func() {
		stop()
		looking.close() // what comes from now on is another's
	}}
	if err := l.begin(ctx); err != nil {
		return err
	}
	looking.open(cfg.Listen, servers.data.listener.Addr())
	defer looking.close()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watcher.watch(watching, seen)
	}()
	err = l.last(ctx)
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
func greet(logger *slog.Logger, cfg *config.Config, models int, s *servers, version string) {
	logger.Info("listening", "url", "http://"+s.data.addr(), "metrics", s.metricsURL(), "models", models, "providers", len(cfg.Providers), "version", version)
	if len(cfg.Keys) == 0 && cfg.Store.URL == "" {
		logger.Info("no keys are configured, so only this machine is served", "hint", "point an OpenAI SDK at http://"+s.data.addr()+"/v1")
	}
}
