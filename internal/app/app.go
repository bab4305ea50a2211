// Package app builds the gateway from its parts and runs it.
package app

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/app/draft"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/base/otlp"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/config"
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/request/relay"
	"github.com/isogloss-gateway/isogloss/internal/targets/cloud"
	"github.com/isogloss-gateway/isogloss/protocol/all"
)

// Options holds the settings of the command line.
type Options struct {
	Config  string // the configuration file; empty means configuration by environment variables only
	YAML    []byte // the configuration itself, for a gateway inside another program: no settings of the environment, no local socket
	Local   bool   // without a file: also serve inference engines found on this machine
	Listen  string // overrides the configuration's listen
	Socket  string // of the gateway that a command asks; empty: it is searched
	Env     func(string) (string, bool)
	Log     io.Writer
	Version string
	Process Process // nil: this process is never replaced

	// Dialects are those that clients and upstreams speak. Nil: all of them.
	Dialects []*codec.Dialect

	pace        pace   // the zero value is usualPace
	serviceData string // empty: the constant
}

// Process hands listeners over between the processes that serve on the same ports.
type Process interface {
	// Listen returns a listener inherited from the previous process, or opens the address.
	Listen(ctx context.Context, name, address string) (net.Listener, error)
	// Ready tells the previous process that this one serves. The context ends when this
	// process shuts down.
	Ready(ctx context.Context, logger *slog.Logger) error
	// Replaced is closed when a new process serves.
	Replaced() <-chan struct{}
}

// alone is a Process that is never replaced.
type alone struct{}

func (alone) Listen(ctx context.Context, _, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}

func (alone) Ready(context.Context, *slog.Logger) error { return nil }

func (alone) Replaced() <-chan struct{} { return nil }

// pace holds the durations of reload, drain and shutdown.
type pace struct {
	look      time.Duration // interval at which the configuration file is polled
	notice    time.Duration // between /health saying "draining" and the port being closed
	drain     time.Duration // time for open requests to finish
	errorTime time.Duration // time to send errors to requests that are still open

	// For a replaced process:
	lameDuck time.Duration // idle time after which kept-alive connections are closed
	finish   time.Duration // time for open requests to finish
}

// usualPace returns the durations that the configuration sets, and defaults for the
// rest. By default a shutdown fits into the 30 seconds that Kubernetes leaves between
// SIGTERM and SIGKILL. A replaced process has ten minutes:
// longer than nearly every stream, and shorter than the half hour that a stream may
// take, so that a forgotten stream does not block the next restart for long.
func usualPace(s config.Shutdown) pace {
	return pace{look: 250 * time.Millisecond, notice: s.Notice, drain: s.Drain, errorTime: 2 * time.Second,
		lameDuck: 2 * time.Second, finish: 10 * time.Minute}
}

// LoadConfig reads the configuration. A flag wins over the environment, and the
// environment over the file.
func (o Options) LoadConfig() (*config.Config, error) {
	if o.YAML != nil {
		return config.Parse("isogloss.yaml", o.YAML, o.Env)
	}
	overrides := config.Environment(o.Env)
	if o.Listen != "" {
		overrides = append(overrides, settings.Override{Source: "--listen", Key: "listen", Value: o.Listen})
	}
	if o.Config != "" {
		return config.Load(o.Config, o.Env, overrides...)
	}
	if o.Local {
		return withEngines(o.Env, overrides)
	}
	return config.FromEnvironment(o.Env, overrides...)
}

// Run serves until the context ends, then drains.
func Run(ctx context.Context, o Options) error {
	if o.Process == nil {
		o.Process = alone{}
	}
	seen := stampOf(o.Config) // taken before the file is read, so that no change is missed
	cfg, err := o.Check()
	if err != nil {
		return err
	}
	if o.pace == (pace{}) {
		o.pace = usualPace(cfg.Shutdown)
	}
	send, err := otlp.New(cfg.Traces.Endpoint, cfg.Metrics.Endpoint, cfg.Log.Endpoint)
	if err != nil {
		return err
	}
	observer, err := observe.New(observe.Options{Log: o.Log, Level: cfg.Log.Lowest(), Format: cfg.Log.Format, LogRate: cfg.Log.Rate, Slow: cfg.Log.Slow, Plain: o.plainLog(),
		Traces: send.Traces, TraceSample: cfg.Traces.Sample, Metrics: send.Metrics, MetricInterval: cfg.Metrics.Every,
		Logs: send.Logs, ByKey: cfg.Metrics.ByKey, Top: cfg.Metrics.Top, Version: o.Version})
	if err != nil {
		return err
	}
	defer closeObserver(observer)
	shared, err := openStores(cfg, observer)
	if err != nil {
		return err
	}
	defer shared.close()
	if o.Dialects == nil {
		o.Dialects = all.Dialects()
	}
	gateway := relay.New(o.Dialects, observer)
	defer gateway.Close()
	hub := &capture.Hub{Version: o.Version}
	gateway.Watch(hub)
	catalog := newCatalog(gateway.Client(), observer.Logger())
	defer catalog.Close()
	clouds := cloud.NewPool(observer.Logger())
	defer clouds.Close()
	now := &current{gateway: gateway, stores: shared, catalog: catalog, clouds: clouds, logger: observer.Logger(), started: time.Now()}
	if err := now.load(cfg); err != nil {
		return err
	}
	watcher := &watcher{options: o, first: cfg, current: now, observer: observer}
	me := newSelf(o.Version, now, watcher, hub)
	shared.run(gateway, observer, now, me)
	if err := shared.ready(ctx); err != nil {
		return err
	}

	ops := &operations{cfg: cfg, gateway: gateway, observer: observer, stores: shared, current: now, watcher: watcher, captures: hub, self: me, version: o.Version}
	servers, err := listen(ctx, o.Process, ops)
	if err != nil {
		return err
	}
	watcher.bound = servers.data.listener.Addr()
	for _, s := range servers.each() {
		gateway.Client().AddOwnAddress(s.listener.Addr())
	}
	greet(observer.Logger(), cfg, now.served(), servers, o)
	shared.watchConditions(ops)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	sock := &localSocket{operations: ops}
	l := life{servers: servers, process: o.Process, pace: o.pace, gateway: gateway, logger: observer.Logger(), leave: func() {
		stop()
		hub.Close() // new captures attach to the next process
		select {
		case <-o.Process.Replaced(): // the next process takes the name of the socket; until then commands find this one
		default:
			sock.close()
		}
	}}
	if err := l.begin(ctx); err != nil {
		return err
	}
	if o.YAML == nil {
		sock.open(servers.data.listener.Addr())
	}
	defer sock.close()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watcher.watch(watching, seen)
	}()
	err = l.last(ctx)
	<-watched
	return err
}

// plainLog reports whether the environment asks for a log without colour.
func (o Options) plainLog() bool {
	noColor, _ := o.Env("NO_COLOR")
	term, _ := o.Env("TERM")
	return noColor != "" || term == "dumb"
}

// closeObserver flushes traces with a time limit.
func closeObserver(o *observe.Observer) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := o.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		o.Logger().Warn("traces were not flushed", "error", err.Error())
	}
}

// greet logs the addresses, the configuration's file and the number of models.
func greet(logger *slog.Logger, cfg *config.Config, models int, s *servers, o Options) {
	warnOldPrices(logger, cfg)
	logger.Info("listening", "url", s.data.url()+cfg.BasePath, "metrics", s.metricsURL(), "console", s.consoleURL(), "configuration", cmp.Or(o.Config, "environment"), "models", models, "providers", len(cfg.Providers), "version", o.Version)
	if len(cfg.Providers) == 0 && models == 0 && cfg.Discover.Local {
		logger.Info("the gateway waits for an engine: none was found, and no key of a provider is set", "engines", draft.EngineNames(), "hint", "start an engine, or set the key of a provider and start the gateway again")
	}
	if len(cfg.Keys)+len(cfg.Identity) == 0 && cfg.Store.URL == "" {
		logger.Info("no keys are configured, so only this machine is served", "hint", "point an OpenAI SDK at "+s.data.url()+cfg.BasePath+"/v1")
	}
}
