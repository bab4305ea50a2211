package observe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0" // the last version with the GenAI names
	"go.opentelemetry.io/otel/trace"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/llm"
)

// attrExchangeID links a span to its log line.
const attrExchangeID = attribute.Key("isogloss.exchange.id")

// tracing creates and sends spans.
type tracing struct {
	sender sdktrace.SpanProcessor
	tracer trace.Tracer
}

// newTracing returns nil if no collector is configured.
func newTracing(o Options, logger *slog.Logger) (*tracing, error) {
	if o.Traces == nil {
		return nil, nil
	}
	if !(o.TraceSample >= 0 && o.TraceSample <= 1) { // false for NaN, too
		return nil, fmt.Errorf("trace sample %v is not a share; write a number from 0 to 1", o.TraceSample)
	}
	described, err := newResource(o.Version)
	if err != nil {
		return nil, err
	}
	sender := sdktrace.NewBatchSpanProcessor(loggedExporter{o.Traces, logger})
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(sender),
		sdktrace.WithResource(described),
		// Whether an exchange is unusual is known at its end, so all are recorded. A client that
		// does not sample its trace is followed.
		sdktrace.WithSampler(sdktrace.ParentBased(orRecord{sdktrace.TraceIDRatioBased(o.TraceSample)}, sdktrace.WithLocalParentNotSampled(recordOnly{}))))
	tracer := provider.Tracer(scope,
		trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(semconv.SchemaURL))
	return &tracing{sender: sender, tracer: tracer}, nil
}

// loggedExporter logs failed exports; the SDK would report them through a global.
type loggedExporter struct {
	sdktrace.SpanExporter
	logger *slog.Logger
}

// ExportSpans sends spans. It does not log the collector's response, which may echo the
// credentials.
func (e loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		reason, _, _ := strings.Cut(err.Error(), "body:")
		e.logger.Warn("traces not exported", "spans", len(spans), attrError, cut(reason, maxText))
	}
	return nil
}

// parent gives the propagator the client's traceparent and no tracestate, which is free
// text and would be forwarded.
type parent struct{ propagation.HeaderCarrier }

// Get returns the traceparent, and nothing for other names.
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
	_, x.attempt = x.observer.tracing.tracer.Start(ctx, x.endpoint, trace.WithSpanKind(trace.SpanKindClient))
}

// Inject sets the traceparent of the upstream request, if tracing is on.
func (x *Exchange) Inject(h http.Header) {
	span := x.attempt
	if span == nil {
		span = x.span
	}
	if span == nil {
		return
	}
	h.Del("tracestate") // it belongs to the client's parent
	ctx := trace.ContextWithSpan(context.Background(), span)
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// endAttempt ends the span of the attempt; kind is empty on success. The span has no
// operation and no usage: a reader of GenAI spans would count the exchange twice.
func (x *Exchange) endAttempt(kind llm.Kind) {
	if x.attempt == nil {
		return
	}
	if x.attempt.IsRecording() {
		provider := valid(x.named.provider)
		_, model, _ := strings.Cut(x.target, "/")
		x.attempt.SetName("upstream " + provider)
		x.attempt.SetAttributes(
			semconv.GenAIProviderNameKey.String(provider),
			semconv.GenAIRequestModel(cut(model, maxName)))
		setResult(x.attempt, x.status, kind)
		if kind != "" {
			x.attempt.SetStatus(codes.Error, "")
		}
	}
	x.keepSpan(x.attempt)
	x.attempt = nil
}

// endSpans ends the spans of the attempt and of the exchange. Those of an unusual exchange
// are sent, whatever the sample is.
func (x *Exchange) endSpans(v verdict, c class) {
	x.endAttempt(v.kind)
	if x.span.IsRecording() && (c == unusual || x.span.SpanContext().IsSampled()) {
		if x.Operation != "" {
			x.describeSpan(x.Operation)
		}
		x.span.SetAttributes(attrExchangeID.String(cut(x.id, maxName)))
		setResult(x.span, v.status, v.kind)
		// By the HTTP convention a client error is not an error of the server span.
		if v.outcome == UpstreamError || v.outcome == GatewayError {
			x.span.SetStatus(codes.Error, "")
		}
	}
	x.keepSpan(x.span)
	if c == unusual {
		x.sendRecorded()
	}
}

func setResult(span trace.Span, status int, kind llm.Kind) {
	if status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
	if kind != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(kind)))
	}
}

// describeSpan sets the name and the GenAI attributes of the exchange's span.
func (x *Exchange) describeSpan(op string) {
	attrs := []attribute.KeyValue{semconv.GenAIOperationNameKey.String(op), semconv.GenAIRequestStream(x.Stream)}
	route := routeKey{valid(x.named.model), valid(x.named.provider)}
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
		attrs = append(attrs, semconv.GenAIResponseModel(plain.Word(x.ResponseModel)))
	}
	if x.Finish != "" {
		attrs = append(attrs, semconv.GenAIResponseFinishReasons(plain.Word(x.Finish)))
	}
	if x.ttft != 0 {
		attrs = append(attrs, semconv.GenAIResponseTimeToFirstChunk(x.ttft.Seconds()))
	}
	x.span.SetAttributes(append(attrs, usageAttributes(x.Usage)...)...)
}

// usageAttributes returns the token counts by the GenAI conventions: totals include
// their parts.
func usageAttributes(u *llm.Usage) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	attrs := []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(u.TotalInput())),
		semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)),
		semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)),
		semconv.GenAIUsageOutputTokens(int(u.TotalOutput())),
		semconv.GenAIUsageReasoningOutputTokens(int(u.Reasoning)),
	}
	for i, n := range u.Other {
		if n != 0 {
			attrs = append(attrs, attribute.Int64("isogloss.usage."+llm.OtherUnits()[i].Name, n))
		}
	}
	return attrs
}
