package agents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// TestEngine asks every agent for a text, which a real engine writes. Its weights are
// made to say one thing; what is real is the engine that takes the agent's request of
// some ten thousand tokens, with its tools, and streams.
func TestEngine(t *testing.T) {
	const said = "The door has been purple since noon."
	engine := rig.StartEngine(t, rig.EngineOptions{
		Weights: rig.ScriptedWeights(t, strings.SplitAfter(said, " ")...), Tools: true, Model: "chain", Slots: 1, Context: 131072,
	})
	var b strings.Builder
	b.WriteString("listen: %s\nadmin: { listen: %s }\nkeys: [ " + rig.ClientKey + " ]\nretries: { attempts: 1 }\n")
	fmt.Fprintf(&b, "providers:\n  engine: { preset: llamacpp, base_url: %q }\nmodels:\n", engine.URL+"/v1")
	for _, a := range agents() {
		fmt.Fprintf(&b, "  %s: { targets: [ engine/chain ] }\n", a.engineModel())
	}
	gateway := rig.StartGateway(t, rig.Build(t), b.String())
	for _, a := range agents() {
		if a.variant {
			continue // to an engine all of them are one
		}
		t.Run(a.name, func(t *testing.T) {
			before := engine.Metrics(t)["tokens_predicted_total"]
			out, all := a.run(t, newSite(t, gateway.URL, a.engineModel()), "What colour is the door?")
			if !strings.Contains(out, said) {
				t.Errorf("the agent does not print %q:\n%s", said, all)
			}
			if engine.Metrics(t)["tokens_predicted_total"] == before {
				t.Error("the engine has written nothing")
			}
		})
	}
}

// engineModel is the name that the agent asks for on the engine.
func (a *agent) engineModel() string {
	return a.modelOn(&rig.Dialect{Name: "engine"})
}
