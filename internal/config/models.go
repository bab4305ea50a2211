package config

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/targets/params"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

func (f *modelFile) resolve(c *Config, byName map[string]*provider.Provider, ps *Problems) Model {
	m := Model{Name: f.node.key, OwnedBy: f.OwnedBy}
	f.checkName(ps)
	if len(f.Targets) == 0 {
		ps.addKey(&f.at, "targets", "is required: this model has no target; write targets: [provider/model]")
	}
	// Resolve once to report errors; each target merges it with its provider's timeouts.
	own := f.Timeouts.over(c.Timeouts, ps)
	for i := range f.Targets {
		t := f.Targets[i].resolve(strings.HasSuffix(m.Name, "*"), c.Discover.On(), byName, ps)
		t.Timeouts = own
		if t.Provider != nil {
			t.Timeouts = f.Timeouts.over(t.Provider.Timeouts, ps)
			m.OwnedBy = or(m.OwnedBy, t.Provider.Name)
		}
		m.Targets = append(m.Targets, t)
	}
	if m.OwnedBy == "" && c.Discover.On() {
		m.OwnedBy = Discovered
	}
	m.Balance, m.Hedge, m.Continue = f.balance(), f.Hedge.resolve(ps), f.Continue
	m.Params = params.New(f.Defaults.resolve(ps), f.Override.resolve(ps))
	return m
}

// balance returns the configured policy, or weight if a target has a weight.
func (f *modelFile) balance() string {
	if f.Balance == "" && slices.ContainsFunc(f.Targets, func(t targetFile) bool { return t.has("weight") }) {
		return "weight"
	}
	return string(or(f.Balance, "order"))
}

// defaultHedgeShare is small, so that hedging costs little by default.
const defaultHedgeShare = 0.05

func (h *hedgeFile) resolve(ps *Problems) Hedge {
	if h.has("percentile") && !(h.Percentile > 0 && h.Percentile < 100) {
		ps.addKey(&h.at, "percentile", "is not a percentile; write a number between 0 and 100, such as 95")
	}
	if h.has("share") && !h.has("percentile") {
		ps.addKey(&h.at, "percentile", "is required for hedging; write one such as 95")
	}
	h.checkShare("share", h.Share, ps)
	if !h.has("share") && h.has("percentile") {
		h.Share = defaultHedgeShare
	}
	return Hedge{Percentile: h.Percentile, Share: h.Share}
}

func (f *modelFile) checkName(ps *Problems) {
	name := f.node.key
	switch {
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		ps.add(f.node, "holds a space or a control character; write a name without")
	case strings.Contains(strings.TrimSuffix(name, "*"), "*"):
		ps.add(f.node, "has a \"*\" that is not its last character; write a name such as \"openai/*\"")
	}
}

// maxWeight prevents an overflow of sums of weights.
const maxWeight = 1000

func (f *targetFile) resolve(pattern, found bool, byName map[string]*provider.Provider, ps *Problems) Target {
	n := f.node
	if c := n.child("target"); c != nil {
		n = c
	}
	name, model, ok := strings.Cut(f.Target, "/")
	t := Target{Model: model, Weight: f.Weight, Provider: byName[name]}
	switch {
	case f.Target == "":
		ps.add(n, "is empty; write provider/model")
	case !ok:
		ps.add(n, "%q has no \"/\"; write provider/model", n.written)
	case name == Discovered && found:
	case t.Provider == nil:
		ps.add(n, "%q names an unknown provider; %s", n.written, insteadOf(name, byName))
	case model == "":
		ps.add(n, "%q has no model after \"/\"; write provider/model", n.written)
	case strings.ContainsFunc(model, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		ps.add(n, "%q holds a space or a control character; write a name without", n.written)
	case !pattern && strings.Contains(model, "*"):
		ps.add(n, "%q has a \"*\", but the model's own name does not end in one; write the model's name", n.written)
	case strings.Count(model, "*") > 1:
		ps.add(n, "%q has more than one \"*\"; keep one, which stands for the rest of the name", n.written)
	}
	if t.Weight == 0 && !f.has("weight") {
		t.Weight = 1
	}
	if t.Weight < 1 || t.Weight > maxWeight {
		ps.addKey(&f.at, "weight", "is not a weight; write a whole number from 1 to %d", maxWeight)
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
	return instead(name, names)
}
