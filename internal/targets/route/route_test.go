package route

import (
	"fmt"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

func targets(models ...string) []Target {
	var all []Target
	for _, m := range models {
		all = append(all, Target{Provider: &provider.Provider{Name: "p"}, Model: m})
	}
	return all
}

func TestFind(t *testing.T) {
	table := New([]*Route{
		{Name: "fast", Targets: targets("llama", "gpt")},
		{Name: "openai/*", Targets: targets("*")},
		{Name: "openai/gpt-*", Targets: targets("gpt-*-latest", "fixed")},
		{Name: "openai/gpt-5", Targets: targets("five")},
		{Name: "o*", Targets: targets("o*")},
	})
	for name, want := range map[string]string{
		"fast":                   "fast [p/llama p/gpt]",
		"openai/gpt-5":           "openai/gpt-5 [p/five]",
		"openai/gpt-5-mini":      "openai/gpt-* [p/gpt-5-mini-latest p/fixed]",
		"openai/gpt-*":           "openai/gpt-* [p/gpt-*-latest p/fixed]",
		"openai/gpt-":            "openai/* [p/gpt-]",
		"openai/o3":              "openai/* [p/o3]",
		"openai/a/b:c*d":         "openai/* [p/a/b:c*d]",
		"openai/":                "o* [p/openai/]",
		"o3":                     "o* [p/o3]",
		"o":                      "",
		"":                       "",
		"FAST":                   "",
		"fast	":                  "",
		"x/openai/gpt-5":         "",
		"openai\u2215gpt-5-mini": "o* [p/openai\u2215gpt-5-mini]",
	} {
		m, ok := table.Find(name)
		got := ""
		if ok {
			got = fmt.Sprint(m.Route.Name, " ", m.Targets)
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestStarMatchesEveryName(t *testing.T) {
	table := New([]*Route{{Name: "*", Targets: targets("*")}})
	if m, ok := table.Find("any/thing"); !ok || m.Targets[0].Model != "any/thing" {
		t.Errorf("%v %v", m, ok)
	}
	if _, ok := table.Find(""); ok {
		t.Error("an empty name has a route")
	}
}

func TestFindDoesNotChangeTheRoute(t *testing.T) {
	routes := []*Route{{Name: "a/*", Targets: targets("*")}}
	table := New(routes)
	table.Find("a/one")
	if m, _ := table.Find("a/two"); m.Targets[0].Model != "two" || routes[0].Targets[0].Model != "*" {
		t.Errorf("%v %v", m.Targets, routes[0].Targets)
	}
}

func TestRoutesKeepTheirOrder(t *testing.T) {
	routes := []*Route{{Name: "z"}, {Name: "a*"}, {Name: "m"}}
	for i, r := range New(routes).Routes() {
		if r != routes[i] {
			t.Errorf("%d is %s", i, r.Name)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		var routes []*Route
		for i := range n {
			routes = append(routes, &Route{Name: fmt.Sprintf("model-%d", i), Targets: targets("m")})
		}
		routes = append(routes, &Route{Name: "any/*", Targets: targets("*")})
		table := New(routes)
		for kind, name := range map[string]string{"exact": "model-7", "pattern": "any/thing", "none": "nobody"} {
			b.Run(fmt.Sprintf("%s of %d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					table.Find(name)
				}
			})
		}
	}
}

func TestHasDotSegment(t *testing.T) {
	for name, want := range map[string]bool{
		"gpt-4.1": false, "a/..b/c...d": false, "50%": false, "gemini-3.1-pro": false, "": false,
		"..": true, ".": true, "gem/flash/../ultra": true, "gem/./flash": true, "a/%2e%2E/b": true, "a%2F..%2fb": true,
		"a/%252e%252e/b": true, `a\..\b`: true, "a%5c..%5Cb": true,
	} {
		if got := HasDotSegment(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
