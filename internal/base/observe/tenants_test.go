package observe

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

// spend ends an exchange of a key.
func spend(o *Observer, org, team, key, model string, tokens int64) {
	x := begin(o)
	x.Org, x.Team, x.Key, x.Model = org, team, key, model
	x.Route(model, "p", x.Target)
	cost := tokens * 1e6
	x.Status, x.Usage, x.Cost = 200, &llm.Usage{Input: tokens}, &cost
	x.End()
}

func TestUseByKey(t *testing.T) {
	o, _ := open(t, Options{})
	spend(o, "acme", "search", "k1", "fast", 1500)
	spend(o, "acme", "search", "k1", "fast", 500)
	spend(o, "acme", "search", "k2", "fast", 10)
	x := begin(o)
	x.Org, x.Team, x.Key, x.Model = "acme", "search", "k2", "fast"
	x.Err = &llm.Error{Kind: llm.Quota}
	x.End()
	x = begin(o) // the upstream's own limit is not a refusal by the gateway
	x.Responded(429, x.start)
	x.Key, x.Err = "k2", &llm.Error{Kind: llm.RateLimit}
	x.End()
	has(t, o,
		`spend_dollars_total{key="k1",model="fast",org="acme",team="search"} 2`,
		`spend_dollars_total{key="k2",model="fast",org="acme",team="search"} 0.01`,
		`usage_tokens_total{key="k1",kind="input",model="fast",org="acme",team="search"} 2000`,
		`refusals_total{key="k2",model="fast",org="acme",reason="quota",team="search"} 1`)
	if page := scrape(t, o); strings.Contains(page, `reason="rate_limit"`) {
		t.Error("an upstream's rate limit counts as a refusal")
	}
	off, _ := open(t, Options{ByKey: ByKeyOff})
	spend(off, "acme", "search", "k1", "fast", 1)
	if page := scrape(t, off); strings.Contains(page, "spend_dollars") || strings.Contains(page, `"k1"`) {
		t.Error("use is counted by key although that is off")
	}
}

// TestTopKeys checks that a key with high use gets its own series although the number of
// keys is above the limit, that an idle one loses it, and that no counter decreases.
func TestTopKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := open(t, Options{ByKey: ByKeyTop, Top: 3})
		for i := range 10 {
			spend(o, "acme", "t", fmt.Sprintf("early%d", i), "m", 100)
		}
		spend(o, "acme", "t", "late", "m", 5000)
		if n := strings.Count(scrape(t, o), "isogloss_usage_tokens_total{"); n != 4 {
			t.Errorf("%d series, want those of three keys and of the others", n)
		}
		has(t, o, `usage_tokens_total{key="other",kind="input",model="m",org="acme",team="t"} 5700`)
		for range 2 {
			time.Sleep(rankEvery)
			spend(o, "acme", "t", "late", "m", 1000)
		}
		has(t, o, `usage_tokens_total{key="late",kind="input",model="m",org="acme",team="t"} 2000`,
			`usage_tokens_total{key="other",kind="input",model="m",org="acme",team="t"} 5700`)
		if n := strings.Count(scrape(t, o), "isogloss_usage_tokens_total{"); n != 4 {
			t.Errorf("%d series after a key has changed places, want 4", n)
		}
	})
}

func TestAllKeysAreBounded(t *testing.T) {
	r := newRanking[string](maxNamed)
	others := 0
	for i := range 3 * maxNamed {
		if !r.add(fmt.Sprint(i), 1).named {
			others++
		}
	}
	if others != 2*maxNamed || len(r.uses) > 2*maxNamed {
		t.Errorf("%d of %d are others, %d are remembered", others, 3*maxNamed, len(r.uses))
	}
}

// TestLabelSetsAreBounded checks that the combinations of keys and models stay below their
// bound, that the use of a key stays attributed to it, and that idle combinations make
// room.
func TestLabelSetsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := open(t, Options{ByKey: ByKeyTop, Top: 50})
		for model := range 50 {
			for key := range 50 {
				spend(o, "acme", "t", fmt.Sprintf("k%d", key), fmt.Sprintf("m%d", model), 10)
			}
		}
		series := strings.Count(scrape(t, o), "isogloss_usage_tokens_total{")
		if want := setsPerTop*50 + 50; series != want {
			t.Errorf("%d series, want %d", series, want)
		}
		// Ten models of each key have names of their own, and forty count as "other".
		has(t, o, `usage_tokens_total{key="k7",kind="input",model="m3",org="acme",team="t"} 10`,
			`usage_tokens_total{key="k7",kind="input",model="other",org="acme",team="t"} 400`)

		time.Sleep(idleSet)
		for range 2 {
			time.Sleep(rankEvery)
			spend(o, "acme", "t", "k7", "m49", 10)
		}
		has(t, o, `usage_tokens_total{key="k7",kind="input",model="m49",org="acme",team="t"} 20`)
		if n := strings.Count(scrape(t, o), "isogloss_usage_tokens_total{"); n > 2 {
			t.Errorf("%d series remain of those that nobody used for an hour", n)
		}
	})
}

func BenchmarkTenants(b *testing.B) {
	o, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	x := begin(o)
	cost := int64(5)
	x.Org, x.Team, x.Key, x.Model, x.Usage, x.Cost = "o", "t", "k", "m", &llm.Usage{Input: 5, Output: 5}, &cost
	b.ReportAllocs()
	for b.Loop() {
		o.metrics.tenants.count(x, verdict{})
	}
}
