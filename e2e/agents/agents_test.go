package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestAgents has every agent do the job on upstreams of all four dialects, through one
// gateway, and answer once from a real engine. The table of what was done is in
// docs/compatibility.md.
func TestAgents(t *testing.T) {
	w := newWorld(t)
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			for _, d := range rig.Dialects() {
				done := t.Run(d.Name, func(t *testing.T) { w.play(t, a, d) })
				w.cells[cell{a.name, d.Name}] = done
			}
			if !a.variant { // to an engine all of them are one
				done := t.Run("engine", func(t *testing.T) { w.ask(t, a) })
				w.cells[cell{a.name, "engine"}] = done
			}
		})
	}
	w.publish(t)
}

// A cell of the table.
type cell struct{ agent, upstream string }

// A world is what all agents share, and what has come of each cell.
type world struct {
	up      *rig.Upstream
	engine  *rig.Engine
	gateway *rig.Gateway
	tap     *rig.Wiretap // before the gateway
	cells   map[cell]bool
}

func newWorld(t *testing.T) *world {
	w := &world{up: rig.NewUpstream(t), engine: startEngine(t), cells: map[cell]bool{}}
	var b strings.Builder
	b.WriteString("listen: %s\nadmin: { listen: %s }\nkeys: [ " + rig.ClientKey + " ]\nretries: { attempts: 1 }\nproviders:\n")
	for _, d := range rig.Dialects() {
		fmt.Fprintf(&b, "  on-%s: { protocol: %s, base_url: %q, api_key: %s }\n", d.Name, d.Name, w.up.URL()+d.Prefix, rig.UpstreamKey)
	}
	fmt.Fprintf(&b, "  engine: { preset: llamacpp, base_url: %q }\nmodels:\n", w.engine.URL+"/v1")
	for _, a := range agents() {
		fmt.Fprintf(&b, "  %s: { targets: [ engine/%s ] }\n", a.engineModel(), w.engine.Model)
		for _, d := range rig.Dialects() {
			fmt.Fprintf(&b, "  %s: { targets: [ on-%s/%s ] }\n", a.modelOn(d), d.Name, d.Target)
		}
	}
	w.gateway = rig.StartGateway(t, rig.Build(t), b.String())
	w.tap = rig.NewWiretap(t, w.gateway.Listen)
	return w
}

// play has one agent do the job on one upstream.
func (w *world) play(t *testing.T, a *agent, d *rig.Dialect) {
	w.tap.Got.Reset()
	m := &model{dialect: d, turns: a.turns, answer: answer}
	w.up.Always(m.step)
	s := newSite(t, w.tap.URL, a.modelOn(d))
	j := newJob(t, s)
	out, all := a.run(t, s, prompt)
	got := w.up.Requests()
	defer func() {
		if t.Failed() {
			t.Logf("the agent printed:\n%s\nthe upstream got:\n%s\nthe agent got:\n%.9000s", all, dump(got), w.tap.Got)
		}
	}()
	j.check(t, s, out)
	checkTurns(t, a, m)
	checkUpstream(t, d, got)
	checkSeals(t, d, m, got)
	w.checkAgent(t, a, d)
}

// checkAgent holds that the gateway owned up to what it could not carry, and no more,
// and that the agent was sent what it had declared.
func (w *world) checkAgent(t *testing.T, a *agent, d *rig.Dialect) {
	t.Helper()
	came := w.tap.Got.String()
	for _, want := range a.gets {
		if !strings.Contains(came, want) {
			t.Errorf("the agent was not sent %s", want)
		}
	}
	reports := fidelities(came)
	for i, r := range reports {
		if d.Name == a.dialect && r != "exact" {
			t.Errorf("answer %d is not exact on the agent's own dialect: %s", i, r)
		}
	}
	all := strings.Join(reports, "\n")
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
		fmt.Fprintf(&b, "  %d: %s\n     … %s\n", i, g.Target, g.Body[max(0, len(g.Body)-3000):])
	}
	if len(got) == 0 {
		return "  nothing"
	}
	return b.String()
}
