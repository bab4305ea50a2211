package engines

import (
	"fmt"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/e2e/gosdk"
	"github.com/isogloss-gateway/isogloss/e2e/rig"
)

// upstreams are the dialects that the engine speaks. To the gateway it is three
// providers.
var upstreams = []string{"openai-chat", "openai-responses", "anthropic"}

// stage is a real engine, one that calls a tool whatever it is asked, the gateway in
// front of both and clients in all dialects.
type stage struct {
	engine  *rig.Engine // with real weights
	caller  *rig.Engine // with weights that call get_weather
	gateway *rig.Gateway
	clients []*client
	said    map[string]gosdk.Answer // by the engine itself, to what it was asked
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{
		said:   map[string]gosdk.Answer{},
		engine: rig.StartEngine(t, rig.EngineOptions{More: []string{"--embeddings", "--pooling", "mean"}}),
		caller: rig.StartEngine(t, rig.EngineOptions{Tools: true, Model: "caller", Weights: rig.ScriptedWeights(t, weatherCall()...)}),
	}
	providers := map[string]*rig.Engine{"real": s.engine, "calls": s.caller}
	s.gateway = rig.StartGateway(t, rig.Build(t), configuration(providers))
	s.clients = clients(t, s.gateway)
	return s
}

// live is the end of the names of models whose upstream is asked to stream whatever the
// client has asked for.
const live = "-live"

// weatherCall is the call get_weather {"city": "Paris"} in Qwen's form, in pieces no two
// of which are the same.
func weatherCall() []string {
	return []string{"<tool_call>", "\n{\"name\"", ": \"get", "_weather\"", ", \"arguments\"", ": {\"city\"", ": \"Paris", "\"}}", "\n</tool_call>"}
}

// configuration has a provider and a model for each engine in each dialect, for example
// real-anthropic, and the same once more that is always asked to stream, for example
// real-anthropic-live.
func configuration(engines map[string]*rig.Engine) string {
	var providers, models strings.Builder
	for name, e := range engines {
		for _, u := range upstreams {
			for end, stream := range map[string]string{"": "mirror", live: "always"} {
				on := name + "-" + u + end
				fmt.Fprintf(&providers, "  %s: { protocol: %s, base_url: %q, api_key: %s, upstream_stream: %s }\n", on, u, e.URL+rig.DialectNamed(u).SDKPath, rig.UpstreamKey, stream)
				fmt.Fprintf(&models, "  %s: { targets: [ %s/%s ] }\n", on, on, e.Model)
			}
		}
	}
	return "keys: [ " + rig.ClientKey + " ]\nproviders:\n" + providers.String() + "models:\n" + models.String()
}

// direct asks the engine itself, over Chat. It is asked the same only once.
func (s *stage) direct(t *testing.T, q gosdk.Request) gosdk.Answer {
	t.Helper()
	q.Model = s.engine.Model
	key := fmt.Sprint(q)
	if a, ok := s.said[key]; ok {
		return a
	}
	a, err := newClient(t, s.engine.URL+"/v1", gosdk.Chat).ask(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	s.said[key] = a
	return a
}

// counted is how many tokens the engine says it has read, taken from its cache and
// written while f ran. Nobody else may ask it then.
func (s *stage) counted(t *testing.T, f func()) gosdk.Usage {
	t.Helper()
	names := []string{"prompt_tokens_total", "prompt_tokens_cached_total", "tokens_predicted_total"}
	grown := map[string]int{}
	for _, name := range names {
		grown[name] = -int(s.engine.Metric(t, name))
	}
	f()
	for _, name := range names {
		grown[name] += int(s.engine.Metric(t, name))
	}
	u := gosdk.Usage{Cached: grown["prompt_tokens_cached_total"], Output: grown["tokens_predicted_total"]}
	u.Input = grown["prompt_tokens_total"] + u.Cached
	u.Total = u.Input + u.Output
	return u
}
