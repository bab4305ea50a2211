package observe

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Exchange observes one request and its response: events as they happen, and at the end its
// Facts. It decides nothing. One goroutine calls its methods.
type Exchange struct {
	Facts
	id       string // the request id that the client receives
	endpoint string // a name from the gateway's own list: chat_completions, embeddings, path
	dialect  string // the client's protocol

	observer  *Observer
	span      trace.Span // nil without tracing
	attempt   trace.Span // the span of the attempt; nil without one
	start     time.Time
	attempted time.Time // start of the attempt
	last      time.Time // the last event with content
	firstByte time.Duration
	ttft      time.Duration
	recorded  []sdktrace.ReadOnlySpan

	route    *routeSeries
	named    routeKey // the model and the provider as they are named, for the log and the spans
	target   string   // provider/model of the attempt
	status   int      // of the upstream's response to the attempt
	answered bool     // an upstream responded, in this attempt or an earlier one
	failed   []string // the failed attempts for the log line
	hedge    string   // the winner of two hedged attempts: "first" or "second"; empty without a hedge
	running  bool     // an attempt is in progress
	ended    bool
}

// Facts are what is known of an exchange when it ends.
type Facts struct {
	// Operation is the gen_ai.operation.name of the exchange's span. Empty: the span has
	// no attributes of the GenAI conventions.
	Operation string

	Client string // the client's IP address, without port
	Key    string // the id of the client's key, not the key; empty for keys of the configuration file
	Team   string // of the key
	Org    string // of the key
	Model  string // the name of the route, or the pattern of a wildcard route; empty if none matched

	Requested string // the model name as the client sent it; logged, never a label
	Target    string // provider/model of the last attempt

	Stream           bool   // the client requested a stream
	UpstreamStream   bool   // the upstream request has stream set
	Status           int    // of the response; 0: that of Err, or nothing was sent
	UpstreamID       string // the upstream's id for the request
	UpstreamProtocol string // the protocol of the last attempt
	ResponseModel    string // the model that the upstream reports
	Attempts         int
	Continued        int    // how often a stream that broke off was continued
	Fidelity         string // what the translation lost
	Recalled         string // "hit" if the response comes from the cache, "replay" if from an Idempotency-Key

	Finish string     // the finish reason on the wire
	Usage  *llm.Usage // nil if none was reported
	Cost   *int64     // billionths of a dollar; nil if unknown or not counted
	Err    *llm.Error // nil if the exchange succeeded

	BytesIn  int64 // of the request's body
	BytesOut int64 // of the response's body
	Events   int64 // server-sent events sent to the client

	IgnoredTags int // tags of the request that the ledger does not take
}

// Begin starts an exchange. A W3C traceparent in header becomes the parent of its
// trace; no other header is read. The returned context is ctx with the identity of the
// trace.
func (o *Observer) Begin(ctx context.Context, id, endpoint, dialect string, header http.Header) (context.Context, *Exchange) {
	x := &Exchange{id: id, endpoint: endpoint, dialect: dialect, observer: o, start: time.Now()}
	if o.tracing != nil {
		ctx, x.span = o.tracing.begin(ctx, endpoint, header)
	}
	return ctx, x
}

// Route starts an attempt and counts the exchange as in flight. The first two values become
// labels: model is the name of the route (for a wildcard route the pattern), never the
// client's text; provider is the name of the provider, or the pool of a discovered worker.
// target is provider/model.
func (x *Exchange) Route(model, provider, target string) {
	if x.ended {
		return
	}
	m := x.observer.metrics
	route := m.routes.get(m.labels(model, provider))
	if x.route != nil {
		x.route.inFlight.Dec()
	}
	route.inFlight.Inc()
	x.route, x.named, x.target, x.running = route, routeKey{model, provider}, target, true
	x.status, x.firstByte = 0, 0
	x.attempted = time.Now()
	x.beginAttempt()
}

// maxFailed limits the failed attempts of the log line.
const maxFailed = 16

// Failed ends a failed attempt, whether or not another one follows.
func (x *Exchange) Failed(err *llm.Error) {
	if !x.running {
		return
	}
	x.running = false
	kind := known(err.Kind)
	if len(x.failed) < maxFailed {
		x.failed = append(x.failed, x.failure(err))
	}
	if kind != llm.Cancelled {
		label := string(kind)
		if err.Code == llm.ModelMissing {
			label = llm.ModelMissing
		}
		x.observer.metrics.upstreamErrors.WithLabelValues(x.counted().provider, label).Inc()
	}
	x.endAttempt(kind)
}

// Responded records the status of the upstream's response to the attempt and when its headers arrived.
func (x *Exchange) Responded(status int, t time.Time) {
	x.status, x.answered = status, true
	if x.route == nil {
		return
	}
	x.firstByte = t.Sub(x.attempted)
	x.route.firstByte.Observe(x.firstByte.Seconds())
}

// Token records an event with content. The first call gives the time to first token,
// each later one a latency between tokens.
func (x *Exchange) Token(t time.Time) {
	if x.route == nil {
		return
	}
	if x.last.IsZero() {
		x.ttft = t.Sub(x.start)
		x.route.firstToken.Observe(x.ttft.Seconds())
	} else {
		x.route.interToken.Observe(t.Sub(x.last).Seconds())
	}
	x.last = t
}

// Trace returns the id of the exchange's trace; empty if it is not recorded.
func (x *Exchange) Trace() string {
	if x.span == nil || !x.span.SpanContext().IsSampled() {
		return ""
	}
	return x.span.SpanContext().TraceID().String()
}

// Began returns when the request arrived.
func (x *Exchange) Began() time.Time { return x.start }

// Hedged records that two upstreams were tried at once and one attempt was
// cancelled. loser is the provider or pool of the cancelled attempt, and usage what
// it reported: metrics count it separately, and the client does not pay for it.
func (x *Exchange) Hedged(loser, result string, usage *llm.Usage) {
	x.hedge = result
	m := x.observer.metrics
	provider := valid(m.labels("", loser).provider)
	m.hedges.WithLabelValues(provider, result).Inc()
	if usage != nil {
		m.hedgeTokens.WithLabelValues(provider).Add(float64(usage.TotalInput() + usage.TotalOutput()))
	}
}

// End counts, logs and traces the exchange with its Facts. Only the first call has an
// effect. An exchange without Status and Err counts as a gateway error.
func (x *Exchange) End() {
	if x.ended {
		return
	}
	x.ended = true
	if x.route != nil {
		x.route.inFlight.Dec()
	}
	now := time.Now()
	x.observer.metrics.rank(now)
	v := judge(x.Status, x.status, x.answered, x.Err)
	x.count(v, now.Sub(x.start))
	class := x.classify(v, now.Sub(x.start))
	if x.span != nil {
		x.endSpans(v, class)
	}
	if x.observer.sampler.allow(class, now) {
		x.log(v, now)
	}
	x.observer.sampler.report(x.observer.logger, now, false)
}

// counted returns the samples of the exchange's route, or those that stand for it after it
// has lost its name; nil without a route.
func (x *Exchange) counted() *routeSeries {
	if x.route == nil || !x.route.gone.Load() {
		return x.route
	}
	m, provider := x.observer.metrics, x.named.provider
	if strings.Contains(provider, "/") {
		provider = m.pools.instead(provider)
	} else {
		provider = m.providers.get(provider)
	}
	return m.routes.instead(routeKey{other, provider})
}

func (x *Exchange) count(v verdict, took time.Duration) {
	m := x.observer.metrics
	var route routeKey
	counted := x.counted()
	if counted != nil {
		route = counted.routeKey
	}
	s := m.series.get(seriesKey{route.model, route.provider, x.dialect, x.endpoint, x.Stream})
	s.requests.get(result{v.status, v.outcome}).Inc()
	s.duration.Observe(took.Seconds())
	if counted != nil && x.Usage != nil {
		counted.count(x.Usage)
	}
	if v.outcome == UpstreamError && x.running {
		m.upstreamErrors.WithLabelValues(route.provider, string(v.kind)).Inc()
	}
	if v.outcome == Cancelled {
		m.cancels.WithLabelValues(route.model, route.provider).Inc()
	}
	if verdict, _, _ := strings.Cut(x.Fidelity, ";"); slices.Contains(lossVerdicts[:], verdict) {
		m.losses.WithLabelValues(route.model, route.provider, verdict).Inc()
	}
	if m.tenants != nil {
		m.tenants.count(x, v)
	}
	add(m.bytesIn, x.BytesIn)
	add(m.bytesOut, x.BytesOut)
	add(m.events, x.Events)
}
