package observe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with the GenAI names
)

// scope is the name of the gateway's instrumentation.
const scope = "github.com/isogloss-gateway/isogloss"

// newResource describes the gateway to a collector. The environment overrides the
// attributes: OTEL_SERVICE_NAME is set by the operator.
func newResource(version string) (*resource.Resource, error) {
	r, err := resource.New(context.Background(), resource.WithSchemaURL(semconv.SchemaURL),
		resource.WithAttributes(semconv.ServiceName("isogloss"), semconv.ServiceVersion(version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return r, nil
}

// outage logs once when a collector does not accept a signal and once when it does again.
// Its logger must not be one that sends to the collector.
type outage struct {
	logger *slog.Logger
	signal string
	failed atomic.Bool
}

// note takes the result of an export. It does not log the collector's response, which may
// echo the credentials.
func (o *outage) note(err error) {
	switch {
	case err != nil && o.failed.CompareAndSwap(false, true):
		reason, _, _ := strings.Cut(err.Error(), "body:")
		o.logger.Warn(o.signal+" not exported", attrError, cut(reason, maxText))
	case err == nil && o.failed.CompareAndSwap(true, false):
		o.logger.Info(o.signal + " exported again")
	}
}

// metricExporter is an exporter that logs failures; the SDK would report them through a
// global.
type metricExporter struct {
	sdkmetric.Exporter
	outage *outage
}

// Export sends metrics.
func (e metricExporter) Export(ctx context.Context, m *metricdata.ResourceMetrics) error {
	e.outage.note(e.Exporter.Export(ctx, m))
	return nil
}

// newMetricReader sends the metrics of a registry to a collector, at an interval.
func newMetricReader(o Options, registry prometheus.Gatherer, logger *slog.Logger) (sdkmetric.Reader, error) {
	described, err := newResource(o.Version)
	if err != nil {
		return nil, err
	}
	options := []sdkmetric.PeriodicReaderOption{sdkmetric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(registry)))}
	if o.MetricInterval > 0 {
		options = append(options, sdkmetric.WithInterval(o.MetricInterval), sdkmetric.WithTimeout(min(o.MetricInterval, 30*time.Second)))
	}
	reader := sdkmetric.NewPeriodicReader(metricExporter{o.Metrics, &outage{logger: logger, signal: "metrics"}}, options...)
	sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(described)) // starts the reader
	return reader, nil
}

// logExporter is an exporter that logs failures to the local log.
type logExporter struct {
	sdklog.Exporter
	outage *outage
}

// Export sends log records.
func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	e.outage.note(e.Exporter.Export(ctx, records))
	return nil
}

// newLogSender returns a handler that sends log records of a level and above to a
// collector, and what stops it.
func newLogSender(o Options, local *slog.Logger) (slog.Handler, *sdklog.LoggerProvider, error) {
	described, err := newResource(o.Version)
	if err != nil {
		return nil, nil, err
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(described),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(logExporter{o.Logs, &outage{logger: local, signal: "logs"}})))
	handler := otelslog.NewHandler(scope, otelslog.WithLoggerProvider(provider), otelslog.WithVersion(o.Version), otelslog.WithSchemaURL(semconv.SchemaURL))
	return leveled{handler, o.Level}, provider, nil
}

// leveled is a handler of records of a level and above.
type leveled struct {
	slog.Handler
	level slog.Level
}

// Enabled implements slog.Handler.
func (h leveled) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

// WithAttrs implements slog.Handler.
func (h leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{h.Handler.WithAttrs(attrs), h.level}
}

// WithGroup implements slog.Handler.
func (h leveled) WithGroup(name string) slog.Handler {
	return leveled{h.Handler.WithGroup(name), h.level}
}
