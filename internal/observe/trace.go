package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last that holds the GenAI names
	"go.opentelemetry.io/otel/trace"

	"github.com/isogloss-gateway/isogloss/llm"
)

// attrExchangeID ties a span to its log line.
const attrExchangeID = attribute.Key("isogloss.exchange.id")

// tracing makes spans and sends them.
type tracing struct {
	sender sdktrace.SpanProcessor
	tracer trace.Tracer
}

// newTracing returns nil where no collector is configured.
func newTracing(o Options, logger *slog.Logger) (*tracing, error) {
	if o.TraceEndpoint == "" {
		return nil, nil
	}
	if !(o.TraceSample >= 0 && o.TraceSample <= 1) { // so written, it catches NaN
		return nil, fmt.Errorf("trace sample %v is not a share; write a number from 0 to 1", o.TraceSample)
	}
	endpoint, err := tracesURL(o.TraceEndpoint)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	// The environment comes second: OTEL_SERVICE_NAME is the operator's word.
	described, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("isogloss"), semconv.ServiceVersion(o.Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	sender := sdktrace.NewBatchSpanProcessor(loggedExporter{exporter, logger})
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(sender),
		sdktrace.WithResource(described),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.TraceSample))))
	tracer := provider.Tracer("github.com/isogloss-gateway/isogloss",
		trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return &tracing{sender: sender, tracer: tracer}, nil
}

// tracesURL completes a collector's base URL with OTLP's path.
func tracesURL(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		// Not quoted: it may hold a password.
		return "", fmt.Errorf("trace endpoint is not a plain http or https URL; write one such as " +
			`"http://127.0.0.1:4318", and put credentials in OTEL_EXPORTER_OTLP_HEADERS`)
	}
	if strings.HasSuffix(u.Path, "/v1/traces") {
		return u.String(), nil
	}
	return u.JoinPath("v1", "traces").String(), nil
}

// loggedExporter says in the gateway's own log that traces were not taken; the
// SDK would say it through a global.
type loggedExporter struct {
	sdktrace.SpanExporter
	logger *slog.Logger
}

// ExportSpans sends spans. What the collector answered is left out of the log: it
// is text from outside, and may echo the request's credentials.
func (e loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		reason, _, _ := strings.Cut(err.Error(), "body:")
		e.logger.Warn("traces not exported", "spans", len(spans), attrError, cut(reason, maxText))
	}
	return nil
}

// parent gives the propagator a client's traceparent and nothing else: a
// tracestate is free text, and would be sent on to collector and upstream.
type parent struct{ propagation.HeaderCarrier }

// Get returns the traceparent's value only.
func (p parent) Get(key string) string {
	if key != "traceparent" {
		return ""
	}
	return p.HeaderCarrier.Get(key)
}

func (t *tracing) begin(ctx context.Context, endpoint string, header http.Header) (context.Context, trace.Span) {
	ctx = propagation.TraceContext{}.Extract(ctx, parent{propagation.HeaderCarrier(header)})
	return t.tracer.Start(ctx, endpoint, trace.WithSpanKind(trace.SpanKindServer))
}

func (x *Exchange) beginAttempt() {
	if x.span == nil {
		return
	}
	x.endAttempt("")
	ctx := trace.ContextWithSpan(context.Background(), x.span)
	_, x.attempt = x.observer.tracing.tracer.Start(ctx, x.Endpoint, trace.WithSpanKind(trace.SpanKindClient))
}

// Inject writes the traceparent for the upstream into h, when there is tracing.
func (x *Exchange) Inject(h http.Header) {
	span := x.attempt
	if span == nil {
		span = x.span
	}
	if span == nil {
		return
	}
	h.Del("tracestate") // it would belong to the client's parent
	ctx := trace.ContextWithSpan(context.Background(), span)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// endAttempt closes the upstream's side; kind is empty where it did its part. The
// span says who was asked and what was answered but names no operation and no
// usage: a reader of GenAI spans would count the exchange twice.
func (x *Exchange) endAttempt(kind llm.Kind) {
	if x.attempt == nil {
		return
	}
	if x.attempt.IsRecording() {
		provider := x.labels().provider
		_, model, _ := strings.Cut(x.Target, "/")
		x.attempt.SetName("upstream " + provider)
		x.attempt.SetAttributes(
			semconv.GenAIProviderNameKey.String(provider),
			semconv.GenAIRequestModel(cut(model, maxName)))
		setResult(x.attempt, x.UpstreamStatus, kind)
		if kind != "" {
			x.attempt.SetStatus(codes.Error, "")
		}
	}
	x.attempt.End()
	x.attempt = nil
}

// endSpans closes both sides of the exchange's trace.
func (x *Exchange) endSpans(v verdict) {
	x.endAttempt(v.kind)
	if x.span.IsRecording() {
		if op := operation(x.Endpoint); op != "" {
			x.describeSpan(op)
		}
		x.span.SetAttributes(attrExchangeID.String(cut(x.ID, maxName)))
		setResult(x.span, v.status, v.kind)
		// A client's mistake is no error of the server's, says the HTTP convention.
		if v.outcome == UpstreamError || v.outcome == GatewayError {
			x.span.SetStatus(codes.Error, "")
		}
	}
	x.span.End()
}

func setResult(span trace.Span, status int, kind llm.Kind) {
	if status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	if kind != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(kind)))
	}
}

// describeSpan sets the name and the attributes of the GenAI conventions.
func (x *Exchange) describeSpan(op string) {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameKey.String(op), semconv.GenAIRequestStream(x.Stream)}
	route := x.labels()
	if route.model != "" {
		x.span.SetName(op + " " + route.model)
		attrs = append(attrs, semconv.GenAIRequestModel(route.model))
	} else {
		x.span.SetName(op)
	}
	if route.provider != "" {
		attrs = append(attrs, semconv.GenAIProviderNameKey.String(route.provider))
	}
	if x.ResponseModel != "" {
		attrs = append(attrs, semconv.GenAIResponseModel(word(x.ResponseModel)))
	}
	if x.Finish != "" {
		attrs = append(attrs, semconv.GenAIResponseFinishReasons(word(x.Finish)))
	}
	if x.ttft != 0 {
		attrs = append(attrs, semconv.GenAIResponseTimeToFirstChunk(x.ttft.Seconds()))
	}
	x.span.SetAttributes(append(attrs, usageAttributes(x.Usage)...)...)
}

// usageAttributes counts as the conventions do: the totals hold their parts.
func usageAttributes(u *llm.Usage) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	return []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.TotalInput())),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
		semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
		semconv.GenAIUsageOutputTokens(int(u.TotalOutput())),
		semconv.GenAIUsageReasoningOutputTokens(int(u.Reasoning)),
	}
}

// operation is the conventions' name for what an endpoint does; it is empty for
// an endpoint that asks no model.
func operation(endpoint string) string {
	switch endpoint {
	case "chat_completions", "responses", "messages":
		return "chat"
	case "generate_content", "stream_generate_content":
		return "generate_content"
	case "completions":
		return "text_completion"
	case "embeddings", "rerank":
		return endpoint
	}
	return ""
}
