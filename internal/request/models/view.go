package models

import (
	"cmp"
	"context"
	"iter"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
	"github.com/isogloss-gateway/isogloss/internal/base/similar"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
	"github.com/isogloss-gateway/isogloss/internal/targets/route"
	"github.com/isogloss-gateway/isogloss/llm"
)

// View lists the models of a configuration.
type View struct {
	Routes  *route.Table
	Created time.Time   // of models whose provider does not say it
	Prices  *usage.Book // nil: no prices are shown
	Catalog *Catalog    // nil: no lists of providers are used
}

// maxFetched is the largest number of providers whose lists one request has fetched.
const maxFetched = 64

// List returns the models that a caller may see. It expands patterns from the providers'
// lists or, if a provider has served none, from the built-in price table. A pattern
// itself is not listed, because no request can name it.
func (v View) List(ctx context.Context, sees func(string) bool) []codec.Model {
	var providers []*provider.Provider
	for _, r := range v.Routes.Routes() {
		if !r.Pattern() { // lists that are needed for patterns also describe other models
			continue
		}
		for _, t := range r.Targets {
			if len(providers) < maxFetched && t.Provider.Workers == "" && !slices.Contains(providers, t.Provider) {
				providers = append(providers, t.Provider)
			}
		}
	}
	v.Catalog.refresh(ctx, providers)
	var list []codec.Model
	for name, match := range v.names(sees) {
		list = append(list, v.model(name, match))
	}
	return list
}

// Find returns what is known of the model with a name. It fetches nothing.
func (v View) Find(name string) (codec.Model, bool) {
	m, ok := v.Routes.Find(name)
	if !ok {
		return codec.Model{}, false
	}
	return v.model(name, m), true
}

// names returns the names of the models that a caller may see, with their routes. It
// fetches nothing.
func (v View) names(sees func(string) bool) iter.Seq2[string, route.Match] {
	return func(yield func(string, route.Match) bool) {
		for _, r := range v.Routes.Routes() {
			names := []string{r.Name}
			if r.Pattern() {
				names = v.expand(r)
			}
			for _, name := range names {
				m, ok := v.Routes.Find(name)
				if ok && m.Route == r && sees(name) && !yield(name, m) {
					return
				}
			}
		}
	}
}

// Unexpanded returns the patterns for which no name is known.
func (v View) Unexpanded() (patterns []string) {
	for _, r := range v.Routes.Routes() {
		if r.Pattern() && len(v.expand(r)) == 0 {
			patterns = append(patterns, r.Name)
		}
	}
	return patterns
}

// expand returns the names that a pattern stands for.
func (v View) expand(r *route.Route) []string {
	begin := strings.TrimSuffix(r.Name, "*")
	var names []string
	seen := map[string]bool{}
	for _, t := range r.Targets {
		before, after, open := strings.Cut(t.Model, "*")
		if !open {
			continue // every name leads to the same model
		}
		for _, id := range v.ids(t.Provider) {
			rest, ok := strings.CutPrefix(id, before)
			if rest, ok = cutSuffix(rest, after, ok); ok && rest != "" && !seen[rest] {
				seen[rest] = true
				names = append(names, begin+rest)
			}
		}
	}
	return names
}

func cutSuffix(s, suffix string, ok bool) (string, bool) {
	rest, found := strings.CutSuffix(s, suffix)
	return rest, ok && found
}

// ids returns the ids of a provider's models: of its list, or else of the price table.
func (v View) ids(p *provider.Provider) []string {
	if models, _ := v.Catalog.known(p); models != nil {
		ids := make([]string, len(models))
		for i, m := range models {
			ids[i] = m.ID
		}
		return ids
	}
	if v.Prices == nil {
		return nil
	}
	return slices.DeleteFunc(v.Prices.Names(p.Preset), func(id string) bool {
		end := Shutdown(p.Preset, id)
		return !end.IsZero() && end.Before(time.Now())
	})
}

// model returns what is known of a model by its first target.
func (v View) model(name string, match route.Match) codec.Model {
	m := codec.Model{ID: name, OwnedBy: match.Route.OwnedBy, Created: v.Created}
	if len(match.Targets) == 0 {
		return m
	}
	t := match.Targets[0]
	if models, byID := v.Catalog.known(t.Provider); byID != nil {
		if i, ok := byID[t.Model]; ok {
			own := models[i]
			m.Name, m.Context, m.MaxOutput, m.Capabilities, m.Price, m.Shutdown = own.Name, own.Context, own.MaxOutput, own.Capabilities, own.Price, own.Shutdown
			if !own.Created.IsZero() {
				m.Created = own.Created
			}
		}
	}
	if m.Shutdown.IsZero() {
		m.Shutdown = Shutdown(t.Provider.Preset, t.Model)
	}
	if v.Prices == nil {
		return m
	}
	if p, ok := v.Prices.Lookup(usage.Query{Preset: t.Provider.Preset, Target: t.Priced(), Cloud: string(t.Provider.CloudName()), Region: t.Provider.Location}); ok && !p.Ceiling { // the operator's prices come before the provider's
		m.Price = codec.Price{Input: perToken(p.Input), CacheRead: perToken(p.CacheRead), CacheWrite: perToken(p.CacheWrite), Output: perToken(p.Output)}
		m.Context = cmp.Or(m.Context, p.Context)
	}
	return m
}

// perToken writes a rate as dollars per token.
func perToken(r usage.Rate) string {
	text := new(big.Rat).SetFrac64(int64(r), 1_000_000_000_000_000).FloatString(15)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// maxSimilar is the largest number of names that a mistyped one is answered with.
const maxSimilar = 3

// Similar returns the names that a mistyped name may stand for: names that have it as
// their last part, such as openai/gpt-x for gpt-x, and then those that differ by a few
// letters. It fetches nothing.
func (v View) Similar(name string, sees func(string) bool) []string {
	if !printable(name) {
		return nil
	}
	var names []string
	for n := range v.names(sees) {
		names = append(names, n)
	}
	var found []string
	add := func(more ...string) {
		for _, m := range more {
			if len(found) < maxSimilar && !slices.Contains(found, m) {
				found = append(found, m)
			}
		}
	}
	for _, n := range names {
		if strings.HasSuffix(n, "/"+name) {
			add(n)
		}
	}
	add(similar.Names(name, names, maxSimilar)...)
	if len(found) == 0 {
		add(v.belowPattern(name, sees)...)
	}
	return found
}

// belowPattern returns the name below each pattern whose provider has models of the same
// family: openai/gpt-x for gpt-x.
func (v View) belowPattern(name string, sees func(string) bool) (found []string) {
	family, _, ok := strings.Cut(name, "-")
	if !ok {
		return nil
	}
	for _, r := range v.Routes.Routes() {
		begin := strings.TrimSuffix(r.Name, "*")
		if !r.Pattern() || !sees(begin+name) {
			continue
		}
		if slices.ContainsFunc(v.expand(r), func(n string) bool { return strings.HasPrefix(n, begin+family+"-") }) {
			found = append(found, begin+name)
		}
	}
	return found
}

// UnknownModel is the code of NotFound's errors.
const UnknownModel = "model_not_found"

// NotFound returns the error for an unknown model, with similar names that the caller may see.
func (v View) NotFound(name string, sees func(string) bool) *llm.Error {
	hint := "GET /v1/models lists those that do"
	if near := v.Similar(name, sees); len(near) > 0 {
		hint = "did you mean '" + strings.Join(near, "' or '") + "'?"
	}
	return &llm.Error{Kind: llm.NotFound, Code: UnknownModel, Param: "model", Message: "the model '" + plain.Short(name, maxName) + "' does not exist here; " + hint}
}

// maxName bounds the characters of an unknown name in a message.
const maxName = 128
