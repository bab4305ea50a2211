package converse

import (
	"flag"
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

var _ = flag.Bool("update", false, "rewrite the expected sections of testdata")

func TestCodec(t *testing.T) { protocoltest.Run(t, Codec{}, "testdata") }

// An id is one escaped segment, and what is no id does not lead to another path.
func TestPath(t *testing.T) {
	for id, want := range map[string]string{
		"anthropic.claude-3-haiku-20240307-v1:0":                                              "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse",
		"us.amazon.nova-pro-v1:0":                                                             "/model/us.amazon.nova-pro-v1%3A0/converse",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123":         "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/converse",
		"arn:aws-us-gov:bedrock:us-gov-west-1::foundation-model/meta.llama3-8b-instruct-v1:0": "/model/arn%3Aaws-us-gov%3Abedrock%3Aus-gov-west-1%3A%3Afoundation-model%2Fmeta.llama3-8b-instruct-v1%3A0/converse",
		"": "", ".": "", "..": "", "../x": "", "a/../b": "", "a//b": "", "a;x": "", "a?b": "", "a#b": "", "a%2Fb": "", "a b": "", "a\x00": "", "é": "", `a\b`: "",
		strings.Repeat("a", maxModel+1): "",
	} {
		got, err := path(id, false)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%.80q: %q %v, want %q", id, got, err, want)
		}
		if model, stream, ok := parsePath(got); want != "" && (model != id || stream || !ok) {
			t.Errorf("%s is read as %q %v %v", got, model, stream, ok)
		}
	}
	req := &llm.Request{Model: "m", Stream: true, Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "x"}}}}}
	out, err := Codec{}.EncodeRequest(req, protocol.Target{Model: "us.amazon.nova-pro-v1:0"}, &llm.Report{})
	if err != nil || out.Path != "/model/us.amazon.nova-pro-v1%3A0/converse-stream" {
		t.Errorf("%s %v", out.Path, err)
	}
	if _, err := (Codec{}).EncodeRequest(req, protocol.Target{Model: "../../x"}, &llm.Report{}); err == nil || err.Kind != llm.InvalidRequest {
		t.Errorf("a model that leads elsewhere: %v", err)
	}
}

// encode encodes a request of another protocol for a model.
func encode(t *testing.T, model string, edit func(*llm.Request)) (string, []llm.Loss) {
	t.Helper()
	req := &llm.Request{Model: "m", Ext: llm.Ext{Protocol: string(protocol.OpenAIChat)}, Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Text: "x"}}}}}
	edit(req)
	var report llm.Report
	out, err := Codec{}.EncodeRequest(req, protocol.Target{Model: model}, &report)
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Body), report.Losses
}

// Each family of models has its own members for what the protocol lacks.
func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		model, want string
		edit        func(*llm.Request)
	}{
		{"anthropic.claude-3-7-sonnet-20250219-v1:0", `"additionalModelRequestFields":{"top_k":40}`, func(r *llm.Request) { r.Sampling.TopK = "40" }},
		{"amazon.nova-pro-v1:0", `"additionalModelRequestFields":{"inferenceConfig":{"topK":40}}`, func(r *llm.Request) { r.Sampling.TopK = "40" }},
		{"anthropic.claude-3-7-sonnet-20250219-v1:0", `"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}`, func(r *llm.Request) { r.Reasoning.Budget = new(int64(2000)) }},
		{"amazon.nova-2-lite-v1:0", `"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"high"}}`, func(r *llm.Request) { r.Reasoning.Effort = "high" }},
		{"amazon.nova-2-lite-v1:0", `"additionalModelRequestFields":{"reasoningConfig":{"type":"disabled"}}`, func(r *llm.Request) { r.Reasoning.Effort = "none" }},
		{"openai.gpt-oss-120b-1:0", `"additionalModelRequestFields":{"reasoning_effort":"low"}`, func(r *llm.Request) { r.Reasoning.Effort = "low" }},
		{"openai.gpt-oss-120b-1:0", `"additionalModelRequestFields":{"reasoning_effort":"low"}`, func(r *llm.Request) { r.Reasoning.Effort = "none" }},
		{"anthropic.claude-3-7-sonnet-20250219-v1:0", `"additionalModelResponseFieldPaths":["/stop_sequence"]`, func(r *llm.Request) { r.Output.Stops = []string{"END"} }},
	} {
		if got, _ := encode(t, c.model, c.edit); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\nlacks %s", c.model, got, c.want)
		}
	}
}

// Claude shows a summary of its thinking, also to a client that expects all of it.
func TestThinkingIsShownAsSummary(t *testing.T) {
	_, losses := encode(t, "anthropic.claude-3-7-sonnet-20250219-v1:0", func(r *llm.Request) {
		r.Reasoning = llm.Reasoning{Budget: new(int64(2000)), Show: "full"}
	})
	if len(losses) != 1 || losses[0].Path != "reasoning.show" || losses[0].Code != "reasoning.summary" || losses[0].Verdict != llm.Approximated {
		t.Errorf("%v", losses)
	}
}

// Roles alternate: turns of one role are one message.
func TestRolesAlternate(t *testing.T) {
	say := func(role llm.Role, s string) llm.Turn {
		return llm.Turn{Role: role, Blocks: []llm.Block{&llm.Text{Text: s}}}
	}
	got, losses := encode(t, "m", func(r *llm.Request) {
		r.Turns = []llm.Turn{say(llm.User, "a"), say(llm.User, "b"), say(llm.Assistant, "c"), say(llm.Assistant, "d"), say(llm.User, " "), say(llm.User, "e")}
	})
	const want = `{"messages":[{"role":"user","content":[{"text":"a"},{"text":"b"}]},{"role":"assistant","content":[{"text":"c"},{"text":"d"}]},{"role":"user","content":[{"text":"e"}]}]}`
	if got != want || len(losses) != 1 || losses[0].Code != "turn.empty" {
		t.Errorf("%s %v\nwant %s", got, losses, want)
	}
}

// Documents have names that the vendor accepts, each once.
func TestDocumentNames(t *testing.T) {
	doc := func(name string) llm.Block {
		return &llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "JVBERi0=", Name: name}
	}
	got, _ := encode(t, "m", func(r *llm.Request) {
		r.Turns[0].Blocks = []llm.Block{&llm.Text{Text: "x"}, doc("a_b.pdf"), doc("a_b.pdf"), doc(""), doc(""), doc("two  spaces (1)"), doc(strings.Repeat("x", 300))}
	})
	for _, want := range []string{`"name":"a-b-pdf"`, `"name":"a-b-pdf 2"`, `"name":"document"`, `"name":"document 2"`, `"name":"two spaces (1)"`, `"name":"` + strings.Repeat("x", 192) + `"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}
