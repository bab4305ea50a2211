package observe

import (
	"cmp"
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
	maxNamed   = 10_000    // values of a label with their own name, also with ByKeyAll
	maxTenants = 50_000    // label sets with a model's name
	setsPerTop = 10        // such label sets for each value with a name
	idleSet    = time.Hour // after which a label set makes room for another
)

// tenantKey holds the labels by which use is attributed.
type tenantKey struct{ org, team, key, model string }

// tenants counts spend, tokens and refusals by organisation, team, key and model.
type tenants struct {
	spend, tokens, units, refusals *prometheus.CounterVec

	mu     sync.Mutex
	values [4]ranking[string] // of organisations, teams, keys and models
	sets   int                // label sets with a model's name
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
		units:    counter("usage_units_total", "Amounts of other units that upstreams reported. Parts of tokens are in usage_tokens_total too.", slices.Concat(labels, []string{"unit"})...),
		refusals: counter("refusals_total", "Requests that the gateway refused: limits, budgets, scopes, overload.", slices.Concat(labels, []string{"reason"})...),
		sets:     min(setsPerTop*top, maxTenants),
		series:   map[tenantKey]*tenantSeries{},
		ranked:   time.Now(),
	}
	for i := range t.values {
		t.values[i] = newRanking[string](top)
	}
	return t
}

func (t *tenants) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.spend, t.tokens, t.units, t.refusals}
}

// tenantSeries holds the samples of one label set. They are created when they are first
// used.
type tenantSeries struct {
	used   time.Time
	spend  prometheus.Counter
	tokens [llm.FieldCount]prometheus.Counter
}

// refusalKinds are the kinds of errors with which the gateway refuses a request.
var refusalKinds = [...]llm.Kind{llm.RateLimit, llm.Quota, llm.Permission, llm.Authentication, llm.Overloaded}

// count attributes the use of an exchange.
func (t *tenants) count(x *Exchange, v verdict) {
	var u llm.Usage
	if x.Usage != nil {
		u = *x.Usage
	}
	weight := int64(1)
	for i := range llm.FieldCount {
		weight += max(*u.At(i), 0)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.ranked) >= rankEvery {
		t.ranked = now
		t.rank(now)
	}
	k, s := t.set(tenantKey{t.name(0, x.Org, weight), t.name(1, x.Team, weight), t.name(2, x.Key, weight), t.name(3, x.Model, weight)})
	s.used = now
	t.add(s, k, x, &u)
	if reason := refusal(x, v); reason != "" {
		t.refusals.WithLabelValues(k.org, k.team, k.key, k.model, reason).Inc()
	}
}

// name returns the label for a value with new use: the value, or "other".
func (t *tenants) name(label int, value string, weight int64) string {
	switch {
	case value == "":
		return ""
	case t.values[label].add(value, weight).named:
		return valid(value)
	}
	return other
}

// set returns the samples of a label set. The combinations of four labels are many more
// than their values: beyond the maximum a new one counts under the model "other", and
// beyond twice the maximum as "other" in all labels.
func (t *tenants) set(k tenantKey) (tenantKey, *tenantSeries) {
	s := t.series[k]
	if s == nil && len(t.series) >= t.sets {
		k.model = other
		s = t.series[k]
	}
	if s == nil && len(t.series) >= 2*t.sets {
		k = tenantKey{other, other, other, other}
		s = t.series[k]
	}
	if s == nil {
		s = &tenantSeries{}
		t.series[k] = s
	}
	return k, s
}

func (t *tenants) add(s *tenantSeries, k tenantKey, x *Exchange, u *llm.Usage) {
	if x.Cost != nil && *x.Cost > 0 {
		if s.spend == nil {
			s.spend = t.spend.WithLabelValues(k.org, k.team, k.key, k.model)
		}
		s.spend.Add(float64(*x.Cost) / 1e9)
	}
	for i := range s.tokens {
		n := *u.At(i)
		if n <= 0 {
			continue
		}
		if s.tokens[i] == nil {
			s.tokens[i] = t.tokens.WithLabelValues(k.org, k.team, k.key, k.model, llm.Units()[i].Name)
		}
		s.tokens[i].Add(float64(n))
	}
	for i, n := range u.Other {
		if n > 0 {
			t.units.WithLabelValues(k.org, k.team, k.key, k.model, llm.OtherUnits()[i].Name).Add(float64(n))
		}
	}
}

// refusal returns why the gateway refused an exchange, or "" if it did not.
func refusal(x *Exchange, v verdict) string {
	if x.answered {
		return ""
	}
	if slices.Contains(refusalKinds[:], v.kind) {
		return string(v.kind)
	}
	return ""
}

// rank updates the rankings and removes the series of values that are no longer named.
// Their further use is counted as "other". While there are too many label sets, it also
// removes those that nobody has used for an hour.
func (t *tenants) rank(now time.Time) {
	var lost [4]map[string]bool
	for i := range t.values {
		lost[i] = map[string]bool{}
		for _, value := range t.values[i].update() {
			lost[i][valid(value)] = true
		}
	}
	full := len(t.series) >= t.sets
	for k, s := range t.series {
		unnamed := lost[0][k.org] || lost[1][k.team] || lost[2][k.key] || lost[3][k.model]
		if unnamed || full && now.Sub(s.used) >= idleSet {
			t.drop(k)
		}
	}
}

// drop deletes the samples of a label set.
func (t *tenants) drop(k tenantKey) {
	delete(t.series, k)
	t.spend.DeleteLabelValues(k.org, k.team, k.key, k.model)
	for _, u := range llm.Units() {
		t.tokens.DeleteLabelValues(k.org, k.team, k.key, k.model, u.Name)
		t.units.DeleteLabelValues(k.org, k.team, k.key, k.model, u.Name)
	}
	for _, reason := range refusalKinds {
		t.refusals.DeleteLabelValues(k.org, k.team, k.key, k.model, string(reason))
	}
}
