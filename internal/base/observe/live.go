package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Live is the state of the gateway at the time of a scrape.
type Live struct {
	Targets []LiveTarget
	Open    int // requests with a slot of the gateway
	Waiting int // requests in its queue
	// Refused counts the refused requests by reason.
	Refused map[string]uint64
}

// LiveTarget is the state of one target, or of all discovered workers of a model.
type LiveTarget struct {
	Target  string // provider/model, or the pool of discovered workers
	Ready   bool   // the target, or one of the workers, may be tried
	Open    int    // requests in flight
	Waiting int    // requests in its queue
	Limit   int    // of open requests; 0 is none
	Prompt  int64  // prompt tokens, where the model has balance: cache
	Cached  int64  // those of them that came from the target's cache
	// RateLimits has what remains of the upstream's rate limits, one for each unit.
	RateLimits []RateLimit
}

// RateLimit is what remains of a rate limit of an upstream.
type RateLimit struct {
	Unit             string // "requests" or "tokens"
	Remaining, Limit float64
}

// AddRateLimit adds a rate limit to that of the same unit.
func (t *LiveTarget) AddRateLimit(l RateLimit) {
	for i := range t.RateLimits {
		if t.RateLimits[i].Unit == l.Unit {
			t.RateLimits[i].Remaining += l.Remaining
			t.RateLimits[i].Limit += l.Limit
			return
		}
	}
	t.RateLimits = append(t.RateLimits, l)
}

// add sums up two targets under the name of the first.
func (t *LiveTarget) add(o LiveTarget) {
	t.Ready = t.Ready || o.Ready
	t.Open += o.Open
	t.Waiting += o.Waiting
	t.Limit += o.Limit
	t.Prompt += o.Prompt
	t.Cached += o.Cached
	for _, l := range o.RateLimits {
		t.AddRateLimit(l)
	}
}

// bounded returns at most maxTargets targets. The last one sums up the rest.
func bounded(list []LiveTarget) []LiveTarget {
	if len(list) <= maxTargets {
		return list
	}
	rest := LiveTarget{Target: other}
	for _, t := range list[maxTargets-1:] {
		rest.add(t)
	}
	return append(list[:maxTargets-1:maxTargets-1], rest)
}

// hiddenOut returns the targets out of service that have no series of their own: an alert must
// name them.
func hiddenOut(list []LiveTarget) (names []string) {
	if len(list) <= maxTargets {
		return nil
	}
	for _, t := range list[maxTargets-1:] {
		if !t.Ready && len(names) < maxOut {
			names = append(names, t.Target)
		}
	}
	return names
}

// Watch sets the function that returns the state for the metrics.
func (o *Observer) Watch(snapshot func() Live) { o.metrics.live.snapshot.Store(&snapshot) }

func newLiveMetrics() *liveMetrics {
	return &liveMetrics{
		ready:         liveDesc("target_ready", "Whether a target may be tried: 0 while it is ejected, cools down or refuses the credential.", "target"),
		open:          liveDesc("target_requests_open", "Open requests of a target.", "target"),
		waiting:       liveDesc("target_requests_waiting", "Requests that wait for a slot of a target.", "target"),
		limit:         liveDesc("target_requests_limit", "Limit of open requests of a target; 0 is no limit.", "target"),
		prompt:        liveDesc("target_prompt_tokens_total", "Prompt tokens of models that are balanced by cache, and whether they were cached.", "target", "cached"),
		rateLimit:     liveDesc("target_rate_limit", "Rate limit of a target, as its upstream last said it.", "target", "unit"),
		rateRemaining: liveDesc("target_rate_limit_remaining", "What remains of the rate limit of a target, as its upstream last said it.", "target", "unit"),
		process:       liveDesc("requests_open", "Requests in the gateway.", "state"),
		refused:       liveDesc("requests_refused_total", "Refused requests.", "reason"),
	}
}

// liveMetrics reads the gauges at each scrape: updating them with each request would
// cost every request.
type liveMetrics struct {
	snapshot                                              atomic.Pointer[func() Live]
	ready, open, waiting, limit, prompt, process, refused *prometheus.Desc
	rateLimit, rateRemaining                              *prometheus.Desc
}

func liveDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m *liveMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.open, m.waiting, m.limit, m.prompt, m.process, m.refused, m.rateLimit, m.rateRemaining} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *liveMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	snapshot := m.snapshot.Load()
	if snapshot == nil {
		return
	}
	live := (*snapshot)()
	gauge(m.process, float64(live.Open), "open")
	gauge(m.process, float64(live.Waiting), "waiting")
	for reason, n := range live.Refused {
		counter(m.refused, float64(n), reason)
	}
	for _, name := range hiddenOut(live.Targets) {
		gauge(m.ready, 0, name)
	}
	for _, t := range bounded(live.Targets) {
		gauge(m.ready, truth(t.Ready), t.Target)
		gauge(m.open, float64(t.Open), t.Target)
		gauge(m.waiting, float64(t.Waiting), t.Target)
		gauge(m.limit, float64(t.Limit), t.Target)
		for _, l := range t.RateLimits {
			gauge(m.rateRemaining, l.Remaining, t.Target, l.Unit)
			if l.Limit > 0 {
				gauge(m.rateLimit, l.Limit, t.Target, l.Unit)
			}
		}
		if t.Prompt > 0 {
			counter(m.prompt, float64(t.Cached), t.Target, "true")
			counter(m.prompt, float64(t.Prompt-t.Cached), t.Target, "false")
		}
	}
}
