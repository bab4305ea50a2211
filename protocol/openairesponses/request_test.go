package openairesponses

import (
	"strings"
	"testing"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/protocoltest"
)

func ptr[T any](v T) *T { return &v }

func text(s string) *llm.Text { return &llm.Text{Text: s} }

func turn(role llm.Role, blocks ...llm.Block) llm.Turn { return llm.Turn{Role: role, Blocks: blocks} }

func call(id, name, args string) *llm.ToolCall {
	return &llm.ToolCall{CallID: id, Kind: llm.FunctionTool, Name: name, Args: args}
}

func result(id string, blocks ...llm.Block) *llm.ToolResult {
	return &llm.ToolResult{CallID: id, Kind: llm.FunctionTool, Blocks: blocks}
}

// What clients of other protocols bring. The body is what is sent beside the
// model, store and include, which are checked once.
var foreignRequests = []struct {
	name   string
	req    llm.Request
	gates  protocol.Gates
	body   string
	losses string
	names  string
	code   string // of the refusal
}{
	{
		name: "one system text is instructions, CRQ-09",
		req:  llm.Request{Turns: []llm.Turn{turn(llm.System, text("s")), turn(llm.User, text("u")), turn(llm.System, text("mid")), turn(llm.User, text("v"))}},
		body: `{"instructions":"s","input":[{"type":"message","role":"user","content":"u"},{"type":"message","role":"system","content":"mid"},{"type":"message","role":"user","content":"v"}]}`,
	},
	{
		name:  "several stay apart, in their roles, CRQ-10, CRQ-11",
		req:   llm.Request{Turns: []llm.Turn{turn(llm.System, text("a")), turn(llm.Developer, text("b")), turn(llm.User, text("u"))}},
		gates: protocol.Gates{SystemOnly: true},
		body:  `{"input":[{"type":"message","role":"system","content":"a"},{"type":"message","role":"system","content":"b"},{"type":"message","role":"user","content":"u"}]}`,
	},
	{
		name: "calls have a call_id and no id; results may come in any order, RSP-10, CRQ-02, RSP-33",
		req: llm.Request{Turns: []llm.Turn{
			turn(llm.User, text("u")),
			turn(llm.Assistant, text(""), text("look"), call("toolu_1", "f", `{"a":1}`), &llm.ToolCall{Meta: llm.Meta{ID: "call_x"}, CallID: "toolu_2", Kind: llm.FunctionTool, Name: "g"}),
			turn(llm.ToolRole, result("toolu_2", text("2"))), turn(llm.ToolRole, result("toolu_1")),
		}},
		body: `{"input":[{"type":"message","role":"user","content":"u"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"look","annotations":[]}]},
			{"type":"function_call","call_id":"toolu_1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call","call_id":"toolu_2","name":"g","arguments":"{}"},
			{"type":"function_call_output","call_id":"toolu_2","output":"2"},{"type":"function_call_output","call_id":"toolu_1","output":""}]}`,
	},
	{
		name: "media in results stay parts, a failed tool says so, RSP-20, RSP-21",
		req: llm.Request{Turns: []llm.Turn{
			turn(llm.Assistant, call("c1", "f", "{}"), &llm.ToolCall{CallID: "c2", Kind: llm.CustomTool, Name: "p", Args: "*** x"}),
			turn(llm.ToolRole, &llm.ToolResult{CallID: "c1", Failed: true, Blocks: []llm.Block{text("disk full"), &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "AA=="}}},
				result("c2", text("ok"))),
		}},
		body: `{"input":[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"c2","name":"p","input":"*** x"},
			{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"Error: disk full"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AA=="}]},
			{"type":"custom_tool_call_output","call_id":"c2","output":"ok"}]}`,
		losses: "approximated turns[1].blocks[0] tool_result.error_as_text",
	},
	{
		name: "flat tools and choice, strict only if asked, names in OpenAI's alphabet, RSP-30, CRQ-32, CRQ-46, CRQ-53",
		req: llm.Request{
			Turns: []llm.Turn{turn(llm.User, text("u")), turn(llm.Assistant, call("c", "a.b", "{}")), turn(llm.ToolRole, result("c", text("1")))},
			Tools: []llm.Tool{
				{Kind: llm.FunctionTool, Name: "a.b", Description: "d", Schema: `{"type":"object","z":1,"a":2}`},
				{Kind: llm.FunctionTool, Name: "none", Strict: ptr(true)},
				{Kind: llm.CustomTool, Name: "p", Grammar: `{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}`},
			},
			ToolChoice: llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: "a.b"}}},
			Parallel:   ptr(false),
		},
		body: `{"input":[{"type":"message","role":"user","content":"u"},{"type":"function_call","call_id":"c","name":"a_b_2e7336dc8e","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}],
			"tools":[{"type":"function","name":"a_b_2e7336dc8e","description":"d","parameters":{"type":"object","z":1,"a":2},"strict":false},
			{"type":"function","name":"none","parameters":{"type":"object","properties":{}},"strict":false},
			{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}}],
			"tool_choice":{"type":"function","name":"a_b_2e7336dc8e"},"parallel_tool_calls":false}`,
		names: "a_b_2e7336dc8e=a.b", losses: "approximated tools[1].strict strict.optional_properties",
	},
	{
		name: "what has no place is reported, CRQ-50, CRQ-47, CRQ-54",
		req: llm.Request{
			Turns:    []llm.Turn{{Role: llm.User, Name: "bob", Blocks: []llm.Block{text("u")}}},
			Sampling: llm.Sampling{Temperature: "0.50", TopK: "5", Seed: "7", FrequencyPenalty: "1", PresencePenalty: "1", LogitBias: "{}"},
			Output:   llm.Output{Stops: []string{"END"}, MaxTokens: ptr(int64(99)), Choices: ptr(int64(1)), Logprobs: ptr(true), TopLogprobs: ptr(int64(2))},
			Cache:    llm.Cache{Auto: &llm.CacheMark{TTL: "5m"}},
			Ext:      llm.Ext{Protocol: "openai-chat", Members: []llm.Member{{Name: "chat_template_kwargs", Value: "{}"}}},
		},
		body: `{"input":[{"type":"message","role":"user","content":"u"}],"max_output_tokens":99,"top_logprobs":2,"temperature":0.50}`,
		losses: `dropped turns[0].name turn.name
dropped output.stops stop.unsupported
dropped sampling.presence_penalty presence_penalty.unsupported
dropped sampling.frequency_penalty frequency_penalty.unsupported
dropped sampling.top_k top_k.unsupported
dropped sampling.seed seed.unsupported
dropped sampling.logit_bias logit_bias.unsupported
dropped cache.auto cache.automatic
dropped ext.chat_template_kwargs ext.unknown_field`,
	},
	{
		name:   "several answers are refused, CRQ-49",
		req:    llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Output: llm.Output{Choices: ptr(int64(2))}},
		losses: "refused output.choices n.unsupported", code: "unsupported_parameter",
	},
	{
		name: "reasoning goes home only; a budget is an effort that the model knows",
		req: llm.Request{
			Turns: []llm.Turn{turn(llm.User, text("u")),
				turn(llm.Assistant, &llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "S", Origin: "anthropic"}}}, Parts: []llm.ThoughtPart{{Text: "hm"}}}, text("a")),
				turn(llm.Assistant, &llm.Thought{Meta: llm.Meta{ID: "rs_1", Seals: []llm.Seal{{Form: llm.Encrypted, Data: "gA", Origin: own}}}}, text("b")), turn(llm.User, text("v"))},
			Reasoning: llm.Reasoning{Mode: "on", Budget: ptr(int64(30000)), Show: "full"},
		},
		gates: protocol.Gates{Efforts: []string{"low", "high"}, NoSampling: true},
		body: `{"input":[{"type":"message","role":"user","content":"u"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]},
			{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gA"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[]}]},
			{"type":"message","role":"user","content":"v"}],"reasoning":{"effort":"high","summary":"detailed"}}`,
		losses: `dropped turns[1].blocks[0] reasoning.foreign
approximated reasoning.budget effort.from_budget
approximated reasoning.effort effort.nearest
approximated reasoning.show reasoning.summary`,
	},
	{
		name: "what stands beside the words and has no member",
		req: llm.Request{Turns: []llm.Turn{
			turn(llm.User, &llm.Text{Text: "u", Citations: []llm.Citation{{URL: "https://example.com"}}}),
			turn(llm.Assistant, &llm.Text{Text: "a", Citations: []llm.Citation{{Quote: "q"}}, Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "s", Origin: "gemini"}}}}),
			turn(llm.ToolRole, text("t")),
		}},
		losses: `dropped turns[0].blocks[0].citations citation.history
dropped turns[1].blocks[0].citations citation.no_url
dropped turns[1].blocks[0] seal.foreign
refused turns[2].blocks[0] block.misplaced`, code: "unsupported_parameter",
	},
	{
		name: "a call without a result and a result without a call, CRQ-04, CRQ-05",
		req:  llm.Request{Turns: []llm.Turn{turn(llm.User, text("u")), turn(llm.Assistant, call("c1", "f", "{}")), turn(llm.ToolRole, result("c2", text("2"))), turn(llm.User, text("v"))}},
		losses: `refused turns[2].blocks[0] tool_result.orphan
refused turns[1].blocks[0] tool_call.unanswered`, code: "unsupported_parameter",
	},
	{
		name: "documents, files of other vendors, sound and video, CRQ-38, CRQ-39, CRQ-40, CRQ-41",
		req: llm.Request{Turns: []llm.Turn{turn(llm.User,
			&llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "AA==", Title: "t"},
			&llm.Media{Kind: llm.File, Text: "plain"},
			&llm.Media{Kind: llm.Audio, MIME: "audio/mpeg", Data: "AA=="},
			&llm.Media{Kind: llm.Image, FileID: "file_1", Meta: llm.Meta{Ext: llm.Ext{Protocol: "anthropic"}}},
			&llm.Media{Kind: llm.Video, URL: "https://example.com/v"},
			&llm.Opaque{Protocol: "gemini", Type: "x"},
		)}},
		losses: `approximated turns[0].blocks[1] document.as_file
refused turns[0].blocks[3] media.foreign_file
refused turns[0].blocks[4] media.unsupported
refused turns[0].blocks[5] block.unknown`, code: "unsupported_parameter",
	},
	{
		name: "hosted tools of others are mapped or left out, RSP-23; server calls become words",
		req: llm.Request{
			Turns: []llm.Turn{turn(llm.User, text("u")), turn(llm.Assistant, &llm.ServerCall{Protocol: "anthropic", Type: "server_tool_use", Digest: "searched q"}, text("a")), turn(llm.User, text("v"))},
			Tools: []llm.Tool{{Kind: llm.HostedTool, Hosted: "web_search", Raw: `{"type":"web_search_20250305"}`, Ext: llm.Ext{Protocol: "anthropic"}}, {Kind: llm.HostedTool, Hosted: "maps"}},
		},
		body: `{"input":[{"type":"message","role":"user","content":"u"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"searched q"}]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"a","annotations":[]}]},{"type":"message","role":"user","content":"v"}],"tools":[{"type":"web_search"}]}`,
		losses: `approximated turns[1].blocks[0] server_tool.digest
approximated tools[0] tool.hosted_mapped
dropped tools[1] tool.hosted`,
	},
	{
		name: "structured output, CRQ-44; identity and service, CRQ-52, CRQ-55",
		req: llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))},
			Output:   llm.Output{Format: llm.Format{Kind: "json_schema", Schema: `{"type":"object"}`}, Verbosity: "low"},
			Identity: llm.Identity{User: "me", Metadata: []llm.Member{{Name: "k", Value: `"v"`}}}, Service: llm.Service{Tier: "standard"}, Cache: llm.Cache{Key: "k"}},
		body: `{"input":[{"type":"message","role":"user","content":"u"}],"text":{"format":{"type":"json_schema","name":"response","schema":{"type":"object"}},"verbosity":"low"},
			"user":"me","metadata":{"k":"v"},"prompt_cache_key":"k","service_tier":"default"}`,
	},
	{
		name:  "a choice that the model cannot be held to",
		req:   llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Tools: []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}}, ToolChoice: llm.ToolChoice{Mode: "required"}},
		gates: protocol.Gates{NoForcedTool: true},
		body: `{"input":[{"type":"message","role":"user","content":"u"}],"tool_choice":"auto",
			"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}]}`,
		losses: "approximated tool_choice tool_choice.forced_unsupported",
	},
	{
		name: "a choice among some tools, RSP-40",
		req: llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Tools: []llm.Tool{{Kind: llm.CustomTool, Name: "p"}},
			ToolChoice: llm.ToolChoice{Mode: "allowed", Names: []llm.ToolRef{{Kind: llm.CustomTool, Name: "p"}}}},
		body: `{"input":[{"type":"message","role":"user","content":"u"}],"tools":[{"type":"custom","name":"p"}],
			"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"p"}]}}`,
	},
	{
		name:   "another vendor's hosted tool cannot be chosen, RSP-40",
		req:    llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Tools: []llm.Tool{{Kind: llm.CustomTool, Name: "p"}}, ToolChoice: llm.ToolChoice{Mode: "hosted", Raw: `{"type":"tool"}`}},
		body:   `{"input":[{"type":"message","role":"user","content":"u"}],"tools":[{"type":"custom","name":"p"}],"tool_choice":"auto"}`,
		losses: "approximated tool_choice tool_choice.hosted",
	},
	{
		name:   "a limit below the API's smallest one is raised",
		req:    llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Output: llm.Output{MaxTokens: ptr(int64(1))}},
		body:   `{"input":[{"type":"message","role":"user","content":"u"}],"max_output_tokens":16}`,
		losses: "approximated output.max_tokens max_tokens.raised",
	},
	{
		name: "the API's smallest limit",
		req:  llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, Output: llm.Output{MaxTokens: ptr(int64(16))}},
		body: `{"input":[{"type":"message","role":"user","content":"u"}],"max_output_tokens":16}`,
	},
	{
		name: "cache marks are reported once; no output at all is a warm-up; a model without sampling",
		req: llm.Request{Turns: []llm.Turn{turn(llm.System, &llm.Text{Text: "s", Meta: llm.Meta{Cache: &llm.CacheMark{TTL: "5m"}}}), turn(llm.User, &llm.Text{Text: "u", Meta: llm.Meta{Cache: &llm.CacheMark{}}})},
			Output: llm.Output{MaxTokens: ptr(int64(0)), Modalities: []string{"text", "IMAGE"}, Format: llm.Format{Kind: "enum"}}, Sampling: llm.Sampling{TopP: "0.5"}, Service: llm.Service{Speed: "fast"}},
		gates: protocol.Gates{NoSampling: true},
		body:  `{"instructions":"s","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"u"}]}],"prompt_cache_options":{"prewarm":true},"service_tier":"priority"}`,
		losses: `dropped cache cache.mark
dropped output.modalities modality.image
dropped output.format format.enum
dropped sampling.top_p top_p.unsupported_by_model
approximated service.speed speed.as_tier`,
	},
	{
		name: "ids that are too long or used before, on calls and results alike, CRQ-33, CRQ-34",
		req: llm.Request{Turns: []llm.Turn{
			turn(llm.Assistant, call("f:0", "f", "{}")), turn(llm.ToolRole, result("f:0", text("1"))),
			turn(llm.Assistant, call("f:0", "f", "{}")), turn(llm.ToolRole, result("f:0", text("2"))),
			turn(llm.Assistant, call("ä", "f", "{}")), turn(llm.ToolRole, result("ä", text("3"))),
		}},
		body: `{"input":[{"type":"function_call","call_id":"f:0","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"f:0","output":"1"},
			{"type":"function_call","call_id":"f:0_2_a5be4d87d2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"f:0_2_a5be4d87d2","output":"2"},
			{"type":"function_call","call_id":"__33e6d73fee","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"__33e6d73fee","output":"3"}]}`,
	},
	{
		name: "tools: none, CRQ-29; a forced choice without tools is refused",
		req:  llm.Request{Turns: []llm.Turn{turn(llm.User, text("u"))}, ToolChoice: llm.ToolChoice{Mode: "required"}, Parallel: ptr(true)},
		body: "", losses: "refused tool_choice tool_choice.without_tools", code: "unsupported_parameter",
	},
}

func TestForeignRequests(t *testing.T) {
	for _, tc := range foreignRequests {
		t.Run(tc.name, func(t *testing.T) {
			var report llm.Report
			out, err := Codec{}.EncodeRequest(&tc.req, protocol.Target{Model: "up", Gates: tc.gates}, &report)
			if got := lossLines(&report); got != tc.losses {
				t.Errorf("report:\n%s\nwant:\n%s", got, tc.losses)
			}
			if tc.code != "" {
				if err == nil || err.Code != tc.code {
					t.Errorf("error %v, want %s", err, tc.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if names := nameLines(out.Names); names != tc.names {
				t.Errorf("names %q, want %q", names, tc.names)
			}
			include := `["reasoning.encrypted_content"]`
			if tc.req.Output.Logprobs != nil {
				include = `["reasoning.encrypted_content","message.output_text.logprobs"]`
			}
			want := `{"model":"up","store":false,"include":` + include + `,` + strings.TrimPrefix(tc.body, "{")
			for _, d := range protocoltest.DiffJSON([]byte(want), out.Body) {
				t.Errorf("%s\n%s", d, out.Body)
			}
			if out.Path != "/v1/responses" {
				t.Errorf("path %q", out.Path)
			}
		})
	}
}

func lossLines(r *llm.Report) string {
	lines := make([]string, 0, len(r.Losses))
	for _, l := range r.Losses {
		lines = append(lines, string(l.Verdict)+" "+l.Path+" "+l.Code)
	}
	return strings.Join(lines, "\n")
}

func nameLines(names map[string]llm.ToolRef) string {
	var lines []string
	for sent, ref := range names {
		lines = append(lines, sent+"="+ref.Name)
	}
	return strings.Join(lines, "\n")
}

// RSP-17, RSP-18: a request that needs OpenAI's own state is rejected, and the error names the member.
func TestCheckExpanded(t *testing.T) {
	for body, param := range map[string]string{
		`{"input":"x","previous_response_id":"resp_1"}`:                         "previous_response_id",
		`{"input":"x","conversation":"conv_1"}`:                                 "conversation",
		`{"input":"x","background":true}`:                                       "background",
		`{"prompt":{"id":"p"}}`:                                                 "prompt",
		`{"input":[{"id":"msg_1"},{"role":"user","content":"x"}]}`:              "item_reference",
		`{"input":"x","background":false,"store":true,"conversation":null}`:     "",
		`{"input":[{"type":"compaction","id":"cmp_1","encrypted_content":""}]}`: "",
	} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body)})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		got := ""
		if e := checkExpanded(req); e != nil {
			got = e.Param
		}
		if got != param {
			t.Errorf("%s: rejected for %q, want %q", body, got, param)
		}
	}
}

// RSP-36: whatever is not asked for is not streamed.
func TestStreamDefault(t *testing.T) {
	for body, want := range map[string]bool{`{"input":"x"}`: false, `{"input":"x","stream":null}`: false, `{"input":"x","stream":true}`: true} {
		req, err := Codec{}.DecodeRequest(protocol.Incoming{Body: []byte(body), Stream: true})
		if err != nil || req.Stream != want {
			t.Errorf("%s: stream %v (%v)", body, req.Stream, err)
		}
	}
}
