package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Short ways to say what other protocols bring.
func say(role llm.Role, text string) llm.Turn {
	return llm.Turn{Role: role, Blocks: []llm.Block{&llm.Text{Text: text}}}
}

func call(id, name, args string) *llm.ToolCall {
	return &llm.ToolCall{CallID: id, Kind: llm.FunctionTool, Name: name, Args: args}
}

func result(id, text string) llm.Turn {
	return llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: id, Blocks: []llm.Block{&llm.Text{Text: text}}}}}
}

func assistant(blocks ...llm.Block) llm.Turn { return llm.Turn{Role: llm.Assistant, Blocks: blocks} }

func ptr[T any](v T) *T { return &v }

var weather = llm.Tool{Kind: llm.FunctionTool, Name: "get_weather", Schema: `{"type":"object","properties":{"city":{"type":"string"}}}`}

// foreignCases are requests that came in other protocols. What is sent for each is
// in testdata/foreign.
var foreignCases = map[string]struct {
	about string
	req   llm.Request
	to    protocol.Target
}{
	"tool_results_grouped": {"CRQ-01, CRQ-02, CRQ-03: results in separate turns and in another order, then the user goes on", llm.Request{
		Tools: []llm.Tool{weather},
		Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Text{Text: ""}, call("a", "get_weather", `{"city":"Paris"}`), call("b", "get_weather", `{"city":"北京"}`)),
			result("b", "B"), result("a", "A"), say(llm.User, "and now?"), say(llm.User, "well?")},
	}, protocol.Target{}},
	"call_unanswered": {"CRQ-04: a call whose result is gone", llm.Request{
		Turns: []llm.Turn{say(llm.User, "q"), assistant(call("a", "f", "{}")), say(llm.User, "go on")},
	}, protocol.Target{}},
	"call_ids_repaired": {"CRQ-33, CRQ-34: ids that the vendor refuses, and one that is used twice", llm.Request{
		Tools: []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}},
		Turns: []llm.Turn{say(llm.User, "q"), assistant(call("functions.f:0", "f", "{}")), result("functions.f:0", "1"),
			assistant(call("x", "f", "{}")), result("x", "2"), assistant(call("x", "f", "{}")), result("x", "3")},
	}, protocol.Target{}},
	"arguments_made_objects": {"ANT-29, JSN-01, JSN-17: arguments that are no object", llm.Request{
		Tools: []llm.Tool{{Kind: llm.FunctionTool, Name: "f"}},
		Turns: []llm.Turn{say(llm.User, "q"),
			assistant(call("a", "f", ""), call("b", "f", "null"), call("c", "f", "[1]"), call("d", "f", `"{\"x\":1.10}"`), call("e", "f", `{"a":1`), call("g", "f", `{"n":12345678901234567890}`)),
			result("a", ""), result("b", ""), result("c", ""), result("d", ""), result("e", ""), result("g", "")},
	}, protocol.Target{}},
	"prefill_refused": {"CRQ-14: a model that does not continue an assistant turn", llm.Request{
		Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Text{Text: "Dear"})},
	}, protocol.Target{Gates: protocol.Gates{NoPrefill: true}}},
	"prefill_thinking": {"CRQ-14: no thinking before an assistant turn is continued", llm.Request{
		Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Text{Text: "Dear"})}, Reasoning: llm.Reasoning{Effort: "medium"},
	}, protocol.Target{Gates: protocol.Gates{Budget: true}}},
	"system_everywhere": {"CRQ-09, CRQ-10, CRQ-11: several leading system and developer messages, one in the middle", llm.Request{
		Turns: []llm.Turn{say(llm.System, "one"), say(llm.Developer, "two"), say(llm.User, "q"), assistant(&llm.Text{Text: "a"}), say(llm.User, "w"), say(llm.Developer, "mid"), say(llm.User, "go")},
	}, protocol.Target{}},
	"system_native": {"CRQ-09: where the model takes it, system text stays system text; two in a row are one", llm.Request{
		Turns: []llm.Turn{say(llm.User, "q"), say(llm.Developer, "mid"), say(llm.System, "dle"), assistant(&llm.Text{Text: "a"}), say(llm.System, "after an answer"), say(llm.User, "go")},
	}, protocol.Target{Gates: protocol.Gates{MidSystem: true}}},
	"tools_renamed": {"CRQ-32: names out of the alphabet, namespaces, custom tools; also in history and in the choice", llm.Request{
		Tools: []llm.Tool{
			{Kind: llm.FunctionTool, Name: "mcp.file/read"},
			{Kind: llm.FunctionTool, Name: "ns__f", Namespace: ""},
			{Kind: llm.FunctionTool, Name: "f", Namespace: "ns", Schema: `{"type":"object"}`},
			{Kind: llm.CustomTool, Name: "patch", Description: "patches", Grammar: `{"type":"grammar","syntax":"lark","definition":"start: A"}`},
			{Kind: llm.CustomTool, Name: "digits", Grammar: `{"type":"grammar","grammar":{"syntax":"regex","definition":"[0-9]+"}}`},
		},
		ToolChoice: llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: "mcp.file/read"}}},
		Turns: []llm.Turn{say(llm.User, "q"), assistant(call("a", "mcp.file/read", "{}"), &llm.ToolCall{CallID: "b", Kind: llm.CustomTool, Name: "patch", Args: "*** \"x\""}),
			result("a", "1"), result("b", "2")},
	}, protocol.Target{}},
	"hosted_tools": {"a tool of another vendor's that has a counterpart, and one that has none", llm.Request{
		Tools: []llm.Tool{{Kind: llm.HostedTool, Hosted: "web_search", Raw: `{"type":"web_search"}`}, {Kind: llm.HostedTool, Hosted: "file_search"}},
		Turns: []llm.Turn{say(llm.User, "q")},
	}, protocol.Target{}},
	"tool_choice_none":          {"CRQ-26", llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "none"}, Parallel: ptr(false), Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"tool_choice_parallel_only": {"CRQ-28", llm.Request{Tools: []llm.Tool{weather}, Parallel: ptr(false), Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"tool_choice_required":      {"CRQ-27", llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "required"}, Parallel: ptr(true), Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"tool_choice_refused":       {"a model that cannot be forced is told to call", llm.Request{Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "required"}, Turns: []llm.Turn{say(llm.System, "s"), say(llm.User, "q")}}, protocol.Target{Gates: protocol.Gates{NoForcedTool: true}}},
	"tool_choice_allowed": {"an allowed set is sent as the tools themselves", llm.Request{Tools: []llm.Tool{weather, {Kind: llm.FunctionTool, Name: "g"}},
		ToolChoice: llm.ToolChoice{Mode: "allowed", Allowed: "required", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: "g"}}}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"tool_choice_without_tools": {"CRQ-29", llm.Request{ToolChoice: llm.ToolChoice{Mode: "required"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"tools_of_history": {"CRQ-31: earlier calls, but no tools this time", llm.Request{
		Turns: []llm.Turn{say(llm.User, "q"), assistant(call("a", "f", "{}")), result("a", "1")}}, protocol.Target{}},
	"tool_schemas": {"CRQ-53, CRQ-46: no schema, one without a type, one that is strict", llm.Request{Tools: []llm.Tool{
		{Kind: llm.FunctionTool, Name: "none"}, {Kind: llm.FunctionTool, Name: "null", Schema: "null"}, {Kind: llm.FunctionTool, Name: "untyped", Schema: `{"properties":{"z":{},"a":{}}}`},
		{Kind: llm.FunctionTool, Name: "strict", Strict: ptr(true), Schema: `{"type":"object","properties":{"n":{"type":"integer","minimum":1.0,"description":"count"}},"additionalProperties":true}`},
		{Kind: llm.FunctionTool, Name: "loose", Strict: ptr(false), Schema: `{"type":"object","minProperties":1}`}},
		Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"no_max_tokens":                    {"CRQ-15", llm.Request{Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{Gates: protocol.Gates{MaxOutput: 64000}}},
	"effort_to_budget":                 {"CRQ-22: the budget fits into the limit", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Reasoning: llm.Reasoning{Effort: "high"}, Sampling: llm.Sampling{Temperature: "0.2", TopK: "3", TopP: "0.97"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"effort_without_limit":             {"CRQ-22: nobody set a limit", llm.Request{Reasoning: llm.Reasoning{Effort: "medium", Show: "auto"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"effort_without_room":              {"CRQ-22: the limit leaves no room", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](512)}, Reasoning: llm.Reasoning{Effort: "low"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"effort_adaptive":                  {"ANT-31: adaptive models take the level, the nearest that they know", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](512)}, Reasoning: llm.Reasoning{Effort: "xhigh", Show: "none"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{Gates: protocol.Gates{Adaptive: true, Efforts: []string{"low", "medium", "high"}}}},
	"effort_minimal":                   {"ANT-31", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](512)}, Reasoning: llm.Reasoning{Effort: "minimal"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{Gates: protocol.Gates{Adaptive: true}}},
	"budget_clamped":                   {"CRQ-22: a budget below the least", llm.Request{Reasoning: llm.Reasoning{Budget: ptr[int64](512)}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"budget_too_large":                 {"CRQ-22: a budget that the limit does not hold", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Reasoning: llm.Reasoning{Mode: "on", Budget: ptr[int64](8192)}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"thinking_off":                     {"ANT-31: off is not unset", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](512)}, Reasoning: llm.Reasoning{Budget: ptr[int64](0)}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"thinking_shown":                   {"a client that only asks to see thoughts expects that there are some", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Reasoning: llm.Reasoning{Show: "full"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"thinking_forced_tool":             {"CRQ-23", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Tools: []llm.Tool{weather}, ToolChoice: llm.ToolChoice{Mode: "required"}, Reasoning: llm.Reasoning{Effort: "low"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"thinking_unsigned_loop":           {"ANT-04, ANT-07: answering a call that came without signed thinking", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Tools: []llm.Tool{weather}, Reasoning: llm.Reasoning{Effort: "low"}, Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Thought{Parts: []llm.ThoughtPart{{Form: "full", Text: "hm"}}}, call("a", "get_weather", "{}")), result("a", "1")}}, protocol.Target{}},
	"thinking_unsigned_loop_then_text": {"ANT-04, ANT-07: answering a call that came without signed thinking, and going on", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Tools: []llm.Tool{weather}, Reasoning: llm.Reasoning{Effort: "low"}, Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Thought{Parts: []llm.ThoughtPart{{Form: "full", Text: "hm"}}}, call("a", "get_weather", "{}")), result("a", "1"), say(llm.User, "go on")}}, protocol.Target{}},
	"thinking_signed_loop": {"ANT-04, ANT-08: a thought goes home with its signature, one of another issuer does not", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](4096)}, Tools: []llm.Tool{weather}, Reasoning: llm.Reasoning{Effort: "low"}, Turns: []llm.Turn{say(llm.User, "q"),
		assistant(&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "S", Origin: own}}}, Parts: []llm.ThoughtPart{{Form: "full", Text: "hm"}}},
			&llm.Thought{Meta: llm.Meta{Seals: []llm.Seal{{Form: llm.Signature, Data: "G", Origin: "gemini"}}}}, call("a", "get_weather", "{}")), result("a", "1")}}, protocol.Target{}},
	"sampling_clamped": {"CRQ-18, CRQ-50", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5), Logprobs: ptr(true), Choices: ptr[int64](1), Verbosity: "low"},
		Sampling: llm.Sampling{Temperature: "1.6", FrequencyPenalty: "1", PresencePenalty: "0", Seed: "7", LogitBias: "{}"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"sampling_both":        {"CRQ-19: top_p 1 restricts nothing", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Sampling: llm.Sampling{Temperature: "0.10", TopP: "1"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"sampling_refused":     {"CRQ-20, VER-08", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Sampling: llm.Sampling{Temperature: "0", TopP: "0.5", TopK: "4"}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{Version: "2026-10-21", Gates: protocol.Gates{NoSampling: true}}},
	"stops":                {"CRQ-24", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5), Stops: []string{"END", "", "\n"}}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"several_choices":      {"CRQ-49", llm.Request{Output: llm.Output{Choices: ptr[int64](2)}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"json_object":          {"CRQ-45", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5), Format: llm.Format{Kind: "json_object"}}, Turns: []llm.Turn{say(llm.System, "s"), say(llm.User, "q")}}, protocol.Target{}},
	"json_schema":          {"CRQ-44: the vendor's subset of schemas", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5), Format: llm.Format{Kind: "json_schema", Name: "answer", Strict: ptr(true), Schema: `{"$schema":"x","type":"object","properties":{"z":{"type":"string","maxLength":9007199254740993,"format":"uuid"},"a":{"type":"array","items":{"$ref":"#/$defs/u"},"minItems":2,"description":"many"},"o":{"oneOf":[{"type":"string","format":"color"},{"type":"null"}]}},"required":["z"],"$defs":{"u":{"type":"object","properties":{"x":{"const":1.10}},"additionalProperties":{"type":"string"}}}}`}}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"json_schema_circular": {"a schema that refers to itself", llm.Request{Output: llm.Output{Format: llm.Format{Kind: "json_schema", Schema: `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}}}}}`}}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
	"media": {"CRQ-35, CRQ-36, CRQ-37, CRQ-38: images and documents", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{
		&llm.Text{Text: "see"}, &llm.Media{Kind: llm.Image, MIME: "image/jpg", Data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", Detail: "high"}, &llm.Media{Kind: llm.Image, URL: "https://e.com/i.png"},
		&llm.Media{Kind: llm.File, MIME: "application/pdf", Data: "JVBERi0x", Name: "a.pdf"}, &llm.Media{Kind: llm.File, MIME: "text/csv", Data: "YSxi"}, &llm.Media{Kind: llm.File, MIME: "text/plain", Text: "t", Title: "T"}}}}}, protocol.Target{}},
	"media_foreign_file": {"CRQ-39", llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Media{Kind: llm.File, FileID: "file-1"}}}}}, protocol.Target{}},
	"media_audio":        {"CRQ-40", llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Media{Kind: llm.Audio, MIME: "audio/wav", Data: "AAAA"}}}}}, protocol.Target{}},
	"media_svg":          {"CRQ-35", llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Media{Kind: llm.Image, MIME: "image/svg+xml", Data: "PHN2Zz4="}}}}}, protocol.Target{}},
	"media_empty":        {"an image that holds nothing", llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Media{Kind: llm.Image}}}}}, protocol.Target{}},
	"media_in_mid_system": {"an image in system text that becomes text of the user", llm.Request{Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Text{Text: "a"}),
		{Role: llm.System, Name: "ops", Blocks: []llm.Block{&llm.Text{Text: "see"}, &llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}}}, say(llm.User, "go")}}, protocol.Target{}},
	"block_unknown": {"CRQ-41", llm.Request{Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Opaque{Protocol: "gemini", Type: "videoMetadata", Raw: "{}"}}}}}, protocol.Target{}},
	"media_of_assistant": {"what an assistant has shown moves to the user's next message, behind the results", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Tools: []llm.Tool{weather}, Turns: []llm.Turn{say(llm.User, "draw"),
		assistant(&llm.Media{Kind: llm.Image, MIME: "image/png", Data: "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"}, call("a", "get_weather", "{}")), result("a", "1")}}, protocol.Target{}},
	"starts_with_assistant": {"CRQ-13", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Turns: []llm.Turn{assistant(&llm.Text{Text: "Hello"}), say(llm.User, "q")}}, protocol.Target{}},
	"ends_with_assistant":   {"CRQ-14: an answer to be continued", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Turns: []llm.Turn{say(llm.User, "q"), assistant(&llm.Text{Text: "It is "})}}, protocol.Target{}},
	"empty_turns":           {"CRQ-08: nothing but white space", llm.Request{Turns: []llm.Turn{say(llm.User, " \n")}}, protocol.Target{}},
	"foreign_history": {"server tools and refusals of others, names of participants, failed results", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Tools: []llm.Tool{weather}, Turns: []llm.Turn{{Role: llm.User, Name: "bob", Blocks: []llm.Block{&llm.Text{Text: "q"}}},
		assistant(&llm.ServerCall{Protocol: "openai-responses", Type: "web_search_call", Digest: "searched for x"}, &llm.Refusal{Text: "No."}, &llm.Text{Text: "t", Citations: []llm.Citation{{URL: "https://e.com", Protocol: "openai-chat"}}}, call("a", "get_weather", "{}")),
		{Role: llm.ToolRole, Blocks: []llm.Block{&llm.ToolResult{CallID: "a", Failed: true, Blocks: []llm.Block{&llm.Text{Text: "disk full"}}}}}}}, protocol.Target{}},
	"envelope": {"CRQ-47, CRQ-52, CRQ-55: what surrounds a request", llm.Request{Output: llm.Output{MaxTokens: ptr[int64](5)}, Stream: true, Ext: llm.Ext{Protocol: "openai-chat", Members: []llm.Member{{Name: "enable_thinking", Value: "true"}}},
		Identity: llm.Identity{SafetyID: "u", Metadata: []llm.Member{{Name: "k", Value: `"v"`}}}, Service: llm.Service{Tier: "default"}, Cache: llm.Cache{Key: "k"}, State: llm.State{Store: ptr(true), Truncation: "auto"},
		Turns: []llm.Turn{{Role: llm.User, Blocks: []llm.Block{&llm.Text{Meta: llm.Meta{Cache: &llm.CacheMark{TTL: "30m"}}, Text: "q"}}}}}, protocol.Target{}},
	"state": {"what only the other vendor keeps", llm.Request{State: llm.State{PreviousID: "resp_1", Background: ptr(true)}, Turns: []llm.Turn{say(llm.User, "q")}}, protocol.Target{}},
}
