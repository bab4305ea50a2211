package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	burstSeconds  = 10               // of the rate that may be logged at once
	clientRate    = 10               // lines of clients' errors for each line of an ordinary exchange
	reportEvery   = 10 * time.Second // at which lines that were not written are reported
	suppressedMsg = "exchanges not logged"
)

// class says how much an operator needs the log line and the trace of an exchange.
type class int

const (
	ordinary class = iota // the exchange succeeded at the first attempt and was not slow
	byClient              // it failed because of the client, who may repeat it at any rate
	unusual               // it failed, was slow, or needed more than one attempt: always logged and traced
)

// classify decides at the end of an exchange.
func (x *Exchange) classify(v verdict, took time.Duration) class {
	wait := took
	if x.ttft != 0 {
		wait = x.ttft
	}
	slow := x.observer.slow
	switch {
	case v.outcome == UpstreamError || v.outcome == GatewayError,
		len(x.failed) > 0, x.Attempts > 1, x.Continued > 0, x.hedge != "",
		slow > 0 && wait >= slow:
		return unusual
	case v.outcome != OK:
		return byClient
	}
	return ordinary
}

// sampler bounds the log lines of exchanges. Lines of a class beyond its rate are counted
// and not written.
type sampler struct {
	rate    float64 // lines of ordinary exchanges per second; 0: no bound
	counter [unusual]prometheus.Counter

	mu       sync.Mutex
	room     [unusual]float64 // lines that may be written now
	filled   time.Time        // when room was last computed
	skipped  [unusual]int64   // since the last report
	reported time.Time
}

// newSampler returns a sampler and its metric.
func newSampler(rate int) (*sampler, prometheus.Collector) {
	counts := counter("log_suppressed_total", "Exchanges without a log line, because lines were written at the maximum rate.", "class")
	s := &sampler{rate: float64(rate), filled: time.Now(), reported: time.Now()}
	for c, name := range [unusual]string{"ordinary", "client"} {
		s.counter[c] = counts.WithLabelValues(name)
		s.room[c] = burstSeconds * s.perSecond(class(c))
	}
	return s, counts
}

// perSecond returns the rate of a class.
func (s *sampler) perSecond(c class) float64 {
	if c == byClient {
		return clientRate * s.rate
	}
	return s.rate
}

// allow says whether the line of an exchange is written.
func (s *sampler) allow(c class, now time.Time) bool {
	if s.rate == 0 || c == unusual {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := max(0, now.Sub(s.filled).Seconds())
	s.filled = now
	for c := range s.room {
		perSecond := s.perSecond(class(c))
		s.room[c] = min(s.room[c]+passed*perSecond, burstSeconds*perSecond)
	}
	if s.room[c] >= 1 {
		s.room[c]--
		return true
	}
	s.skipped[c]++
	s.counter[c].Inc()
	return false
}

// report logs how many lines were not written since the last report.
func (s *sampler) report(logger *slog.Logger, now time.Time, last bool) {
	if s.rate == 0 {
		return
	}
	s.mu.Lock()
	skipped := s.skipped
	due := skipped != [unusual]int64{} && (last || now.Sub(s.reported) >= reportEvery)
	if due {
		s.skipped, s.reported = [unusual]int64{}, now
	}
	s.mu.Unlock()
	if due {
		logger.Info(suppressedMsg, "ordinary", skipped[ordinary], "client_errors", skipped[byClient])
	}
}

// recordOnly is a sampler of spans that are recorded and, as a rule, not sent.
type recordOnly struct{}

// ShouldSample implements sdktrace.Sampler.
func (recordOnly) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	return sdktrace.SamplingResult{Decision: sdktrace.RecordOnly, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (recordOnly) Description() string { return "RecordOnly" }

// orRecord is a sampler around another one. It records the traces that the other drops.
type orRecord struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (s orRecord) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := s.Sampler.ShouldSample(p)
	if r.Decision == sdktrace.Drop {
		r.Decision = sdktrace.RecordOnly
	}
	return r
}

// sampledSpan is a recorded span that is sent after all.
type sampledSpan struct{ sdktrace.ReadOnlySpan }

// SpanContext returns the context of a sampled span.
func (s sampledSpan) SpanContext() trace.SpanContext {
	c := s.ReadOnlySpan.SpanContext()
	return c.WithTraceFlags(c.TraceFlags().WithSampled(true))
}

// keepSpan ends a span. If the exchange turns out to be unusual, a span that is only
// recorded is sent at its end.
func (x *Exchange) keepSpan(s trace.Span) {
	s.End()
	if span, ok := s.(sdktrace.ReadOnlySpan); ok && !span.SpanContext().IsSampled() {
		x.recorded = append(x.recorded, span)
	}
}

// sendRecorded sends the spans that were only recorded.
func (x *Exchange) sendRecorded() {
	for _, s := range x.recorded {
		x.observer.tracing.sender.OnEnd(sampledSpan{s})
	}
	x.recorded = nil
}

// flushLog reports the lines that were not written.
func (o *Observer) flushLog(context.Context) error {
	o.sampler.report(o.logger, time.Now(), true)
	return nil
}
