package engines

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// The engine without a gateway: whatever fails here is no fault of ours.
func TestEngineAlone(t *testing.T) {
	t.Run("scripted weights say what they were made to say", func(t *testing.T) {
		e := rig.StartEngine(t, rig.EngineOptions{Weights: rig.ScriptedWeights(t, "All", " is", " well", ".")})
		answer := rig.Parse(e.Post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"How are you?"}]}`))
		if got := answer.List("choices")[0].Obj("message").Str("content"); got != "All is well." {
			t.Errorf("the engine says %q", got)
		}
	})
}
