package relay

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/health"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// live is what is known of upstreams and of the load at present. It outlives
// changes of the configuration.
type live struct {
	fleet     *health.Fleet
	limits    *limit.Limiter
	mu        sync.Mutex                  // for histories
	histories map[string]*balance.History // by route
	hedges    map[string]*route.Share
	bound     map[string]bool // ids of the targets in use
	pins      pins
}

func newLive() *live {
	return &live{fleet: health.NewFleet(health.Options{}), limits: limit.New(),
		histories: map[string]*balance.History{}, hedges: map[string]*route.Share{}}
}

// bind joins a configuration with what is known from before it. Only Use calls
// it, one call after another.
func (l *live) bind(s *State) {
	l.limits.Use(s.Overload)
	var kept []string
	known := map[*provider.Provider]identity{}
	for _, r := range s.Routes.Routes() {
		credentials := map[string]bool{}
		for i := range r.Targets {
			t := &r.Targets[i]
			who, ok := known[t.Provider]
			if !ok {
				who = identify(t.Provider)
				known[t.Provider] = who
			}
			credentials[who.credential] = true
			kept = append(kept, l.bindTarget(t, who, len(r.Targets) > 1))
			t.Budget = l.fleet.Budget(t.Provider.Pool())
		}
		r.Credentials = len(credentials)
		if r.Balance == balance.CacheAware {
			l.mu.Lock()
			r.History = fetch(l.histories, r.Name)
			l.mu.Unlock()
		}
		if r.Hedge.Quantile > 0 {
			r.Hedge.Budget = fetch(l.hedges, r.Name)
		}
	}
	l.fleet.Keep(kept...)
	l.forget(kept)
}

// forget drops the limits of targets that the configuration has no more.
func (l *live) forget(kept []string) {
	now := make(map[string]bool, len(kept))
	for _, id := range kept {
		now[id] = true
	}
	for id := range l.bound {
		if !now[id] {
			l.limits.Forget(id)
		}
	}
	l.bound = now
}

func fetch[T any](m map[string]*T, name string) *T {
	if m[name] == nil {
		m[name] = new(T)
	}
	return m[name]
}

// bindTarget returns the id under which a target is known. Where it has company,
// it is asked from time to time whether it is well.
func (l *live) bindTarget(t *route.Target, who identity, company bool) string {
	id := targetID(t, who)
	group := who.credential
	if t.Provider.Quota != provider.QuotaProvider {
		group += "/" + t.Model
	}
	t.Live = l.fleet.Target(id, group, who.credential)
	t.Slots = l.limits.Target(id, t.Provider.Concurrency)
	if check := t.Provider.Health; company && check.Path != "" {
		h := http.Header{}
		t.Provider.Authorize(h)
		// The path was checked with the configuration; what cannot be asked is
		// never taken out for it.
		_ = t.Live.Watch(health.Check{URL: who.address + check.Path, Header: h, Every: check.Every})
	}
	return id
}

// targetID is the id under which a target is known.
func targetID(t *route.Target, who identity) string { return t.String() + "@" + who.address }

// identity tells one address and one credential from another without telling the
// key.
type identity struct{ address, credential string }

func identify(p *provider.Provider) identity {
	sum := sha256.Sum256([]byte(p.Key.Reveal()))
	return identity{p.BaseURL.Scheme + "://" + p.BaseURL.Host, p.Name + "#" + fmt.Sprintf("%x", sum[:6])}
}

// report tells the target's live state what came of an attempt. Nothing is known
// of it where the client did not wait.
func (x *exchange) report(err *llm.Error) {
	t := x.target.Live
	if t == nil || x.asked.IsZero() {
		return
	}
	if x.upstream != nil {
		t.Learn(x.upstream.Header)
	}
	if err == nil {
		err = x.seen.Err
	}
	switch {
	case err == nil:
		took := x.firstSaid()
		x.place.FirstToken(took)
		t.Succeeded(took)
	case err.Kind == llm.Cancelled:
	case x.account != nil && x.account.spent: // by us, not by the target
	default:
		f, theirs := failureOf(err, x.upstream)
		if !theirs {
			t.Succeeded(0)
			return
		}
		if f.Kind == health.Timeout || f.Kind == health.Limited {
			x.place.Failed()
		}
		t.Failed(f)
	}
}

// firstSaid is how long the attempt took to its first token, or to its headers
// where the answer came whole.
func (x *exchange) firstSaid() time.Duration {
	first := x.heard
	if said := x.seen.FirstToken(); said.After(first) {
		first = said
	}
	return max(first.Sub(x.asked), 0)
}

// failureOf is whose fault an error is, and of what kind.
func failureOf(err *llm.Error, upstream *http.Response) (health.Failure, bool) {
	f := health.Failure{Kind: health.Broken, RetryAfter: err.RetryAfter}
	if upstream != nil {
		f.Header = upstream.Header
		switch status := upstream.StatusCode; {
		case err.Kind == llm.UpstreamAuth:
			f.Kind = health.Credential
			return f, true
		case status == http.StatusTooManyRequests, status == 529:
			f.Kind = health.Limited
			return f, true
		case status >= http.StatusInternalServerError:
			f.Kind = health.Server
			return f, true
		}
	}
	switch err.Kind {
	case llm.UpstreamAuth:
		f.Kind = health.Credential
	case llm.RateLimit, llm.Quota:
		f.Kind = health.Limited
	case llm.Timeout:
		f.Kind = health.Timeout
	case llm.Overloaded:
		f.Kind = health.Server
	case llm.Upstream:
		if err.Code == codeUnreachable {
			f.Kind = health.Unreachable
		}
	default:
		return f, false
	}
	return f, true
}

// snapshot is what operators see of it. Targets that were never asked are left
// out: a table may have very many.
func (r *Relay) snapshot() observe.Live {
	limits := r.live.limits.Snapshot()
	out := observe.Live{Open: limits.Process.Open, Waiting: limits.Process.Waiting, Refused: limits.Process.Refused}
	tokens := r.live.tokens()
	for _, s := range r.live.fleet.Snapshot() {
		l := limits.Targets[s.ID]
		for reason, n := range l.Refused {
			out.Refused[reason] += n
		}
		if s.Succeeded == 0 && len(s.Failed) == 0 && l.Waiting == 0 && s.InFlight == 0 {
			continue
		}
		name, _, _ := strings.Cut(s.ID, "@")
		t := observe.LiveTarget{Target: name, Ready: s.Ready, Open: s.InFlight, Waiting: l.Waiting, Limit: l.Limit}
		t.Prompt, t.Cached = tokens[name].Prompt, tokens[name].Cached
		out.Targets = append(out.Targets, t)
	}
	return out
}

// tokens is what targets have said of their prompt caches, by target.
func (l *live) tokens() map[string]balance.Tokens {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]balance.Tokens{}
	for _, h := range l.histories {
		for _, t := range h.Targets() {
			sum := all[t.ID]
			sum.Prompt += t.Prompt
			sum.Cached += t.Cached
			all[t.ID] = sum
		}
	}
	return all
}
