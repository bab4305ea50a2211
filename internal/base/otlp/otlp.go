// Package otlp sends traces, metrics and logs to collectors by OTLP over HTTP.
//
// It is apart from package observe because the exporters bring gRPC and protobuf, which the packages of the
// request path do not need.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporters has an exporter for each signal, or nil.
type Exporters struct {
	Traces  sdktrace.SpanExporter
	Metrics sdkmetric.Exporter
	Logs    sdklog.Exporter
}

// New returns exporters to collectors with these base URLs. A signal with an empty URL has no exporter. New opens
// no connection: the gateway starts without its collectors.
func New(traces, metrics, logs string) (e Exporters, err error) {
	ctx := context.Background()
	var errs [3]error
	e.Traces, errs[0] = exporter(traces, "traces", func(address string) (sdktrace.SpanExporter, error) {
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address))
	})
	e.Metrics, errs[1] = exporter(metrics, "metrics", func(address string) (sdkmetric.Exporter, error) {
		return otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(address))
	})
	e.Logs, errs[2] = exporter(logs, "logs", func(address string) (sdklog.Exporter, error) {
		return otlploghttp.New(ctx, otlploghttp.WithEndpointURL(address))
	})
	return e, errors.Join(errs[:]...)
}

// exporter opens the exporter of a signal: traces, metrics or logs. Without an endpoint there is none.
func exporter[E any](endpoint, signal string, open func(address string) (E, error)) (none E, err error) {
	if endpoint == "" {
		return none, nil
	}
	address, err := signalURL(endpoint, signal)
	if err != nil {
		return none, err
	}
	e, err := open(address)
	if err != nil {
		return none, fmt.Errorf("exporter of %s: %w", signal, err)
	}
	return e, nil
}

// signalURL adds the OTLP path of a signal to the base URL of a collector.
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
