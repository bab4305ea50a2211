package agents

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// engineSays is all that the engine's weights are made to say. What is real is the
// engine, which takes the agent's long request with its tools in it, and streams.
const engineSays = "The door has been purple since noon."

func startEngine(t *testing.T) *rig.Engine {
	return rig.StartEngine(t, rig.EngineOptions{
		Weights: rig.ScriptedWeights(t, strings.SplitAfter(engineSays, " ")...), Tools: true, Model: "chain", Slots: 1, Context: 131072,
	})
}

// engineModel is the name that the agent asks for on the engine.
func (a *agent) engineModel() string { return a.modelOn(&rig.Dialect{Name: "engine"}) }

// ask has an agent answer a question, for which it needs no tool.
func (w *world) ask(t *testing.T, a *agent) {
	before := w.engine.Metric(t, "tokens_predicted_total")
	out, all := a.run(t, newSite(t, w.gateway.URL, a.engineModel()), "What colour is the door?")
	if !strings.Contains(out, engineSays) {
		t.Errorf("the agent does not print %q:\n%s", engineSays, all)
	}
	if w.engine.Metric(t, "tokens_predicted_total") == before {
		t.Error("the engine has written nothing")
	}
}
