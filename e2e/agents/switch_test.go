package agents

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// route is the vendors of a conversation, in order: it starts at the vendor whose dialect
// the agent speaks, moves to two others and comes back. A client of Chat starts at
// Anthropic, which seals its reasoning.
func route(a *agent) []string {
	switch a.dialect {
	case "openai-responses":
		return []string{"openai-responses", "anthropic", "gemini", "openai-responses"}
	case "gemini":
		return []string{"gemini", "anthropic", "openai-responses", "gemini"}
	}
	return []string{"anthropic", "openai-responses", "gemini", "anthropic"}
}

// A trip is one conversation that moves from vendor to vendor.
type trip struct {
	a       *agent
	route   []string
	up      *rig.Upstream
	tap     *rig.Wiretap
	s       *site
	facts   []string // what the commands print, two for each turn
	prompts []string
	said    []string
	open    *dialogue // nil for an agent that resumes
}

// failoverModel is the name of the model with several targets. Agents choose their tools and
// what they send back by a part of it.
func failoverModel(a *agent) string { return a.modelOn(&rig.Dialect{Name: "several"}) }

func newTrip(t *testing.T, a *agent, route []string) *trip {
	t.Helper()
	c := &trip{a: a, route: route, up: rig.NewUpstream(t)}
	var providers, models strings.Builder
	var targets []string
	for _, d := range rig.Dialects() {
		fmt.Fprintf(&providers, "  %s: { protocol: %s, base_url: %q, api_key: %s }\n", d.Name, d.Name, c.up.URL()+d.Prefix, rig.UpstreamKey)
		fmt.Fprintf(&models, "  %s: { targets: [ %s/%s ] }\n", a.modelOn(d), d.Name, d.Target)
		if slices.Contains(route, d.Name) {
			targets = append(targets, d.Name+"/"+d.Target)
		}
	}
	fmt.Fprintf(&models, "  %s: { targets: [ %s ] }\n", failoverModel(a), strings.Join(targets, ", "))
	g := rig.StartGateway(t, rig.Build(t), "keys: [ "+rig.ClientKey+" ]\nproviders:\n"+providers.String()+"models:\n"+models.String())
	c.tap = rig.NewWiretap(t, g.URL)
	c.s = newSite(t, c.tap.URL, "")
	for i := range 2 * len(route) {
		c.facts = append(c.facts, "fact-"+rand.Text()[:8])
		if err := os.WriteFile(filepath.Join(c.s.folder, fmt.Sprintf("%d.txt", i)), []byte(c.facts[i]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// turns are the calls of the first n turns: each reads two files at once.
func (c *trip) turns(n int) []turn {
	var all []turn
	for i := range n {
		all = append(all, turn{c.a.shell(fmt.Sprintf("cat %d.txt", 2*i)), c.a.shell(fmt.Sprintf("cat %d.txt", 2*i+1))})
	}
	return all
}

// switches has an agent change to models of other vendors in one conversation, and then
// back to the first.
func switches(t *testing.T, a *agent, route []string) { newTrip(t, a, route).change(t) }

// failsOver has an agent work for several turns on one model with targets at several
// vendors. One vendor serves each turn, and the others fail.
func failsOver(t *testing.T, a *agent, route []string) { newTrip(t, a, route).failOver(t) }

// change has the agent go on with the model of the next vendor, in the same process where
// it can, and by resuming the conversation where not.
func (c *trip) change(t *testing.T) {
	if c.a.dialogue != nil {
		c.s.model = c.a.modelOn(rig.DialectNamed(c.route[0]))
		c.open = c.a.dialogue(c.s)
		defer c.open.open(t, c.a, c.s)()
	}
	for i := range c.route {
		d := rig.DialectNamed(c.route[i])
		c.s.model, c.s.resume, c.s.others = c.a.modelOn(d), i > 0, nil
		for _, other := range rig.Dialects() {
			if other.Name != d.Name {
				c.s.others = append(c.s.others, c.a.modelOn(other))
			}
		}
		m := &model{turns: c.turns(i + 1), route: append(slices.Clone(c.route[:i+1]), c.route[i])}
		if c.a.textOnly {
			m.turns, m.route = nil, c.route[i:i+1]
		}
		if !c.say(t, m) {
			return
		}
	}
}

// failOver has the agent read all files, and another vendor serves each turn.
func (c *trip) failOver(t *testing.T) {
	c.s.model = failoverModel(c.a)
	c.say(t, &model{turns: c.turns(len(c.route)), route: c.route})
	all := strings.Join(fidelities(c.tap.Got.String()), "\n")
	// A client of Chat does not send reasoning back.
	if c.a.dialect != "openai-chat" && !strings.Contains(all, "reasoning.foreign") && !strings.Contains(all, "seal.foreign") {
		t.Errorf("the gateway does not own up to the reasoning of other vendors: %s", all)
	}
}

// say gives the agent the next prompt, and holds that it comes to the answer and that
// each request has what was said so far.
func (c *trip) say(t *testing.T, m *model) bool {
	t.Helper()
	ask := fmt.Sprintf("This is prompt %d: read the next files.", len(c.prompts)+1)
	text := fmt.Sprintf("Answer %d: %s.", len(c.prompts)+1, c.facts[2*len(c.prompts)])
	c.prompts = append(c.prompts, ask)
	m.known, m.thinks, m.answer = c.a.shell("").flat(), true, func([]string) string { return text }
	c.up.Always(m.step)
	out, all := c.send(t, ask)
	got := c.up.Requests()
	if !strings.Contains(out, text) {
		t.Errorf("the agent does not print %q", text)
	}
	if last := m.played(); len(last) == 0 || last[len(last)-1] != len(m.turns) {
		t.Errorf("the model was asked for the turns %d, and not for the answer", last)
	}
	for i, g := range got {
		c.check(t, i, g, m)
	}
	c.said = append(c.said, text)
	if t.Failed() {
		t.Logf("prompt %d; the agent printed:\n%s\nthe upstream got:\n%s", len(c.prompts), all, dump(got))
	}
	return !t.Failed()
}

// send gives the agent a prompt and returns what it prints.
func (c *trip) send(t *testing.T, ask string) (out, all string) {
	t.Helper()
	if c.open == nil {
		return c.a.run(t, c.s, ask)
	}
	model := ""
	if len(c.prompts) > 1 {
		model = c.s.model
	}
	out = c.open.send(t, model, ask)
	return out, out
}

// check holds that a request has the whole conversation, the seals of the vendor that it
// goes to, and none of another.
func (c *trip) check(t *testing.T, i int, g *rig.Received, m *model) {
	t.Helper()
	d, f := checkRequest(t, c.a, i, g)
	at, _ := m.reply(f)
	for _, other := range rig.Dialects() {
		if seal := other.Seal(); other.Name != d.Name && seal != "" && bytes.Contains(g.Body, []byte(seal)) {
			t.Errorf("request %d brings the seal of %s to %s", i, other.Name, d.Name)
		}
	}
	if bytes.Contains(g.Body, []byte(marker)) {
		t.Errorf("request %d to %s has a seal of the gateway's own", i, d.Name)
	}
	if at == side {
		return
	}
	for _, p := range c.prompts {
		if !slices.ContainsFunc(f.User, func(u string) bool { return strings.Contains(u, p) }) {
			t.Errorf("request %d to %s has lost the prompt %q", i, d.Name, p)
		}
	}
	for _, s := range c.said {
		if !slices.ContainsFunc(f.Said, func(text string) bool { return strings.Contains(text, s) }) {
			t.Errorf("request %d to %s has lost the answer %q, and has %q", i, d.Name, s, f.Said)
		}
	}
	if len(f.Results) != 2*at {
		t.Errorf("request %d to %s has %d results, want %d", i, d.Name, len(f.Results), 2*at)
	}
	for j, r := range f.Results {
		if !strings.Contains(r, c.facts[j]) || !strings.Contains(r, fmt.Sprintf("cat %d.txt", j)) {
			t.Errorf("request %d to %s has the result %s, want %s", i, d.Name, r, c.facts[j])
		}
	}
	seals := strings.ReplaceAll(f.Seal, unsigned, "")
	if c.a.drops {
		if strings.ReplaceAll(seals, d.Seal(), "") != "" {
			t.Errorf("request %d to %s brings the seals %q, of which some are not the vendor's", i, d.Name, f.Seal)
		}
		return
	}
	if want := strings.Repeat(d.Seal(), c.sealed(d, m, at)); seals != want {
		t.Errorf("request %d to %s brings the seals %q back, want %q", i, d.Name, f.Seal, want)
	}
}

// unsigned is what Google wants on calls that its model has not made.
const unsigned = "skip_thought_signature_validator"

// marker is how the gateway's own seals begin, in base64.
const marker = "aXNvZ2xvc3M"

// sealed is the number of seals that a vendor has given before a turn.
func (c *trip) sealed(d *rig.Dialect, m *model, at int) int {
	n := 0
	for i := range at {
		if m.servedBy(i) == d.Name {
			n++
		}
	}
	for i := range c.said {
		// Google seals calls. The seals of other vendors on texts come back only from clients of
		// Messages: others drop the members that carry them.
		if c.route[i] == d.Name && d.Name != "gemini" && (c.a.dialect == d.Name || c.a.dialect == "anthropic") {
			n++
		}
	}
	return n
}
