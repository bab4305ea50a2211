package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options configures an Observer.
type Options struct {
	Log    io.Writer  // default: standard error
	Level  slog.Level // default: info
	Format string     // "json", "text", or "auto": readable text on a terminal, else JSON; default: json
	Plain  bool       // no colour on a terminal

	// LogRate is the maximum number of log lines of ordinary exchanges per second; 0: no
	// maximum. Failed and slow exchanges are always logged.
	LogRate int
	// Slow is the wait for the first content, or for the whole response if it is not
	// streamed, from which an exchange is slow; 0: none is.
	Slow time.Duration

	Traces sdktrace.SpanExporter // nil: no tracing
	// TraceSample is the share of ordinary exchanges to trace, 0 to 1. A traceparent of the
	// client overrides it. Failed and slow exchanges are always traced.
	TraceSample float64

	Metrics        sdkmetric.Exporter // nil: metrics are only scraped
	MetricInterval time.Duration      // at which metrics are sent; default: a minute
	Logs           sdklog.Exporter    // nil: the log is only written

	ByKey string // ByKeyOff, ByKeyTop or ByKeyAll: which keys have metrics of their own; default: ByKeyTop
	Top   int    // with ByKeyTop, how many keys, teams, organisations and models; default: 100

	Version string // of the gateway, for build_info and traces; default: "dev"
}

// Observer writes the log, holds the metrics and sends the traces.
type Observer struct {
	logger  *slog.Logger
	recent  *recent
	metrics *metrics
	tracing *tracing // nil without a collector
	closers []func(context.Context) error
	lines   sync.Pool // of *line
	sampler *sampler
	slow    time.Duration
}

// New returns an observer.
func New(o Options) (*Observer, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	kept := newRecent(o.Log)
	handler, err := newHandler(o, kept)
	if err != nil {
		return nil, err
	}
	local := slog.New(handler)
	x := &Observer{logger: local, recent: kept, metrics: newMetrics(o), lines: sync.Pool{New: func() any { return new(line) }}, slow: o.Slow}
	var suppressed prometheus.Collector
	x.sampler, suppressed = newSampler(o.LogRate)
	x.metrics.registry.MustRegister(suppressed)
	x.closers = append(x.closers, x.flushLog)
	if err := x.send(o, local); err != nil {
		return nil, errors.Join(err, x.Close(context.Background()))
	}
	return x, nil
}

// send starts to send traces, metrics and the log to collectors, where they are
// configured.
func (o *Observer) send(options Options, local *slog.Logger) (err error) {
	if o.tracing, err = newTracing(options, local); err != nil {
		return err
	}
	if o.tracing != nil {
		// The provider's Shutdown does not stop the sender if the context has ended.
		o.closers = append(o.closers, o.tracing.sender.Shutdown)
	}
	if options.Metrics != nil {
		reader, err := newMetricReader(options, o.metrics.registry, local)
		if err != nil {
			return err
		}
		o.closers = append(o.closers, reader.Shutdown)
	}
	if options.Logs != nil {
		sender, provider, err := newLogSender(options, local)
		if err != nil {
			return err
		}
		o.closers = append(o.closers, provider.Shutdown)
		o.logger = slog.New(slog.NewMultiHandler(local.Handler(), sender))
	}
	return nil
}

// newHandler returns the handler that writes to out, which is Options.Log or passes on to it.
func newHandler(o Options, out io.Writer) (slog.Handler, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	if o.Format == "auto" && isTerminal(o.Log) {
		return newConsole(o, out), nil
	}
	switch o.Format {
	case "", "json", "auto":
		return slog.NewJSONHandler(out, options), nil
	case "text":
		return slog.NewTextHandler(out, options), nil
	}
	return nil, fmt.Errorf(`log format %q is not known; write "auto", "json" or "text"`, o.Format)
}

// Logger returns the logger that exchanges are logged to.
func (o *Observer) Logger() *slog.Logger { return o.logger }

// Metrics serves the metrics in the Prometheus text format.
func (o *Observer) Metrics() http.Handler {
	return promhttp.HandlerFor(o.metrics.registry, promhttp.HandlerOpts{})
}

// Reloaded counts a reload of the configuration. err is the reason why it was rejected,
// or nil.
func (o *Observer) Reloaded(err error) {
	if err != nil {
		o.metrics.reloads.WithLabelValues("error").Inc()
		return
	}
	o.metrics.reloads.WithLabelValues("ok").Inc()
	o.metrics.reloaded.SetToCurrentTime()
}

// Close sends what is buffered for collectors, until ctx ends.
func (o *Observer) Close(ctx context.Context) error {
	var errs []error
	for _, stop := range o.closers {
		errs = append(errs, stop(ctx))
	}
	o.closers = nil
	return errors.Join(errs...)
}
