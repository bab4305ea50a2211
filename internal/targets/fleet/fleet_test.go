package fleet

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
	"github.com/isogloss-gateway/isogloss/llm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFleet(t *testing.T) *Fleet {
	t.Helper()
	f := New(slog.New(slog.DiscardHandler))
	t.Cleanup(f.Close)
	return f
}

// targets returns targets with names of the form provider/model, all at one address.
func targets(t *testing.T, address string, names ...string) []route.Target {
	t.Helper()
	base, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var list []route.Target
	for _, name := range names {
		p, model, _ := strings.Cut(name, "/")
		list = append(list, route.Target{Provider: &provider.Provider{Name: p, BaseURL: base, Quota: provider.QuotaModel}, Model: model, Weight: 1})
	}
	return list
}

func TestReloadKeepsTheStateOfATarget(t *testing.T) {
	f := newFleet(t)
	old := &route.Route{Name: "m", Targets: targets(t, "http://one", "a/x", "b/x")}
	bind(f, limit.Config{}, old)
	Report(&old.Targets[0], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 401})
	next := &route.Route{Name: "other name", Targets: targets(t, "http://one", "a/x")}
	bind(f, limit.Config{}, next)
	if next.Targets[0].Live != old.Targets[0].Live || next.Targets[0].Live.State().Reason != health.Refused {
		t.Errorf("after the reload the target's state is %+v", next.Targets[0].Live.State())
	}
	if got := f.health.Snapshot(); len(got) != 1 {
		t.Errorf("the fleet holds %d targets, want 1", len(got))
	}
	if got := f.limits.Snapshot().Targets; len(got) != 1 {
		t.Errorf("the limiter holds %d targets, want 1", len(got))
	}
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestReloadStopsARemovedCheck checks that a reload that removes a health check stops it,
// and the target is ready again. A second route in which the target is alone does not
// stop it.
func TestReloadStopsARemovedCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		transport := tripFunc(func(*http.Request) (*http.Response, error) {
			checks.Add(1)
			return nil, errors.New("no connection")
		})
		f := &Fleet{health: health.NewFleet(health.Options{Transport: transport}), limits: limit.New()}
		defer f.Close()
		use := func(path string) *health.Target {
			list := targets(t, "http://one", "a/x", "b/x")
			list[0].Provider.Health = provider.Check{Path: path, Every: time.Second}
			bind(f, limit.Config{}, &route.Route{Name: "m", Targets: list}, &route.Route{Name: "single", Targets: slices.Clone(list[:1])})
			return list[0].Live
		}
		target := use("/health")
		for range 2 {
			time.Sleep(time.Minute)
			if s := target.State(); s.Reason != health.CheckFailed || checks.Swap(0) < 40 {
				t.Errorf("with a failing check the target is %+v", s)
			}
			target = use("/health") // no change
		}
		target = use("")
		checks.Store(0)
		time.Sleep(time.Minute)
		if s := target.State(); !s.Ready || checks.Load() > 0 {
			t.Errorf("without its check the target is %+v, after %d checks", s, checks.Load())
		}
	})
}

func TestReloadDropsHistoriesAndHedges(t *testing.T) {
	f := newFleet(t)
	cached := func(names ...string) *route.Route {
		return &route.Route{Name: "cached", Balance: balance.CacheAware, Targets: targets(t, "http://one", names...)}
	}
	hedged := &route.Route{Name: "hedged", Hedge: route.Hedge{Quantile: 0.9}, Targets: targets(t, "http://one", "a/x", "b/x")}
	first := cached("a/x", "b/x", "c/v-*")
	bind(f, limit.Config{}, first, hedged)
	for _, id := range []string{"a/x", "b/x", "c/v-1", "c/other"} {
		first.History.Seen(id, balance.Session{}, 10, 5)
	}
	budget := hedged.Hedged

	second := cached("b/x", "c/v-*")
	bind(f, limit.Config{}, second, hedged)
	if second.History != first.History || hedged.Hedged != budget {
		t.Error("the routes have lost their state")
	}
	var left []string
	for _, tokens := range second.History.Targets() {
		left = append(left, tokens.ID)
	}
	if want := []string{"b/x", "c/v-1"}; !slices.Equal(left, want) {
		t.Errorf("the history counts %v, want %v", left, want)
	}

	bind(f, limit.Config{})
	if len(f.histories)+len(f.hedges)+len(f.names) > 0 {
		t.Errorf("without routes the fleet holds %d histories, %d hedges, %d names", len(f.histories), len(f.hedges), len(f.names))
	}
	bind(f, limit.Config{}, hedged)
	if hedged.Hedged == budget {
		t.Error("a route that comes back has its old budget")
	}
}

func TestOrder(t *testing.T) {
	f := newFleet(t)
	r := &route.Route{Name: "m", Targets: targets(t, "http://one", "a/x", "b/x", "c/x", "d/x")}
	bind(f, limit.Config{}, r)
	list := make([]*route.Target, len(r.Targets))
	for i := range r.Targets {
		list[i] = &r.Targets[i]
	}
	for range 5 { // ejects a
		Report(list[0], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.Upstream}, Status: 500})
	}
	Report(list[1], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 401})
	order, skipped := Order(balance.InOrder, list, balance.Session{})
	if want := []int{2, 3, 0}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if want := []Skipped{{"a/x", health.Ejected}, {"b/x", health.Refused}}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %v, want %v", skipped, want)
	}
	order, _ = Order(balance.InOrder, list, balance.Session{Pin: "d/x"})
	if want := []int{3, 2, 0}; !slices.Equal(order, want) {
		t.Errorf("order with a pin %v, want %v", order, want)
	}
}

func TestReportClassifiesFailures(t *testing.T) {
	for name, c := range map[string]struct {
		outcome Outcome
		kind    health.Kind
		reason  string
		blames  bool // the outcome counts against the target
	}{
		"unauthorized":     {Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 401}, health.Credential, "HTTP 401", true},
		"400 for our key":  {Outcome{Err: &llm.Error{Kind: llm.UpstreamAuth}, Status: 400}, health.Credential, "HTTP 400", true},
		"forbidden":        {Outcome{Err: &llm.Error{Kind: llm.Permission}, Status: 403}, health.Denied, "HTTP 403", true},
		"too many":         {Outcome{Err: &llm.Error{Kind: llm.RateLimit}, Status: 429}, health.Limited, "HTTP 429", true},
		"529":              {Outcome{Err: &llm.Error{Kind: llm.Overloaded}, Status: 529}, health.Limited, "HTTP 529", true},
		"503":              {Outcome{Err: &llm.Error{Kind: llm.Overloaded}, Status: 503}, health.Server, "HTTP 503", true},
		"500":              {Outcome{Err: &llm.Error{Kind: llm.Internal}, Status: 500}, health.Server, "HTTP 500", true},
		"no connection":    {Outcome{Err: &llm.Error{Kind: llm.Upstream, Code: "c"}, Unreachable: true}, health.Unreachable, "c", true},
		"a cut stream":     {Outcome{Err: &llm.Error{Kind: llm.Upstream, Code: "cut"}, Status: 200}, health.Broken, "cut", true},
		"a late response":  {Outcome{Err: &llm.Error{Kind: llm.Timeout}}, health.Timeout, string(llm.Timeout), true},
		"a limit, in mid":  {Outcome{Err: &llm.Error{Kind: llm.Quota}, Status: 200}, health.Limited, string(llm.Quota), true},
		"a bad request":    {Outcome{Err: &llm.Error{Kind: llm.InvalidRequest}, Status: 400}, 0, "", false},
		"not found":        {Outcome{Err: &llm.Error{Kind: llm.NotFound}, Status: 404}, 0, "", false},
		"the client left":  {Outcome{Err: &llm.Error{Kind: llm.Cancelled}}, 0, "", false},
		"the budget ended": {Outcome{Err: &llm.Error{Kind: llm.Upstream}, Aborted: true}, 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			r := &route.Route{Name: "m", Targets: targets(t, "http://one", "a/x")}
			bind(f, limit.Config{}, r)
			Report(&r.Targets[0], limit.Permit{}, c.outcome)
			s := f.health.Snapshot()[0]
			if c.blames != (s.Failed[c.kind] == 1) || len(s.Failed) > 1 {
				t.Errorf("failures %v", s.Failed)
			}
			if last := r.Targets[0].Live.LastError(); last.Reason != c.reason || c.blames == last.At.IsZero() {
				t.Errorf("last error %+v, want %q", last, c.reason)
			}
		})
	}
}

func TestTargetsListsEachOnce(t *testing.T) {
	f := newFleet(t)
	routes := []*route.Route{
		{Name: "m", Targets: targets(t, "http://one:81", "b/x", "a/y")},
		{Name: "n", Targets: targets(t, "http://one:81", "a/y")},
	}
	bind(f, limit.Config{PerTarget: 7}, routes...)
	Report(&routes[0].Targets[1], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.RateLimit}, Status: 429})
	var got []string
	for _, s := range f.Targets(routes) {
		got = append(got, fmt.Sprintf("%s at %s for %v %s %d", s.Target, s.Address, s.Models, s.Live.State, s.Limit))
	}
	if want := []string{"b/x at one:81 for [m] ready 7", "a/y at one:81 for [m n] cooling down 7"}; !slices.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

func TestSnapshotSumsUpDiscoveredWorkers(t *testing.T) {
	f := newFleet(t)
	r := &route.Route{Name: "m", Balance: balance.CacheAware, Targets: targets(t, "http://one", "a/x@y")}
	for i := range 4096 {
		worker := targets(t, fmt.Sprintf("http://10.0.%d.%d", i/256, i%256), fmt.Sprintf("pod-%d/llama@v1", i))[0]
		worker.Provider.Workers = "discovered/m"
		r.Targets = append(r.Targets, worker)
	}
	r.Targets = append(r.Targets, targets(t, "http://one", "idle/x")...)
	bind(f, limit.Config{}, r)
	for i := range r.Targets[:4097] {
		target := &r.Targets[i]
		target.Live.Begin()
		Report(target, limit.Permit{}, Outcome{FirstToken: time.Second})
		r.History.Seen(target.String(), balance.Session{}, 10, 4)
	}
	Report(&r.Targets[1], limit.Permit{}, Outcome{Err: &llm.Error{Kind: llm.RateLimit}, Status: 429})
	got := f.Snapshot().Targets
	if len(got) != 2 {
		t.Fatalf("%d targets, want the pool and a/x@y", len(got))
	}
	if a := got[0]; a.Target != "a/x@y" || a.Open != 1 || a.Prompt != 10 || a.Cached != 4 {
		t.Errorf("%+v", a)
	}
	if pool := got[1]; pool.Target != "discovered/m" || pool.Open != 4096 || pool.Prompt != 10*4095 { // the history holds 4096 targets
		t.Errorf("%+v", pool)
	}
}

func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(slog.New(slog.DiscardHandler))
		defer f.Close()
		r := &route.Route{Name: "m", Targets: targets(t, "http://one", "a/x")}
		bind(f, limit.Config{}, r)
		target := &r.Targets[0]
		if s := Explain(target); s != (TargetState{State: Ready}) {
			t.Errorf("a new target is %+v", s)
		}
		target.Live.Begin()
		Report(target, limit.Permit{}, Outcome{FirstToken: time.Second})
		unavailable := Outcome{Err: &llm.Error{Kind: llm.Overloaded}, Status: 503}
		Report(target, limit.Permit{}, unavailable)
		if s := Explain(target); s.State != Failing || s.LastError != "HTTP 503" || !s.LastErrorAt.Equal(time.Now()) || s.Open != 1 || s.FirstToken != "1000ms" {
			t.Errorf("after one failure: %+v", s)
		}
		for range 4 {
			Report(target, limit.Permit{}, unavailable)
		}
		if s := Explain(target); s.State != health.Ejected || !s.Until.After(time.Now()) {
			t.Errorf("after five failures: %+v", s)
		}
	})
}

// TestSaturatedEngines checks that the metrics of workers are read if they serve a model
// with least-busy beside others, and that a saturated one is shown and comes last.
func TestSaturatedEngines(t *testing.T) {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "sglang:token_usage 0.95\n")
	}))
	defer engine.Close()
	f := newFleet(t)
	use := func(p balance.Policy, names ...string) *route.Route {
		r := &route.Route{Name: "m", Balance: p, Targets: targets(t, engine.URL, names...)}
		r.Targets[0].Provider.Metrics = engine.URL + "/metrics"
		bind(f, limit.Config{}, r)
		return r
	}
	for _, r := range []*route.Route{use(balance.LeastBusy, "a/x"), use(balance.Fastest, "a/x", "b/x")} {
		if r.Targets[0].Engine != nil {
			t.Errorf("%s with %d targets: the metrics are read", r.Balance, len(r.Targets))
		}
	}
	r := use(balance.LeastBusy, "a/x", "b/x")
	testrig.Eventually(t, "the engine is saturated", func() bool { return r.Targets[0].Engine.Saturated() })
	for range 50 {
		if order, _ := Order(r.Balance, []*route.Target{&r.Targets[0], &r.Targets[1]}, balance.Session{}); order[0] != 1 {
			t.Fatalf("the order is %v", order)
		}
	}
	if a, b := Explain(&r.Targets[0]).State, Explain(&r.Targets[1]).State; a != Saturated || b != Ready {
		t.Errorf("the states are %s and %s", a, b)
	}
	if again := use(balance.LeastBusy, "a/x", "b/x"); again.Targets[0].Engine != r.Targets[0].Engine {
		t.Error("a reload forgets the engine")
	}
}

// bind binds routes to the fleet's state and writes the bound copies over them.
func bind(f *Fleet, overload limit.Config, routes ...*route.Route) {
	for i, b := range f.Bind(routes, overload) {
		copy(routes[i].Targets, b.Targets)
		routes[i].Binding = b.Binding
	}
}
