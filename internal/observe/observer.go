package observe

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say where observations go.
type Options struct {
	Log    io.Writer  // nil means standard error
	Level  slog.Level // the zero value is info
	Format string     // "json" or "text"; empty means json

	TraceEndpoint string  // base URL of an OTLP/HTTP collector; empty means no tracing
	TraceSample   float64 // share of traces begun here, 0 to 1; a client that sends a traceparent decides for itself

	Version string // of the gateway, for build_info and traces; empty means "dev"
}

// Observer writes the log, holds the metrics and sends the traces.
type Observer struct {
	logger  *slog.Logger
	metrics *metrics
	tracing *tracing  // nil without a collector
	lines   sync.Pool // of *line
}

// New returns an observer. It opens no connection: a collector that is away
// keeps nothing from starting.
func New(o Options) (*Observer, error) {
	if o.Log == nil {
		o.Log = os.Stderr
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	handler, err := newHandler(o)
	if err != nil {
		return nil, err
	}
	logger := slog.New(handler)
	t, err := newTracing(o, logger)
	if err != nil {
		return nil, err
	}
	return &Observer{
		logger:  logger,
		metrics: newMetrics(o.Version),
		tracing: t,
		lines:   sync.Pool{New: func() any { return new(line) }},
	}, nil
}

func newHandler(o Options) (slog.Handler, error) {
	options := &slog.HandlerOptions{Level: o.Level}
	switch o.Format {
	case "", "json":
		return slog.NewJSONHandler(o.Log, options), nil
	case "text":
		return slog.NewTextHandler(o.Log, options), nil
	}
	return nil, fmt.Errorf(`log format %q is not known; write "json" or "text"`, o.Format)
}

// Logger is the log that exchanges are written to, for whoever else has
// something to say.
func (o *Observer) Logger() *slog.Logger { return o.logger }

// Metrics serves the metrics in Prometheus' text format.
func (o *Observer) Metrics() http.Handler {
	return promhttp.HandlerFor(o.metrics.registry, promhttp.HandlerOpts{})
}

// Reloaded counts a reload of the configuration; err is what it was refused for,
// or nil.
func (o *Observer) Reloaded(err error) {
	if err != nil {
		o.metrics.reloads.WithLabelValues("error").Inc()
		return
	}
	o.metrics.reloads.WithLabelValues("ok").Inc()
	o.metrics.reloaded.SetToCurrentTime()
}

// Close sends the traces that are still held, for as long as ctx lasts.
func (o *Observer) Close(ctx context.Context) error {
	if o.tracing == nil {
		return nil
	}
	// Not the provider's Shutdown: with a context that is over it stops nothing.
	return o.tracing.sender.Shutdown(ctx)
}
