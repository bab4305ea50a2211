package params

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/all"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func dialect(t testing.TB, name protocol.Name) *codec.Dialect {
	t.Helper()
	for _, d := range all.Dialects() {
		if d.Name == name {
			return d
		}
	}
	t.Fatal(name)
	return nil
}

var (
	deep  = &Set{Defaults: Values{Effort: "high", Temperature: "0.2", TopP: "0.9", MaxTokens: 4096}}
	fixed = &Set{Override: Values{Effort: "low", Temperature: "0.2", MaxTokens: 4096}}
	off   = &Set{Override: Values{Effort: "none"}}
)

// TestPatch compares whole bodies: every byte but the parameters stays as it is.
func TestPatch(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      *Set
		dialect  protocol.Name
		gates    protocol.Gates
		in, want string
		losses   string
	}{
		{"chat gets all defaults", deep, protocol.OpenAIChat, protocol.Gates{},
			`{"model": "m", "messages" : [{"role":"user","content":"é\u00e9"}] }`,
			`{"model": "m", "messages" : [{"role":"user","content":"é\u00e9"}],"max_completion_tokens":4096,"temperature":0.2,"top_p":0.9,"reasoning_effort":"high" }`, ""},
		{"chat keeps the client's own", deep, protocol.OpenAIChat, protocol.Gates{},
			`{"model":"m","messages":[],"temperature":1.0,"max_tokens":7,"reasoning_effort":"minimal","top_p":null}`,
			`{"model":"m","messages":[],"temperature":1.0,"max_tokens":7,"reasoning_effort":"minimal","top_p":0.9}`, ""},
		{"chat: the model's name of the limit", deep, protocol.OpenAIChat, protocol.Gates{MaxTokensName: "max_tokens", Efforts: []string{"low", "medium"}, NoSampling: false},
			`{"model":"m","messages":[]}`,
			`{"model":"m","messages":[],"max_tokens":4096,"temperature":0.2,"top_p":0.9,"reasoning_effort":"medium"}`, ""},
		{"chat: override keeps the client's name of the limit", fixed, protocol.OpenAIChat, protocol.Gates{},
			`{"max_tokens":7,"temperature":0.20,"model":"m","reasoning_effort":"high","messages":[]}`,
			`{"max_tokens":4096,"temperature":0.2,"model":"m","reasoning_effort":"low","messages":[]}`, "output.max_tokens reasoning"},
		{"chat: override of both names", fixed, protocol.OpenAIChat, protocol.Gates{},
			`{"max_tokens":7,"max_completion_tokens":8,"model":"m","messages":[]}`,
			`{"max_tokens":4096,"max_completion_tokens":4096,"model":"m","messages":[],"temperature":0.2,"reasoning_effort":"low"}`, "output.max_tokens"},
		{"responses", deep, protocol.OpenAIResponses, protocol.Gates{},
			`{"model":"m","input":"x","reasoning":{"summary":"auto","new":1}}`,
			`{"model":"m","input":"x","reasoning":{"summary":"auto","new":1,"effort":"high"},"max_output_tokens":4096,"temperature":0.2,"top_p":0.9}`, ""},
		{"responses: override", fixed, protocol.OpenAIResponses, protocol.Gates{},
			`{"reasoning":{"effort":"high","new":1},"model":"m","input":"x","max_output_tokens":5}`,
			`{"reasoning":{"effort":"low","new":1},"model":"m","input":"x","max_output_tokens":4096,"temperature":0.2}`, "output.max_tokens reasoning"},
		{"messages, adaptive", &Set{Defaults: Values{Effort: "high"}}, protocol.Anthropic, protocol.Gates{Adaptive: true},
			`{"model":"m","max_tokens":9,"messages":[]}`,
			`{"model":"m","max_tokens":9,"messages":[],"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}}`, ""},
		{"messages, adaptive: override of a budget", fixed, protocol.Anthropic, protocol.Gates{Adaptive: true, NoSampling: true},
			`{"model":"m","thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":9000,"output_config":{"format":{"type":"json_schema","schema":{}}},"messages":[],"temperature":0.7}`,
			`{"model":"m","thinking":{"type":"adaptive","display":"summarized"},"max_tokens":4096,"output_config":{"format":{"type":"json_schema","schema":{}},"effort":"low"},"messages":[]}`,
			"sampling.temperature output.max_tokens reasoning"},
		{"messages, budget: sampling that thinking forbids", &Set{Defaults: Values{Effort: "low"}}, protocol.Anthropic, protocol.Gates{Budget: true},
			`{"model":"m","max_tokens":9000,"messages":[],"temperature":0.7,"top_k":5}`,
			`{"model":"m","max_tokens":9000,"messages":[],"thinking":{"type":"enabled","budget_tokens":2048}}`, "sampling.temperature sampling.top_k"},
		{"messages: a forced tool", &Set{Defaults: Values{Effort: "low", Temperature: "0.5"}}, protocol.Anthropic, protocol.Gates{Budget: true},
			`{"model":"m","max_tokens":9000,"messages":[],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`,
			`{"model":"m","max_tokens":9000,"messages":[],"tools":[{"name":"t","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"temperature":0.5}`, ""},
		{"messages: a result of a call without signed thinking", &Set{Defaults: Values{Effort: "low"}}, protocol.Anthropic, protocol.Gates{Budget: true},
			`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}]}`,
			`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}]}`, ""},
		{"messages: a result of a call with signed thinking", &Set{Defaults: Values{Effort: "low"}}, protocol.Anthropic, protocol.Gates{Budget: true},
			`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}]}`,
			`{"model":"m","max_tokens":9000,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"1"}]}],"thinking":{"type":"enabled","budget_tokens":2048}}`, ""},
		{"messages: no thinking", off, protocol.Anthropic, protocol.Gates{Adaptive: true},
			`{"thinking":{"type":"adaptive","display":"omitted"},"model":"m","max_tokens":9,"messages":[],"output_config":{"effort":"max"}}`,
			`{"thinking":{"type":"disabled"},"model":"m","max_tokens":9,"messages":[]}`, "reasoning"},
		{"messages: the client turned thinking off", &Set{Defaults: Values{Effort: "high"}}, protocol.Anthropic, protocol.Gates{Adaptive: true},
			`{"thinking":{"type":"disabled"},"model":"m","max_tokens":9,"messages":[]}`,
			`{"thinking":{"type":"disabled"},"model":"m","max_tokens":9,"messages":[]}`, ""},
		{"gemini", deep, protocol.Gemini, protocol.Gates{},
			`{"contents":[],"generationConfig":{}}`,
			`{"contents":[],"generationConfig":{"temperature":0.2,"topP":0.9,"maxOutputTokens":4096,"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"HIGH"}}}`, ""},
		{"gemini without a configuration", &Set{Defaults: Values{MaxTokens: 5}}, protocol.Gemini, protocol.Gates{}, `{"contents":[]}`, `{"contents":[],"generationConfig":{"maxOutputTokens":5}}`, ""},
		{"gemini: override, in the client's spelling", fixed, protocol.Gemini, protocol.Gates{Budget: true},
			`{"generation_config":{"stop_sequences":["x"],"max_output_tokens":5,"thinking_config":{"thinking_budget":9,"include_thoughts":false}},"contents":[]}`,
			`{"generation_config":{"stop_sequences":["x"],"max_output_tokens":4096,"thinking_config":{"thinking_budget":2048,"include_thoughts":false},"temperature":0.2},"contents":[]}`,
			"output.max_tokens reasoning"},
		{"members of the body", &Set{Defaults: Values{Body: []llm.Member{{Name: "seed", Value: "1"}, {Name: "a", Value: `{"b":1}`}}}, Override: Values{Body: []llm.Member{{Name: "a", Value: "2"}, {Name: "service_tier", Value: `"flex"`}}}},
			protocol.OpenAIChat, protocol.Gates{},
			`{"model":"m","service_tier":"auto","messages":[],"seed":5}`,
			`{"model":"m","service_tier":"flex","messages":[],"seed":5,"a":2}`, "service_tier"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var report llm.Report
			got, err := c.set.Patch([]byte(c.in), dialect(t, c.dialect), protocol.Target{Model: "m", Gates: c.gates}, &report)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var paths []string
			for _, l := range report.Losses {
				paths = append(paths, l.Path)
			}
			if text := strings.Join(paths, " "); text != c.losses {
				t.Errorf("losses %q, want %q: %v", text, c.losses, report.Losses)
			}
		})
	}
}

// FuzzPatch checks that a patched body is valid and that no other member has changed, and
// that defaults which the client lacks are inserted at one place.
func FuzzPatch(f *testing.F) {
	for _, text := range []string{
		`{"messages":[{"content":"x"}],"model":"m"}`, ` { "a" : [ 1.0 , 1e3 ] , "temperature" : null } `, `{"generationConfig":{"a":1},"contents":[]}`,
		`{"generation_config":{"thinkingConfig":{},"thinking_config":{}}}`, `{"thinking":{"type":"enabled","budget_tokens":1},"max_tokens":1,"output_config":{}}`,
		`{"reasoning":{"effort":"low"},"input":"x","max_output_tokens":1}`, `{"max_tokens":1,"max_completion_tokens":2}`, `{}`,
	} {
		f.Add([]byte(text), uint8(0))
	}
	dialects := all.Dialects()
	body := []llm.Member{{Name: "extra", Value: `{"b":1}`}}
	sets := []*Set{
		{Defaults: Values{Effort: "high", Temperature: "0.2", TopP: "0.9", MaxTokens: 4096, Body: body}},
		{Override: Values{Effort: "low", Temperature: "0.2", TopP: "0.9", MaxTokens: 4096, Body: body}},
	}
	f.Fuzz(func(t *testing.T, in []byte, choice uint8) {
		d, set := dialects[int(choice)%len(dialects)], sets[int(choice)/len(dialects)%len(sets)]
		before, err := wire.IndexObject(in)
		if err != nil {
			return
		}
		out, fault := set.Patch(in, d, protocol.Target{Model: "m"}, &llm.Report{})
		if fault != nil {
			return // the client's own parameters are not valid
		}
		after, err := wire.IndexObject(out)
		if err != nil {
			t.Fatalf("%s\nbecame %s: %v", in, out, err)
		}
		own, has := append(parameterMembers(d), "extra"), false
		for name, value := range before.All() {
			if slices.Contains(own, name) {
				has = true
			} else if got := after.Raw(name); !bytes.Equal(got, value) && string(value) != "null" {
				t.Fatalf("%s: %s became %s", name, value, got)
			}
		}
		start, end := 0, 0
		for start < min(len(in), len(out)) && in[start] == out[start] {
			start++
		}
		for end < min(len(in), len(out)) && in[len(in)-1-end] == out[len(out)-1-end] {
			end++
		}
		if !has && start+end < len(in) {
			t.Fatalf("%s\nbecame %s, which is not one insertion", in, out)
		}
	})
}
