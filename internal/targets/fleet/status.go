package fleet

import (
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
)

// TargetStatus is the state of one target, with the models that use it.
type TargetStatus struct {
	Target  string // provider/model
	Address string // host and port
	Models  []string
	Live    TargetState
	Waiting int // requests that wait for it
	Limit   int // open requests that it may have; 0: no limit
	health.Status
}

// Targets lists the targets of the routes, each once, in the order of the
// configuration.
func (f *Fleet) Targets(routes []*route.Route) []TargetStatus {
	limits := f.limits.Snapshot()
	known := map[string]health.Status{}
	for _, s := range f.health.Snapshot() {
		known[s.ID] = s
	}
	at := map[string]int{}
	var out []TargetStatus
	for _, r := range routes {
		for _, t := range r.Targets {
			id := t.Live.ID()
			i, seen := at[id]
			if !seen {
				i = len(out)
				at[id] = i
				l := limits.Targets[id]
				out = append(out, TargetStatus{Target: t.String(), Address: t.Provider.BaseURL.Host, Live: Explain(&t), Waiting: l.Waiting, Limit: l.Limit, Status: known[id]})
			}
			out[i].Models = append(out[i].Models, r.Name)
		}
	}
	return out
}

// Snapshot returns the state for the metrics. It sums discovered workers by pool and
// omits targets without requests, because there may be thousands of either.
func (f *Fleet) Snapshot() observe.Live {
	limits := f.limits.Snapshot()
	out := observe.Live{Open: limits.Process.Open, Waiting: limits.Process.Waiting, Refused: limits.Process.Refused}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := map[string]int{}
	for _, s := range f.health.Snapshot() {
		l := limits.Targets[s.ID]
		for reason, n := range l.Refused {
			out.Refused[reason] += n
		}
		if s.Succeeded == 0 && len(s.Failed) == 0 && l.Waiting == 0 && s.InFlight == 0 {
			continue
		}
		name := f.names[s.ID].pool
		i, seen := at[name]
		if !seen {
			i = len(out.Targets)
			at[name] = i
			out.Targets = append(out.Targets, observe.LiveTarget{Target: name})
		}
		t := &out.Targets[i]
		t.Ready = t.Ready || s.Ready
		t.Open += s.InFlight
		t.Waiting += l.Waiting
		t.Limit += l.Limit
		for _, h := range s.Headrooms {
			t.AddRateLimit(observe.RateLimit{Unit: h.Unit, Remaining: h.Remaining, Limit: h.Limit})
		}
	}
	for name, tokens := range f.tokens() {
		if i, seen := at[name]; seen {
			out.Targets[i].Prompt, out.Targets[i].Cached = tokens.Prompt, tokens.Cached
		}
	}
	return out
}

// tokens returns the prompt tokens that the routes' histories have counted, summed by the
// target name that metrics use.
func (f *Fleet) tokens() map[string]balance.Tokens {
	pools := map[string]string{} // by target
	for _, n := range f.names {
		pools[n.target] = n.pool
	}
	all := map[string]balance.Tokens{}
	for _, h := range f.histories {
		for _, t := range h.Targets() {
			pool, known := pools[t.ID]
			if !known { // a model matched by a pattern
				pool = t.ID
			}
			sum := all[pool]
			sum.Prompt += t.Prompt
			sum.Cached += t.Cached
			all[pool] = sum
		}
	}
	return all
}
