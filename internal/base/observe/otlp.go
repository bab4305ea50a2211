package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	prombridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
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

// signalURL adds the OTLP path of a signal (traces, metrics or logs) to the base URL of a
// collector.
func signalURL(endpoint, signal string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		// The message does not quote it: it may hold a password.
		return "", errors.New(strings.TrimSuffix(signal, "s") + " endpoint is not a plain http or https URL; write one such as " +
			`"http://127.0.0.1:4318", and put credentials in OTEL_EXPORTER_OTLP_HEADERS`)
	}
	if strings.HasSuffix(u.Path, "/v1/"+signal) {
		return u.String(), nil
	}
	return u.JoinPath("v1", signal).String(), nil
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
	address, err := signalURL(o.MetricEndpoint, "metrics")
	if err != nil {
		return nil, err
	}
	described, err := newResource(o.Version)
	if err != nil {
		return nil, err
	}
	exporter, err := otlpmetrichttp.New(context.Background(), otlpmetrichttp.WithEndpointURL(address))
	if err != nil {
		return nil, fmt.Errorf("metric exporter: %w", err)
	}
	options := []sdkmetric.PeriodicReaderOption{sdkmetric.WithProducer(prombridge.NewMetricProducer(prombridge.WithGatherer(registry)))}
	if o.MetricInterval > 0 {
		options = append(options, sdkmetric.WithInterval(o.MetricInterval), sdkmetric.WithTimeout(min(o.MetricInterval, 30*time.Second)))
	}
	reader := sdkmetric.NewPeriodicReader(metricExporter{exporter, &outage{logger: logger, signal: "metrics"}}, options...)
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
	address, err := signalURL(o.LogEndpoint, "logs")
	if err != nil {
		return nil, nil, err
	}
	described, err := newResource(o.Version)
	if err != nil {
		return nil, nil, err
	}
	exporter, err := otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(address))
	if err != nil {
		return nil, nil, fmt.Errorf("log exporter: %w", err)
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithResource(described),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(logExporter{exporter, &outage{logger: local, signal: "logs"}})))
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
