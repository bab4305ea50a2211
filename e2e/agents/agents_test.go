package agents

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestAgents has every agent do the job on Chat, Responses, Messages, Gemini and Converse upstreams, through one
// gateway, and answer once from a real engine. Then a conversation moves from vendor to
// vendor, by failover and by the agent's own change of models. The table of what was done is in
// docs/evidence/compatibility.md.
func TestAgents(t *testing.T) {
	all := agents()
	w := newWorld(t, all)
	t.Cleanup(func() { w.publish(t) }) // when all have ended
	for i, a := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel() // an agent spends much of its time waiting
			if testing.Short() {
				w.selection(t, a, i)
				return
			}
			for _, d := range rig.Dialects() {
				done := t.Run(d.Name, func(t *testing.T) { w.play(t, a, d) })
				w.note(a, d.Name, done)
			}
			if a.variant { // to an engine all of them are one
				return
			}
			w.note(a, "engine", t.Run("engine", func(t *testing.T) { w.ask(t, a) }))
			w.note(a, "failover", t.Run("failover", func(t *testing.T) { failsOver(t, a, route(a)) }))
			w.note(a, "switch", t.Run("switch", func(t *testing.T) { switches(t, a, route(a)) }))
		})
	}
}

// selection has an agent do the job on one upstream of another dialect, and fail over. Agents take the upstreams in turn.
func (w *world) selection(t *testing.T, a *agent, i int) {
	others := slices.DeleteFunc(slices.Clone(rig.Dialects()), func(d *rig.Dialect) bool { return d.Name == a.dialect })
	d := others[i%len(others)]
	t.Run(d.Name, func(t *testing.T) { w.play(t, a, d) })
	if !a.variant {
		t.Run("failover", func(t *testing.T) { failsOver(t, a, route(a)) })
	}
}

// A cell of the table.
type cell struct{ agent, upstream string }

// A world is one gateway, what is behind it, and what has come of each cell. Each agent
// has an upstream to itself, on which it works in one dialect after the other.
type world struct {
	ups     map[*agent]*rig.Upstream
	engine  *rig.Engine
	gateway *rig.Gateway

	mu    sync.Mutex
	cells map[cell]bool
}

func newWorld(t *testing.T, all []*agent) *world {
	w := &world{ups: map[*agent]*rig.Upstream{}, engine: startEngine(t), cells: map[cell]bool{}}
	var providers, models strings.Builder
	for _, a := range all {
		w.ups[a] = rig.NewUpstream(t)
		for _, d := range rig.Dialects() {
			name := a.name + "-on-" + d.Name
			fmt.Fprintf(&providers, "  %s: { protocol: %s, base_url: %q, api_key: %s }\n", name, d.Name, w.ups[a].URL()+d.Prefix, rig.UpstreamKey)
			fmt.Fprintf(&models, "  %s: { targets: [ %s/%s ] }\n", a.modelOn(d), name, d.Target)
			if d.Name == "anthropic" && a.further != "" {
				fmt.Fprintf(&models, "  %s: { targets: [ %s/%s ] }\n", a.further, name, d.Target)
			}
		}
		fmt.Fprintf(&models, "  %s: { targets: [ engine/%s ] }\n", a.engineModel(), w.engine.Model)
	}
	w.gateway = rig.StartGateway(t, rig.Build(t), "keys: [ "+rig.ClientKey+" ]\nretries: { attempts: 1 }\n"+
		"providers:\n  engine: { preset: llamacpp, base_url: "+w.engine.URL+"/v1 }\n"+providers.String()+"models:\n"+models.String())
	return w
}

func (w *world) note(a *agent, upstream string, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cells[cell{a.name, upstream}] = done
}

// play has one agent do the job on one upstream.
func (w *world) play(t *testing.T, a *agent, d *rig.Dialect) {
	tap := rig.NewWiretap(t, w.gateway.URL)
	m := &model{turns: a.turns, answer: answer}
	w.ups[a].Always(m.step)
	s := newSite(t, tap.URL, a.modelOn(d))
	j := newJob(t, s)
	out, all := a.run(t, s, prompt)
	got := w.ups[a].Requests()
	defer func() {
		if t.Failed() {
			t.Logf("the agent printed:\n%s\nthe upstream got:\n%s\nthe agent got:\n%.9000s", all, dump(got), tap.Got)
		}
	}()
	j.check(t, s, out)
	checkTurns(t, a, m)
	m.checkUpstream(t, a, d, got)
	checkSeals(t, d, m, got)
	if !strings.Contains(tap.Sent.String(), a.sends) {
		t.Errorf("the agent did not send %s", a.sends)
	}
	if a.reaches != "" && !slices.ContainsFunc(got, func(g *rig.Received) bool { return bytes.Contains(g.Body, []byte(a.reaches)) }) {
		t.Errorf("the upstream was not sent %s", a.reaches)
	}
	checkAgent(t, a, d, tap.Got.String())
}

// checkAgent holds that the agent was sent what it had declared, and that the gateway
// owned up to what it could not carry.
func checkAgent(t *testing.T, a *agent, d *rig.Dialect, came string) {
	t.Helper()
	for _, want := range a.gets {
		if !strings.Contains(came, want) {
			t.Errorf("the agent was not sent %s", want)
		}
	}
	reports := fidelities(came)
	all := strings.Join(reports, "\n")
	if exact := strings.Count(all, "exact"); d.Name == a.dialect && exact < len(a.turns)+1 {
		t.Errorf("on the agent's own dialect %d answers are exact, want all of the job: %s", exact, all)
	}
	for _, code := range a.told[d.Name] {
		if !strings.Contains(all, code) {
			t.Errorf("the gateway does not own up to %s: %s", code, all)
		}
	}
}

// fidelities are the reports at the head of the answers.
func fidelities(came string) []string {
	var all []string
	for line := range strings.Lines(came) {
		if report, ok := strings.CutPrefix(strings.TrimSpace(line), "Isogloss-Fidelity: "); ok {
			all = append(all, report)
		}
	}
	return all
}

// dump shows what the upstream got, for a report of what went wrong. An agent's first
// message is long and says little, so only the end of a request is shown.
func dump(got []*rig.Received) string {
	var b strings.Builder
	for i, g := range got {
		fmt.Fprintf(&b, "  %d: %s\n     … %s\n", i, g.URI, g.Body[max(0, len(g.Body)-3000):])
	}
	if len(got) == 0 {
		return "  nothing"
	}
	return b.String()
}
