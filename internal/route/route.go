// Package route leads from the model name that a client sends to the targets
// that can serve it.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/balance"
	"github.com/isogloss-gateway/isogloss/internal/health"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/provider"
)

// Target is one upstream that can serve a model.
type Target struct {
	Provider *provider.Provider
	Model    string // the upstream's own name for the model
	Weight   int    // its share; less than 1 is 1
	Timeouts provider.Timeouts

	// What is known of it at present; the relay fills it in.
	Live   *health.Target
	Slots  *limit.Target
	Budget *health.Budget // of its provider, for retries
}

// String is the target as operators write it: provider/model.
func (t Target) String() string { return t.Provider.Name + "/" + t.Model }

// Priced is the name by which a target's price is found. Workers have that of their
// pool: they choose their own names, and could choose a cheap one.
func (t Target) Priced() string {
	if t.Provider.Workers != "" {
		return t.Provider.Workers
	}
	return t.String()
}

// Route is one row of the configuration's models.
type Route struct {
	Name    string // as configured; a name that ends in "*" stands for all names that begin with what is before it
	OwnedBy string
	Targets []Target // as configured
	Balance balance.Policy
	Hedge   Hedge
	// Continue says that a stream which breaks off is taken up again.
	Continue bool

	// Credentials is how many different ones the targets have; the relay fills it
	// in.
	Credentials int
	// History is what answers have told of the targets' prompt caches; nil where
	// the balance does not ask for it.
	History *balance.History
}

// Hedge is when a second target is asked for the same answer.
type Hedge struct {
	Quantile float64 // of the first one's time to first token; 0 is never
	Share    float64 // of requests, and of what they send
	Budget   *Share  // what is left of it; the relay fills it in
}

// Pattern reports whether the route stands for many names.
func (r *Route) Pattern() bool { return strings.HasSuffix(r.Name, "*") }

// Match is a route that was found for a name, with the targets' models filled in.
type Match struct {
	Route   *Route
	Targets []Target
}

// Table finds routes by name. It does not change after it was built, so that
// readers need no lock. A look-up costs the same for ten models and for a
// hundred thousand.
type Table struct {
	routes   []*Route
	exact    map[string]*Route
	prefixes map[string]*Route
	lengths  []int // of the prefixes, longest first
}

// New builds a table. Names are unique: the configuration has checked that.
func New(routes []*Route) *Table {
	t := &Table{routes: routes, exact: make(map[string]*Route, len(routes)), prefixes: map[string]*Route{}}
	for _, r := range routes {
		if !r.Pattern() {
			t.exact[r.Name] = r
			continue
		}
		prefix := strings.TrimSuffix(r.Name, "*")
		t.prefixes[prefix] = r
		if !slices.Contains(t.lengths, len(prefix)) {
			t.lengths = append(t.lengths, len(prefix))
		}
	}
	slices.SortFunc(t.lengths, func(a, b int) int { return cmp.Compare(b, a) })
	return t
}

// Routes lists the routes in the order of the configuration.
func (t *Table) Routes() []*Route { return t.routes }

// Find returns the route for a name: the exact one, or else the pattern that
// shares the longest beginning with it.
func (t *Table) Find(name string) (Match, bool) {
	if r, ok := t.exact[name]; ok {
		return Match{Route: r, Targets: r.Targets}, true
	}
	for _, n := range t.lengths {
		if n >= len(name) { // a pattern stands for at least one more character
			continue
		}
		if r, ok := t.prefixes[name[:n]]; ok {
			return Match{Route: r, Targets: fill(r.Targets, name[n:])}, true
		}
	}
	return Match{}, false
}

// fill puts what the pattern's star stood for into the targets' models.
func fill(targets []Target, rest string) []Target {
	out := slices.Clone(targets)
	for i := range out {
		out[i].Model = strings.Replace(out[i].Model, "*", rest, 1)
	}
	return out
}
