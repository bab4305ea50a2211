package agents

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestCut has agents do the job while an upstream breaks an answer off in the middle, and
// is overloaded for the turn after it. They learn of both from the gateway's error, ask
// again by themselves as they would without it, and do the job. What they make of the half
// that had come is their own.
func TestCut(t *testing.T) {
	all := map[*agent][]string{claude(): {"anthropic", "openai-responses"}, opencode()[0]: {"openai-chat", "anthropic"}, pi()[0]: {"openai-chat", "anthropic"}}
	var list []*agent
	for a := range all {
		list = append(list, a)
	}
	w := newWorld(t, list)
	for a, upstreams := range all {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range upstreams {
				t.Run(name, func(t *testing.T) { w.cut(t, a, rig.DialectNamed(name)) })
			}
		})
	}
}

func (w *world) cut(t *testing.T, a *agent, d *rig.Dialect) {
	m := &model{turns: a.turns, answer: answer, cut: 2, busy: 3}
	w.ups[a].Always(m.step)
	s := newSite(t, w.gateway.URL, a.modelOn(d))
	j := newJob(t, s)
	out, all := a.run(t, s, prompt)
	j.check(t, s, out)
	checkTurns(t, a, m)
	if asked := len(w.ups[a].Requests()); asked < len(m.took)+2 {
		t.Errorf("the upstream was asked %d times for %d answers, and did not fail twice", asked, len(m.took))
	}
	if t.Failed() {
		t.Logf("the agent printed:\n%s", all)
	}
}
