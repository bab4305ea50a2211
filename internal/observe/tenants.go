package observe

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/isogloss-gateway/isogloss/llm"
)

// The values of Options.ByKey.
const (
	ByKeyOff = "off"
	ByKeyTop = "top"
	ByKeyAll = "all"
)

const (
	defaultTop = 100
	maxNamed   = 10_000 // values of a label with their own name, also with ByKeyAll
	maxTenants = 50_000 // label sets
	rankEvery  = time.Minute
)

// tenantKey holds the labels by which use is attributed.
type tenantKey struct{ org, team, key, model string }

// tenants counts spend, tokens and refusals by organisation, team, key and model.
type tenants struct {
	spend, tokens, refusals *prometheus.CounterVec

	mu     sync.Mutex
	values [4]ranking // of organisations, teams, keys and models
	series map[tenantKey]*tenantSeries
	ranked time.Time // when the rankings were last updated
}

// tenantLabels are the labels of the families, in the order of tenants.values.
var tenantLabels = [4]string{"org", "team", "key", "model"}

// newTenants returns nil if use is not counted by key.
func newTenants(byKey string, top int) *tenants {
	if byKey == ByKeyOff {
		return nil
	}
	top = min(cmp.Or(top, defaultTop), maxNamed)
	if byKey == ByKeyAll {
		top = maxNamed
	}
	labels := tenantLabels[:]
	t := &tenants{
		spend:    counter("spend_dollars_total", "Cost of requests by the ledger's prices.", labels...),
		tokens:   counter("usage_tokens_total", "Tokens that upstreams reported, in kinds that do not overlap.", slices.Concat(labels, []string{"kind"})...),
		refusals: counter("refusals_total", "Requests that the gateway refused: limits, budgets, scopes, overload.", slices.Concat(labels, []string{"reason"})...),
		series:   map[tenantKey]*tenantSeries{},
		ranked:   time.Now(),
	}
	for i := range t.values {
		t.values[i] = ranking{top: top, uses: map[string]*use{}}
	}
	return t
}

func (t *tenants) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.spend, t.tokens, t.refusals}
}

// tenantSeries holds the samples of one label set. They are created when they are first
// used.
type tenantSeries struct {
	spend  prometheus.Counter
	tokens [5]prometheus.Counter
}

// tokenKinds are the kinds of tokens, in the order of usageParts.
var tokenKinds = [5]string{"input", "cache_read", "cache_write", "output", "reasoning"}

func usageParts(u *llm.Usage) [5]int64 {
	return [5]int64{u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning}
}

// count attributes the use of an exchange.
func (t *tenants) count(x *Exchange, v verdict) {
	var parts [5]int64
	if x.Usage != nil {
		parts = usageParts(x.Usage)
	}
	weight := 1.0
	for _, n := range parts {
		weight += float64(max(n, 0))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.ranked) >= rankEvery {
		t.ranked = now
		t.rank()
	}
	k := tenantKey{t.values[0].name(x.Org, weight), t.values[1].name(x.Team, weight), t.values[2].name(x.Key, weight), t.values[3].name(x.Model, weight)}
	s := t.series[k]
	if s == nil {
		if len(t.series) >= maxTenants {
			k = tenantKey{other, other, other, other}
			s = t.series[k]
		}
		if s == nil {
			s = &tenantSeries{}
			t.series[k] = s
		}
	}
	t.add(s, k, x, parts)
	if reason := refusal(x, v); reason != "" {
		t.refusals.WithLabelValues(k.org, k.team, k.key, k.model, reason).Inc()
	}
}

func (t *tenants) add(s *tenantSeries, k tenantKey, x *Exchange, parts [5]int64) {
	if x.Cost != nil && *x.Cost > 0 {
		if s.spend == nil {
			s.spend = t.spend.WithLabelValues(k.org, k.team, k.key, k.model)
		}
		s.spend.Add(float64(*x.Cost) / 1e9)
	}
	for i, n := range parts {
		if n <= 0 {
			continue
		}
		if s.tokens[i] == nil {
			s.tokens[i] = t.tokens.WithLabelValues(k.org, k.team, k.key, k.model, tokenKinds[i])
		}
		s.tokens[i].Add(float64(n))
	}
}

// refusal returns why the gateway refused an exchange, or "" if it did not.
func refusal(x *Exchange, v verdict) string {
	if x.answered() {
		return ""
	}
	switch v.kind {
	case llm.RateLimit, llm.Quota, llm.Permission, llm.Authentication, llm.Overloaded:
		return string(v.kind)
	default:
		return ""
	}
}

// rank updates the rankings and removes the series of values that are no longer named.
// Their further use is counted as "other".
func (t *tenants) rank() {
	for i := range t.values {
		for _, value := range t.values[i].update() {
			labels := prometheus.Labels{tenantLabels[i]: value}
			for _, family := range []*prometheus.CounterVec{t.spend, t.tokens, t.refusals} {
				family.DeletePartialMatch(labels)
			}
			maps.DeleteFunc(t.series, func(k tenantKey, _ *tenantSeries) bool { return [4]string{k.org, k.team, k.key, k.model}[i] == value })
		}
	}
}

// ranking decides which values of a label are named: those with the most use.
type ranking struct {
	top   int
	named int
	uses  map[string]*use
}

// use is the recent use of a value.
type use struct {
	amount float64
	named  bool
}

// name returns the label for a value with new use: the value, or "other". A value is named
// at once while there is room, and later when update finds that its use is high.
func (r *ranking) name(value string, amount float64) string {
	if value == "" {
		return ""
	}
	u := r.uses[value]
	if u == nil {
		if len(r.uses) >= 2*maxNamed {
			return other
		}
		u = &use{}
		r.uses[value] = u
	}
	u.amount += amount
	if !u.named && r.named < r.top {
		u.named = true
		r.named++
	}
	if !u.named {
		return other
	}
	return valid(value)
}

// update lets old use fade with a half-life of about an hour and exchanges named values
// for others that are used more than twice as much. It returns those that lost their
// name.
func (r *ranking) update() (lost []string) {
	var named, rest []string
	for value, u := range r.uses {
		u.amount *= 0.99
		switch {
		case u.named:
			named = append(named, value)
		case u.amount < 0.5:
			delete(r.uses, value)
		default:
			rest = append(rest, value)
		}
	}
	byUse := func(a, b string) int {
		return cmp.Or(cmp.Compare(r.uses[a].amount, r.uses[b].amount), cmp.Compare(a, b))
	}
	slices.SortFunc(named, byUse)
	slices.SortFunc(rest, byUse)
	slices.Reverse(rest)
	for i := range min(len(named), len(rest)) {
		low, high := r.uses[named[i]], r.uses[rest[i]]
		if high.amount <= 2*low.amount {
			break
		}
		low.named, high.named = false, true
		lost = append(lost, named[i])
	}
	return lost
}
