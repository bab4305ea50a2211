package observe

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Live is what is true at the moment of a scrape.
type Live struct {
	Targets []LiveTarget
	Open    int // requests in the gateway
	Waiting int // for a place in it
	// Refused counts the requests that were turned away, by reason.
	Refused map[string]uint64
}

// LiveTarget is one target that was asked before.
type LiveTarget struct {
	Target  string // provider/model
	Ready   bool   // it may be asked
	Open    int
	Waiting int   // for a place at it
	Limit   int   // of open requests; 0 is none
	Prompt  int64 // tokens that it has read, where its balance looks at them
	Cached  int64 // how many of them it had in its cache
}

// Watch makes the metrics tell what snapshot returns.
func (o *Observer) Watch(snapshot func() Live) { o.metrics.live.snapshot.Store(&snapshot) }

func newLiveMetrics() *liveMetrics {
	return &liveMetrics{
		ready:   liveDesc("target_ready", "Whether a target may be asked: 0 while it is ejected, cools down or refuses the credential.", "target"),
		open:    liveDesc("target_requests_open", "Requests that a target is busy with.", "target"),
		waiting: liveDesc("target_requests_waiting", "Requests that wait for a place at a target.", "target"),
		limit:   liveDesc("target_requests_limit", "How many requests a target may have open; 0 is no limit.", "target"),
		prompt:  liveDesc("target_prompt_tokens_total", "Prompt tokens of models that are balanced by cache, and whether they were cached.", "target", "cached"),
		process: liveDesc("requests_open", "Requests that have a place in the gateway.", "state"),
		refused: liveDesc("requests_refused_total", "Requests that were turned away for want of a place.", "reason"),
	}
}

// liveMetrics reads the gauges when they are asked for: keeping them up to date
// with each request would cost every request.
type liveMetrics struct {
	snapshot                                              atomic.Pointer[func() Live]
	ready, open, waiting, limit, prompt, process, refused *prometheus.Desc
}

func liveDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// Describe is for the registry.
func (m *liveMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.open, m.waiting, m.limit, m.prompt, m.process, m.refused} {
		to <- d
	}
}

// Collect is for the registry.
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
	for _, t := range live.Targets {
		ready := 0.0
		if t.Ready {
			ready = 1
		}
		gauge(m.ready, ready, t.Target)
		gauge(m.open, float64(t.Open), t.Target)
		gauge(m.waiting, float64(t.Waiting), t.Target)
		gauge(m.limit, float64(t.Limit), t.Target)
		if t.Prompt > 0 {
			counter(m.prompt, float64(t.Cached), t.Target, "true")
			counter(m.prompt, float64(t.Prompt-t.Cached), t.Target, "false")
		}
	}
}
