package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestCut has agents do the job while an upstream breaks an answer off in the middle.
// They learn of it from the gateway's error, ask again by themselves as they would
// without it, and do the job. What they make of the half that had come is their own.
func TestCut(t *testing.T) {
	all := []*agent{opencode()[0], pi()[0]}
	w := newWorld(t, all)
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			for _, name := range []string{a.dialect, "anthropic"} {
				t.Run(name, func(t *testing.T) { w.cut(t, a, rig.DialectNamed(name)) })
			}
		})
	}
}

func (w *world) cut(t *testing.T, a *agent, d *rig.Dialect) {
	m := &model{turns: a.turns, answer: answer, cut: 2}
	w.ups[a].Always(m.step)
	s := newSite(t, w.gateway.URL, a.modelOn(d))
	j := newJob(t, s)
	out, all := a.run(t, s, prompt)
	j.check(t, s, out)
	checkTurns(t, a, m)
	if asked := len(w.ups[a].Requests()); asked <= len(m.took) {
		t.Errorf("the upstream was asked %d times, and no answer broke off", asked)
	}
	if t.Failed() {
		t.Logf("the agent printed:\n%s", all)
	}
}
