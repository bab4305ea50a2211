package observe

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/isogloss-gateway/isogloss/llm"
)

const namespace = "isogloss"

// How many label values the metrics hold. Models, providers and pools come from the
// configuration and from discovery, and each pair of model and provider costs about
// eighty lines of a scrape. See [metrics.labels] for what stands in for the rest.
const (
	maxRoutes    = 256  // pairs of a model and a provider: the most used ones
	maxProviders = 256  // configured providers
	maxPools     = 128  // pools of discovered workers: the most used ones
	maxSeries    = 1024 // label sets of ended exchanges
	maxResults   = 24   // pairs of status and outcome in one such label set
	maxTargets   = 256  // targets with live state
	maxOut       = 64   // targets beyond them with a sample that says that they are out of service
)

// other is the label value that stands for all values beyond a maximum.
const other = "other"

// metrics holds the metric families and their registry.
type metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	inFlight       *prometheus.GaugeVec
	duration       *prometheus.HistogramVec
	firstToken     *prometheus.HistogramVec
	interToken     *prometheus.HistogramVec
	firstByte      *prometheus.HistogramVec
	tokens         *prometheus.CounterVec
	units          *prometheus.CounterVec
	upstreamErrors *prometheus.CounterVec
	cancels        *prometheus.CounterVec
	losses         *prometheus.CounterVec
	hedges         *prometheus.CounterVec
	hedgeTokens    *prometheus.CounterVec
	reloads        *prometheus.CounterVec
	bytes          *prometheus.CounterVec
	bytesIn        prometheus.Counter
	bytesOut       prometheus.Counter
	events         prometheus.Counter
	reloaded       prometheus.Gauge

	tenants *tenants // nil if use is not counted by key

	live   *liveMetrics
	stores *storeMetrics

	providers *cache[string, string]
	pools     *leaders[string, string]
	routes    *leaders[routeKey, *routeSeries]
	series    *cache[seriesKey, *series]
	ranked    atomic.Int64 // when pools and routes were last ranked, in Unix seconds
}

func newMetrics(o Options) *metrics {
	// From a fast local engine to a reasoning model behind a queue.
	waits := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120}
	gaps := []float64{.001, .0025, .005, .01, .02, .03, .05, .075, .1, .15, .25, .5, 1, 2.5, 5, 10}
	durations := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}

	m := &metrics{
		registry:       prometheus.NewRegistry(),
		requests:       counter("requests_total", "Exchanges that ended.", "model", "provider", "dialect", "endpoint", "stream", "status", "outcome"),
		inFlight:       gauge("requests_in_flight", "Exchanges that have a route and have not ended.", "model", "provider"),
		duration:       histogram("request_duration_seconds", "From the request to the end of the exchange.", durations, "model", "provider", "endpoint", "stream"),
		firstToken:     histogram("time_to_first_token_seconds", "From the request to the first event with content.", waits, "model", "provider"),
		interToken:     histogram("inter_token_latency_seconds", "Between two events with content.", gaps, "model", "provider"),
		firstByte:      histogram("upstream_first_byte_seconds", "From the start of an attempt to the upstream's answer headers.", waits, "model", "provider"),
		tokens:         counter("tokens_total", "Tokens that upstreams reported, in kinds that do not overlap.", "model", "provider", "kind"),
		units:          counter("units_total", "Amounts of other units that upstreams reported. Parts of tokens are in tokens_total too.", "model", "provider", "unit"),
		upstreamErrors: counter("upstream_errors_total", "Attempts that an upstream failed.", "provider", "kind"),
		cancels:        counter("cancels_total", "Exchanges whose client went away.", "model", "provider"),
		losses:         counter("losses_total", "Exchanges between dialects in which something could not be carried.", "model", "provider", "verdict"),
		hedges:         counter("hedges_total", "Exchanges for which two upstreams were asked at once, by the one that was given up and which was sooner.", "provider", "sooner"),
		hedgeTokens:    counter("hedge_lost_tokens_total", "Tokens that upstreams reported before they were given up for a sooner one.", "provider"),
		reloads:        counter("config_reloads_total", "Reloads of the configuration.", "result"),
		tenants:        newTenants(o.ByKey, o.Top),
		live:           newLiveMetrics(),
		stores:         newStoreMetrics(),
		bytes:          counter("bytes_total", "Body bytes exchanged with clients.", "direction"),
	}
	events := counter("stream_events_total", "Server-sent events passed to clients.")
	reloaded := gauge("config_last_reload_success_timestamp_seconds", "When the configuration in use was loaded.")
	build := gauge("build_info", "Always 1; the labels say what is running.", "version", "goversion")
	m.registry.MustRegister(
		m.requests, m.inFlight, m.duration, m.firstToken, m.interToken, m.firstByte, m.tokens, m.units,
		m.upstreamErrors, m.cancels, m.losses, m.hedges, m.hedgeTokens, m.reloads, m.bytes, events, reloaded, build, m.live, m.stores,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)

	if m.tenants != nil {
		m.registry.MustRegister(m.tenants.collectors()...)
	}

	m.bytesIn, m.bytesOut = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	m.events = events.WithLabelValues()
	m.reloaded = reloaded.WithLabelValues()
	m.reloaded.SetToCurrentTime()
	// rate() needs a zero before the first failure.
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("error")
	build.WithLabelValues(valid(o.Version), runtime.Version()).Set(1)

	same := func(name string) string { return name }
	m.providers = newCache(maxProviders, func(string) string { return other }, same)
	m.pools = newLeaders(maxPools, func(pool string) string { kind, _, _ := strings.Cut(pool, "/"); return kind }, same)
	m.routes = newLeaders(max(maxRoutes, o.Top), func(k routeKey) routeKey { return routeKey{other, k.provider} }, m.newRoute)
	m.series = newCache(maxSeries, func(k seriesKey) seriesKey {
		return seriesKey{model: other, provider: k.provider, dialect: other, endpoint: other}
	}, m.newSeries)
	m.ranked.Store(time.Now().Unix())
	return m
}

// labels returns the values of the labels model and provider. A provider with a
// slash in its name is a pool of discovered workers. Beyond its maximum
//
//   - a pair of model and provider is counted as "other" under its provider,
//   - a provider is counted as "other",
//   - a pool is counted as "other" under the part of its name before the slash.
//
// So neither many models nor many pools take the name away from a provider that is
// first used later. The most used pairs and pools have names; [metrics.rank] exchanges
// them.
func (m *metrics) labels(model, provider string) routeKey {
	if !strings.Contains(provider, "/") {
		return routeKey{model, m.providers.get(provider)}
	}
	if pool := m.pools.get(provider); pool != provider {
		return routeKey{other, pool}
	}
	return routeKey{model, provider}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// valid returns a label value that the registry accepts: it panics on invalid UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// add adds n if it is positive. A counter panics on a negative number, and some
// upstreams report them.
func add(c prometheus.Counter, n int64) {
	if n > 0 {
		c.Add(float64(n))
	}
}

// routeKey holds the labels of most families.
type routeKey struct{ model, provider string }

// routeSeries holds the samples of one pair of model and provider.
type routeSeries struct {
	routeKey
	gone       atomic.Bool // the pair has lost its name, and its samples are deleted
	inFlight   prometheus.Gauge
	firstToken prometheus.Observer
	interToken prometheus.Observer
	firstByte  prometheus.Observer
	cancels    prometheus.Counter

	tokens [llm.FieldCount]prometheus.Counter
	units  *prometheus.CounterVec // its samples are created when they are first used
}

func (m *metrics) newRoute(k routeKey) *routeSeries {
	k.model, k.provider = valid(k.model), valid(k.provider)
	r := &routeSeries{
		routeKey:   k,
		inFlight:   m.inFlight.WithLabelValues(k.model, k.provider),
		firstToken: m.firstToken.WithLabelValues(k.model, k.provider),
		interToken: m.interToken.WithLabelValues(k.model, k.provider),
		firstByte:  m.firstByte.WithLabelValues(k.model, k.provider),
		cancels:    m.cancels.WithLabelValues(k.model, k.provider),
		units:      m.units,
	}
	for i := range r.tokens {
		r.tokens[i] = m.tokens.WithLabelValues(k.model, k.provider, llm.Units()[i].Name)
	}
	return r
}

func (r *routeSeries) count(u *llm.Usage) {
	for i := range r.tokens {
		add(r.tokens[i], *u.At(i))
	}
	for i, n := range u.Other {
		if n > 0 {
			add(r.units.WithLabelValues(r.model, r.provider, llm.OtherUnits()[i].Name), n)
		}
	}
}

// rank exchanges, once a minute, the names of pairs and pools for those that are used
// more. The samples of a pair without a name are deleted, and its further use counts as
// "other". If it gets its name again, its counters start at 0, which Prometheus takes for
// a restart. So no counter decreases by anything but a reset to 0.
func (m *metrics) rank(now time.Time) {
	last := m.ranked.Load()
	if now.Unix()-last < int64(rankEvery/time.Second) || !m.ranked.CompareAndSwap(last, now.Unix()) {
		return
	}
	for _, pool := range m.pools.update() {
		for _, r := range m.routes.remove(func(k routeKey) bool { return k.provider == pool }) {
			m.drop(r)
		}
		for _, family := range []*prometheus.CounterVec{m.upstreamErrors, m.hedges, m.hedgeTokens} {
			family.DeletePartialMatch(prometheus.Labels{"provider": valid(pool)})
		}
	}
	for _, r := range m.routes.update() {
		m.drop(r)
	}
}

// drop deletes the samples of a pair of model and provider.
func (m *metrics) drop(r *routeSeries) {
	r.gone.Store(true)
	m.inFlight.DeleteLabelValues(r.model, r.provider)
	m.firstToken.DeleteLabelValues(r.model, r.provider)
	m.interToken.DeleteLabelValues(r.model, r.provider)
	m.firstByte.DeleteLabelValues(r.model, r.provider)
	m.cancels.DeleteLabelValues(r.model, r.provider)
	for _, u := range llm.Units() {
		m.tokens.DeleteLabelValues(r.model, r.provider, u.Name)
		m.units.DeleteLabelValues(r.model, r.provider, u.Name)
	}
	for _, verdict := range lossVerdicts {
		m.losses.DeleteLabelValues(r.model, r.provider, verdict)
	}
	for _, s := range m.series.remove(func(s *series) bool { return s.labels[0] == r.model && s.labels[1] == r.provider }) {
		m.duration.DeleteLabelValues(s.labels[0], s.labels[1], s.labels[3], s.labels[4])
		for _, result := range s.requests.keys() {
			m.requests.DeleteLabelValues(append(s.labels[:], strconv.Itoa(result.status), string(result.outcome))...)
		}
	}
}

// seriesKey holds the labels of ended exchanges.
type seriesKey struct {
	model, provider, dialect, endpoint string
	stream                             bool
}

// series holds the samples of ended exchanges.
type series struct {
	labels   [5]string // model, provider, dialect, endpoint, stream
	duration prometheus.Observer
	requests *cache[result, prometheus.Counter]
}

// result holds the labels of requests_total that are known only at the end.
type result struct {
	status  int
	outcome Outcome
}

func (m *metrics) newSeries(k seriesKey) *series {
	model, provider, dialect, endpoint := valid(k.model), valid(k.provider), valid(k.dialect), valid(k.endpoint)
	stream := strconv.FormatBool(k.stream)
	return &series{
		labels:   [5]string{model, provider, dialect, endpoint, stream},
		duration: m.duration.WithLabelValues(model, provider, endpoint, stream),
		requests: newCache(maxResults, func(result) result { return result{} }, func(r result) prometheus.Counter {
			return m.requests.WithLabelValues(model, provider, dialect, endpoint, stream, strconv.Itoa(r.status), string(r.outcome))
		}),
	}
}

// cache holds what build returns for a label set. It saves the vector's look-up,
// which hashes all labels and allocates.
type cache[K comparable, V any] struct {
	max      int
	overflow func(K) K // the key that stands for one beyond max
	build    func(K) V

	mu      sync.RWMutex
	entries map[K]V
}

func newCache[K comparable, V any](limit int, overflow func(K) K, build func(K) V) *cache[K, V] {
	return &cache[K, V]{max: limit, overflow: overflow, build: build, entries: map[K]V{}}
}

func (c *cache[K, V]) get(k K) V {
	c.mu.RLock()
	v, ok := c.entries[k]
	c.mu.RUnlock()
	if ok {
		return v
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= c.max {
		k = c.overflow(k)
	}
	if v, ok = c.entries[k]; ok {
		return v
	}
	v = c.build(k)
	c.entries[k] = v
	return v
}

// remove removes and returns some values.
func (c *cache[K, V]) remove(which func(V) bool) (lost []V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.entries {
		if which(v) {
			lost = append(lost, v)
			delete(c.entries, k)
		}
	}
	return lost
}

// keys returns the keys.
func (c *cache[K, V]) keys() []K {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Keys(c.entries))
}
