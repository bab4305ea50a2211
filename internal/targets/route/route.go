// Package route maps the model name of a request to the targets that serve it.
package route

import (
	"cmp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/targets/balance"
	"github.com/isogloss-gateway/isogloss/internal/targets/discover/signals"
	"github.com/isogloss-gateway/isogloss/internal/targets/health"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Target is one upstream that can serve a model.
type Target struct {
	Provider *provider.Provider
	Model    string // the upstream's own name for the model
	Weight   int    // relative share of the requests; less than 1 is 1
	Timeouts provider.Timeouts
	Zone     balance.Zone // of a discovered worker
	Turn     *limit.Turn  // of a worker that gateways use one after the other; nil: of none

	TargetBinding
}

// TargetBinding is the live state of a target. internal/targets/fleet makes copies of the
// configured targets that have it.
type TargetBinding struct {
	Live   *health.Target
	Slots  *limit.Target
	Engine *signals.Engine // nil: its load is not read
	Budget *health.Budget  // of its provider or pool, for retries
}

// String returns the target as the configuration writes it: provider/model.
func (t Target) String() string { return t.Provider.Name + "/" + t.Model }

// Priced returns the name under which the target has a price. For a discovered worker
// it is that of the pool: a worker chooses its own name, and could choose a cheap one.
func (t Target) Priced() string {
	if t.Provider.Workers != "" {
		return t.Provider.Workers
	}
	return t.String()
}

// Route is one row of the configuration's models.
type Route struct {
	Name    string // as configured; a name that ends in "*" matches all names with that prefix
	OwnedBy string
	Targets []Target // as configured
	Balance balance.Policy
	Hedge   Hedge
	// Continue says that a stream that breaks off is continued by another attempt.
	Continue bool
	Params   *params.Set // of the model's requests; nil: none

	Binding
}

// Binding is the live state of a route. internal/targets/fleet makes copies of the configured
// routes that have it.
type Binding struct {
	Credentials int              // how many different ones the targets have
	History     *balance.History // for the cache policy, else nil
	Fallback    *Fallback        // for targets that are tried in order, else nil
	Hedged      *Share           // counts the requests of Hedge; nil without hedging
}

// Hedge says when a request is sent to a second target as well.
type Hedge struct {
	Quantile float64 // of the first target's time to first token; 0 disables hedging
	Share    float64 // of the requests, and of their bytes, that may be sent twice
}

// Pattern reports whether the route's name is a pattern.
func (r *Route) Pattern() bool { return strings.HasSuffix(r.Name, "*") }

// Match is the route of a name, with the models of its targets filled in.
type Match struct {
	Route   *Route
	Targets []Target
}

// Table finds routes by name. It is immutable. A look-up takes the same time for ten
// models and for a hundred thousand.
type Table struct {
	routes   []*Route
	exact    map[string]*Route
	prefixes map[string]*Route
	lengths  []int // of the prefixes, longest first
}

// New builds a table. The names must be unique; the configuration checks that.
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

// encodings decodes the percent-encodings of dots and separators.
var encodings = strings.NewReplacer("%2e", ".", "%2E", ".", "%2f", "/", "%2F", "/", "%5c", "/", "%5C", "/", "%25", "%", `\`, "/")

// HasDotSegment reports whether a model's name has a path segment "." or "..", in any
// encoding. Vendors put names into paths, where such a segment means another resource.
func HasDotSegment(name string) bool {
	for strings.IndexByte(name, '.') >= 0 || strings.IndexByte(name, '%') >= 0 {
		for segment := range strings.SplitSeq(name, "/") {
			if segment == "." || segment == ".." {
				return true
			}
		}
		plain := encodings.Replace(name)
		if plain == name {
			return false
		}
		name = plain
	}
	return false
}

// Routes returns the routes in the order of the configuration.
func (t *Table) Routes() []*Route { return t.routes }

// Find returns the route for a name: an exact match, or else the pattern with the
// longest prefix.
func (t *Table) Find(name string) (Match, bool) {
	if r, ok := t.exact[name]; ok {
		return Match{Route: r, Targets: r.Targets}, true
	}
	for _, n := range t.lengths {
		if n >= len(name) { // the star matches at least one character
			continue
		}
		if r, ok := t.prefixes[name[:n]]; ok {
			return Match{Route: r, Targets: fill(r.Targets, name[n:])}, true
		}
	}
	return Match{}, false
}

// fill replaces the star in the targets' models with what it matched.
func fill(targets []Target, rest string) []Target {
	out := slices.Clone(targets)
	for i := range out {
		out[i].Model = strings.Replace(out[i].Model, "*", rest, 1)
	}
	return out
}
