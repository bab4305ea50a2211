package observe

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Exchange gathers what is known of one request and its answer. One goroutine
// sets the fields and calls the methods; End alone may come from any.
type Exchange struct {
	ID       string // the request's id, as the client is told
	Endpoint string // a name from the gateway's own list: chat_completions, embeddings, path
	Dialect  string // the client's protocol
	Key      string // the id of the client's key, which opens nothing; empty for keys of the configuration file

	Requested string // the model name as the client sent it; only ever logged
	Target    string // provider/model of the attempt

	Stream           bool   // the client asked for a stream
	UpstreamStream   bool   // the upstream was asked for one
	Status           int    // as answered; 0 means the error's own, or that nothing was answered
	UpstreamStatus   int    // as the upstream answered the attempt; set it before Err is taken from that answer
	UpstreamID       string // the upstream's id for the request
	UpstreamProtocol string // the protocol of the attempt
	ResponseModel    string // the model that the upstream says has answered
	Attempts         int
	Continued        int    // how often a stream that broke off was taken up again
	Hedge            string // which of two upstreams that were asked at once was sooner: "first", "second"; empty where one was asked
	Fidelity         string // what could not be carried over
	Recalled         string // where the answer is an earlier one: "hit" of the cache, "replay" of an Idempotency-Key

	Finish string     // the finish reason on the wire
	Usage  *llm.Usage // nil where none was reported
	Cost   *int64     // billionths of a dollar; nil where it is not known or not counted
	Err    *llm.Error // nil where all went well

	BytesIn  int64 // of the request's body
	BytesOut int64 // of the answer's body
	Events   int64 // server-sent events passed on

	observer  *Observer
	span      trace.Span // nil without tracing
	attempt   trace.Span // the upstream's side; nil without tracing or attempt
	start     time.Time
	attempted time.Time // start of the attempt
	last      time.Time // the last event with content
	firstByte time.Duration
	ttft      time.Duration
	heard     bool // an upstream answered, in this attempt or an earlier one

	mu      sync.Mutex // keeps the gauge right when End comes from elsewhere
	route   *routeSeries
	running bool // an attempt has neither failed nor ended
	ended   bool
}

// Begin opens an exchange. A W3C traceparent in header is the parent of its
// trace; nothing else is read from the header. The context that is returned
// carries the trace's identity and is otherwise ctx.
func (o *Observer) Begin(ctx context.Context, id, endpoint, dialect string, header http.Header) (context.Context, *Exchange) {
	x := &Exchange{ID: id, Endpoint: endpoint, Dialect: dialect, observer: o, start: time.Now()}
	if o.tracing != nil {
		ctx, x.span = o.tracing.begin(ctx, endpoint, header)
	}
	return ctx, x
}

// Route begins an attempt, counts the exchange as in flight and forgets what an
// earlier attempt was answered. Both values become labels: model is the name of
// the route, for a wildcard route its pattern, and never the client's text;
// provider is the operator's name for it.
func (x *Exchange) Route(model, provider string) {
	route := x.observer.metrics.routes.get(routeKey{model, provider})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	if x.route != nil { // what was known of the last attempt is not true of this one
		x.route.inFlight.Dec()
		x.heard = x.answered()
		x.UpstreamStatus, x.UpstreamID, x.ResponseModel, x.firstByte = 0, "", "", 0
	}
	route.inFlight.Inc()
	x.route, x.running = route, true
	x.attempted = time.Now()
	x.beginAttempt()
}

// Failed ends an attempt that an upstream failed, whether or not another one
// follows. It does not set Err.
func (x *Exchange) Failed(kind llm.Kind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.running {
		return
	}
	x.running = false
	kind = known(kind)
	if kind != llm.Cancelled {
		x.observer.metrics.upstreamErrors.WithLabelValues(x.route.provider, string(kind)).Inc()
	}
	x.endAttempt(kind)
}

// FirstByte notes when the answer's headers came.
func (x *Exchange) FirstByte(t time.Time) {
	x.heard = true
	if x.route == nil {
		return
	}
	x.firstByte = t.Sub(x.attempted)
	x.route.firstByte.Observe(x.firstByte.Seconds())
}

// Token notes that an event with content passed. The first call gives the time
// to the first token, each later one a latency between tokens.
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

// Began is when the request came.
func (x *Exchange) Began() time.Time { return x.start }

// FirstToken is when the first event with content passed; zero where none did.
func (x *Exchange) FirstToken() time.Time {
	if x.last.IsZero() {
		return time.Time{}
	}
	return x.start.Add(x.ttft)
}

// Hedged notes that two upstreams were asked at once and one was given up. What
// the loser has cost is counted apart: the client does not pay for it.
func (x *Exchange) Hedged(loser, result string, usage *llm.Usage) {
	x.Hedge = result
	m := x.observer.metrics
	m.hedges.WithLabelValues(loser, result).Inc()
	if usage != nil {
		m.hedgeTokens.WithLabelValues(loser).Add(float64(usage.Input + usage.CacheRead + usage.CacheWrite + usage.Output + usage.Reasoning))
	}
}

// End counts, logs and traces the exchange. Only the first call does anything. A
// handler that recovers from a panic in mid-answer sets Err first; one that
// panicked before Status was set is counted as a fault of the gateway.
func (x *Exchange) End() {
	running, ok := x.close()
	if !ok {
		return
	}
	now := time.Now()
	v := judge(x.Status, x.UpstreamStatus, x.answered(), x.Err)
	x.count(v, running, now.Sub(x.start))
	if x.span != nil {
		x.endSpans(v)
	}
	x.log(v, now)
}

// close takes the exchange out of the gauge, once.
func (x *Exchange) close() (running, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return false, false
	}
	x.ended = true
	if x.route != nil {
		x.route.inFlight.Dec()
	}
	return x.running, true
}

func (x *Exchange) answered() bool { return x.heard || x.UpstreamStatus != 0 }

// labels are the route's, or empty where the request never got one.
func (x *Exchange) labels() routeKey {
	if x.route == nil {
		return routeKey{}
	}
	return x.route.routeKey
}

func (x *Exchange) count(v verdict, running bool, took time.Duration) {
	m, route := x.observer.metrics, x.labels()
	s := m.series.get(seriesKey{route.model, route.provider, x.Dialect, x.Endpoint, x.Stream})
	s.requests.get(result{v.status, v.outcome}).Inc()
	s.duration.Observe(took.Seconds())
	if x.route != nil && x.Usage != nil {
		x.route.count(x.Usage)
	}
	if v.outcome == UpstreamError && running {
		m.upstreamErrors.WithLabelValues(route.provider, string(v.kind)).Inc()
	}
	if v.outcome == Cancelled {
		m.routes.get(route).cancels.Inc()
	}
	if verdict, _, _ := strings.Cut(x.Fidelity, ";"); verdict == "approximated" || verdict == "dropped" || verdict == "refused" {
		m.losses.WithLabelValues(route.model, route.provider, verdict).Inc()
	}
	add(m.bytesIn, x.BytesIn)
	add(m.bytesOut, x.BytesOut)
	add(m.events, x.Events)
}
