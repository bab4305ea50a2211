// Package fleet holds the live state of targets: their health, their load and
// what is known of their prompt caches. The state outlives a reload of the
// configuration.
//
// The request path calls [Fleet.Bind] with each configuration, [Fleet.Enter] for
// each request, [Order] to sort a model's targets and [Report] with the outcome
// of each attempt. [Fleet.Targets], [Fleet.Snapshot] and [Explain] show the
// state to operators.
package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover/signals"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Fleet is the live state of all targets. It is safe for concurrent use.
type Fleet struct {
	health *health.Fleet
	limits *limit.Limiter
	load   signals.Reader // of workers' engines
	log    changeLog

	mu        sync.Mutex
	histories map[string]*balance.History // by route
	hedges    map[string]*route.Share     // by route
	fallbacks map[string]*route.Fallback  // by route
	names     map[string]name             // by target id
}

// name holds the names of a target that operators see.
type name struct {
	target string // provider/model
	pool   string // the same, but one name for all discovered workers of a model
}

// New returns a fleet without targets. It logs when a target goes out of service or
// comes back, and when a model is served by a fallback target.
func New(logger *slog.Logger) *Fleet {
	return &Fleet{health: health.NewFleet(health.Options{Changed: changeLog{logger}.target, Logger: logger}), limits: limit.New(), load: signals.Reader{Logger: logger}, log: changeLog{logger}}
}

// Close stops the health checks and the reads of metrics, and waits for them.
func (f *Fleet) Close() {
	f.load.Close()
	f.health.Close()
}

// TakeMemory takes bytes of the memory that bodies and their translation may use, and
// returns the function that releases them.
func (f *Fleet) TakeMemory(ctx context.Context, bytes int64) (release func(), err *llm.Error) {
	release, refusal := f.limits.Bytes.Acquire(ctx, bytes)
	if refusal != nil {
		return nil, Overloaded(refusal)
	}
	return release, nil
}

// Enter takes a slot of the whole gateway for a request. It waits in the queue
// while all slots are taken.
func (f *Fleet) Enter(ctx context.Context, c limit.Caller) (limit.Permit, *limit.Refusal) {
	return f.limits.Enter(ctx, c)
}

// Bind returns copies of the routes of a new configuration, with the live state of the routes and
// their targets. A target that the old configuration also had keeps its state. State that
// the new configuration does not use is dropped. Calls must not overlap.
func (f *Fleet) Bind(routes []*route.Route, overload limit.Config) []*route.Route {
	f.limits.Use(overload)
	b := binding{
		fleet: f, identities: map[*provider.Provider]identity{}, checks: map[string]health.Check{}, metrics: map[string]bool{}, names: map[string]name{},
		histories: map[string]*balance.History{}, hedges: map[string]*route.Share{}, fallbacks: map[string]*route.Fallback{},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	bound := make([]*route.Route, len(routes))
	for i, r := range routes {
		bound[i] = b.route(r)
	}
	f.prune(&b)
	for _, r := range bound {
		for i := range r.Targets {
			t := r.Targets[i].Live
			// The configuration has checked the path. A target whose check cannot be sent
			// is not ejected for it.
			_ = t.Watch(b.checks[t.ID()])
		}
	}
	return bound
}

// prune drops the state that the new configuration does not use.
func (f *Fleet) prune(b *binding) {
	ids := make([]string, 0, len(b.names))
	for id := range b.names {
		ids = append(ids, id)
	}
	f.health.Keep(ids...)
	f.load.Keep(b.metrics)
	for id := range f.names {
		if _, used := b.names[id]; !used {
			f.limits.Forget(id)
		}
	}
	f.histories, f.hedges, f.fallbacks, f.names = b.histories, b.hedges, b.fallbacks, b.names
}

// binding collects the parts of the fleet's state that a new configuration uses.
type binding struct {
	fleet      *Fleet
	identities map[*provider.Provider]identity
	checks     map[string]health.Check // by target id
	metrics    map[string]bool         // URLs that are read
	names      map[string]name         // by target id
	histories  map[string]*balance.History
	hedges     map[string]*route.Share
	fallbacks  map[string]*route.Fallback
}

// route returns a copy of a route with its state.
func (b *binding) route(configured *route.Route) *route.Route {
	r := new(*configured)
	r.Targets = slices.Clone(configured.Targets)
	credentials := map[string]bool{}
	for i := range r.Targets {
		t := &r.Targets[i]
		who := b.identify(t.Provider)
		credentials[who.credential] = true
		b.target(t, who, len(r.Targets) > 1)
		if t.Provider.Metrics != "" && r.Balance == balance.LeastBusy && len(r.Targets) > 1 {
			b.metrics[t.Provider.Metrics] = true
			t.Engine = b.fleet.load.Engine(t.Provider.Metrics, authorization(t.Provider))
		}
	}
	r.Credentials = len(credentials)
	if r.Balance == balance.InOrder && len(r.Targets) > 1 {
		r.Fallback = keep(b.fallbacks, b.fleet.fallbacks, r.Name)
	}
	if r.Balance == balance.CacheAware {
		r.History = keep(b.histories, b.fleet.histories, r.Name)
		r.History.Forget(func(target string) bool { return !serves(r, target) })
	}
	if r.Hedge.Quantile > 0 {
		r.Hedged = keep(b.hedges, b.fleet.hedges, r.Name)
	}
	return r
}

// target attaches a target's state. A target is checked only if one of its routes has
// another target, because an only target is tried in any state.
func (b *binding) target(t *route.Target, who identity, alternatives bool) {
	id := t.String() + "@" + who.address
	quota := who.credential
	if t.Provider.Quota != provider.QuotaProvider {
		quota += "/" + t.Model
	}
	t.Live = b.fleet.health.Target(id, quota, who.credential)
	t.Slots = b.fleet.limits.Target(id, t.Provider.Concurrency)
	t.Slots.UseTurn(t.Turn)
	t.Budget = b.fleet.health.Budget(t.Provider.Pool())
	b.names[id] = name{t.String(), cmp.Or(t.Provider.Workers, t.String())}
	if check := t.Provider.Health; alternatives && check.Path != "" {
		c := health.Check{URL: who.address + check.Path, Header: authorization(t.Provider), Every: check.Every}
		c.Signer = t.Provider.Credential
		b.checks[id] = c
	}
}

func authorization(p *provider.Provider) http.Header {
	h := http.Header{}
	p.Authorize(h)
	return h
}

// identity distinguishes addresses and credentials without revealing the key.
type identity struct{ address, credential string }

func (b *binding) identify(p *provider.Provider) identity {
	who, known := b.identities[p]
	if !known {
		text := p.Key.Reveal()
		if p.Cloud != nil {
			text = p.Cloud.Fingerprint()
		}
		sum := sha256.Sum256([]byte(text))
		who = identity{p.BaseURL.Scheme + "://" + p.BaseURL.Host, p.Name + "#" + fmt.Sprintf("%x", sum[:6])}
		b.identities[p] = who
	}
	return who
}

// serves reports whether a route has a target of this name. The target of a pattern
// matches many names.
func serves(r *route.Route, target string) bool {
	return slices.ContainsFunc(r.Targets, func(t route.Target) bool {
		before, after, pattern := strings.Cut(t.String(), "*")
		if !pattern {
			return target == before
		}
		return strings.HasPrefix(target, before) && strings.HasSuffix(target, after)
	})
}

// keep moves an entry from the old map to the new one, and creates it if neither has it.
func keep[T any](to, from map[string]*T, name string) *T {
	if to[name] == nil {
		to[name] = from[name]
	}
	if to[name] == nil {
		to[name] = new(T)
	}
	return to[name]
}
