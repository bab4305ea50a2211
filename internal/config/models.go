package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// Discovered is the provider name that stands for discovered workers.
const Discovered = "discovered"

// Hedge configures hedging. A Percentile of 0 turns it off.
type Hedge struct {
	Percentile, Share float64
}

// Model is a model name for clients and its targets. A Name that ends in "*" is a prefix
// pattern; a "*" in a target's model then stands for the rest.
type Model struct {
	Name     string
	OwnedBy  string // owned_by in lists of models
	Targets  []Target
	Balance  string
	Hedge    Hedge
	Continue bool
	Params   *params.Set // nil: none
}

// Target is one model of one provider, or all discovered workers of a model.
type Target struct {
	Provider *provider.Provider // nil for discovered workers
	Model    string
	Weight   int               // 1 or more
	Timeouts provider.Timeouts // the model's, else the provider's, else the file's
}

// String is the target as operators write it.
func (t Target) String() string {
	if t.Provider == nil {
		return Discovered + "/" + t.Model
	}
	return t.Provider.Name + "/" + t.Model
}

func (f *modelFile) resolve(c *Config, byName map[string]*provider.Provider) Model {
	m := Model{Name: f.Name(), OwnedBy: f.OwnedBy}
	f.checkName()
	if len(f.Targets) == 0 {
		f.Wrong("targets", "is required: this model has no target; write targets: [provider/model]")
	}
	own := f.Timeouts.Over(c.Timeouts)
	for i := range f.Targets {
		t := f.Targets[i].resolve(strings.HasSuffix(m.Name, "*"), c.Discover.On(), byName)
		t.Timeouts = own
		if t.Provider != nil {
			t.Timeouts = f.Timeouts.Over(t.Provider.Timeouts)
			m.OwnedBy = cmp.Or(m.OwnedBy, t.Provider.Name)
		}
		m.Targets = append(m.Targets, t)
	}
	if m.OwnedBy == "" && c.Discover.On() {
		m.OwnedBy = Discovered
	}
	m.Balance, m.Hedge, m.Continue = f.balance(), f.Hedge.resolve(), f.Continue
	m.Params = params.New(f.Defaults.resolve(), f.Override.resolve())
	return m
}

// balance returns the configured policy, or weight if a target has a weight.
func (f *modelFile) balance() string {
	if f.Balance == "" && slices.ContainsFunc(f.Targets, func(t targetFile) bool { return t.Has("weight") }) {
		return "weight"
	}
	return cmp.Or(f.Balance, "order")
}

// defaultHedgeShare is small, so that hedging costs little by default.
const defaultHedgeShare = 0.05

func (h *hedgeFile) resolve() Hedge {
	if h.Has("percentile") && !(h.Percentile > 0 && h.Percentile < 100) {
		h.Wrong("percentile", "is not a percentile; write a number between 0 and 100, such as 95")
	}
	if h.Has("share") && !h.Has("percentile") {
		h.Wrong("percentile", "is required for hedging; write one such as 95")
	}
	if !h.Has("share") && h.Has("percentile") {
		h.Share = defaultHedgeShare
	}
	return Hedge{Percentile: h.Percentile, Share: h.Share}
}

func (f *modelFile) checkName() {
	name := f.Name()
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		f.Wrong("", "holds a space or a control character; write a name without")
	case strings.Contains(strings.TrimSuffix(name, "*"), "*"):
		f.Wrong("", "has a \"*\" that is not its last character; write a name such as \"openai/*\"")
	}
}

// maxWeight prevents an overflow of sums of weights.
const maxWeight = 1000

func (f *targetFile) resolve(pattern, found bool, byName map[string]*provider.Provider) Target {
	n := f.Node("target")
	if n == nil { // written alone
		n = f.Node("")
	}
	name, model, ok := strings.Cut(f.Target, "/")
	t := Target{Model: model, Weight: f.Weight, Provider: byName[name]}
	switch {
	case f.Target == "":
		f.WrongNode(n, "is empty; write provider/model")
	case !ok:
		f.WrongNode(n, "%q has no \"/\"; write provider/model", n.Written)
	case name == Discovered && found:
	case t.Provider == nil:
		f.WrongNode(n, "%q names an unknown provider; %s", n.Written, insteadOf(name, byName))
	case model == "":
		f.WrongNode(n, "%q has no model after \"/\"; write provider/model", n.Written)
	case strings.ContainsFunc(model, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		f.WrongNode(n, "%q holds a space or a control character; write a name without", n.Written)
	case !pattern && strings.Contains(model, "*"):
		f.WrongNode(n, "%q has a \"*\", but the model's own name does not end in one; write the model's name", n.Written)
	case strings.Count(model, "*") > 1:
		f.WrongNode(n, "%q has more than one \"*\"; keep one, which stands for the rest of the name", n.Written)
	}
	if t.Weight == 0 && !f.Has("weight") {
		t.Weight = 1
	}
	if t.Weight < 1 || t.Weight > maxWeight {
		f.Wrong("weight", "is not a weight; write a whole number from 1 to %d", maxWeight)
	}
	return t
}

// insteadOf suggests the provider with the most similar name.
func insteadOf(name string, byName map[string]*provider.Provider) string {
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	slices.Sort(names)
	return settings.Instead(name, names)
}
