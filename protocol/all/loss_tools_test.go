package all_test

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func withCustomTool(r request) {
	r.Tools = []llm.Tool{{Kind: llm.CustomTool, Name: "c"}}
}

func withCustomCall(r request) {
	withToolResult(r)
	r.Tools[0] = llm.Tool{Kind: llm.CustomTool, Name: "f"}
	r.call().Kind, r.result().Kind = llm.CustomTool, llm.CustomTool
	r.call().Args = "free"
}

// searchTool returns a tool search, which only OpenAI Responses has.
func searchTool(raw llm.Raw) llm.Tool {
	return llm.Tool{Kind: llm.SearchTool, Name: needle, Raw: raw, Ext: llm.Ext{Protocol: string(protocol.OpenAIResponses)}}
}

func withSearchCall(r request) {
	withToolResult(r)
	r.Tools[0] = searchTool(`{"type":"tool_search","execution":"client"}`)
	r.call().Name, r.call().Kind, r.result().Kind = needle, llm.SearchTool, llm.SearchTool
}

// replaceWithCall replaces the history with a call and its result.
func replaceWithCall(r request) {
	r.Turns = r.Turns[:1]
	withToolResult(r)
}

// declare returns an edit that adds a tool.
func declare(t llm.Tool) requestEdit {
	return func(r request) { r.Tools = append(r.Tools, t) }
}

// hosted returns an edit that adds a hosted tool.
func hosted(kind string, vendor origin) requestEdit {
	return func(r request) {
		r.Tools = append(r.Tools, llm.Tool{Kind: llm.HostedTool, Name: kind, Hosted: kind, Raw: `{"type":"n33dle"}`, Ext: llm.Ext{Protocol: r.from(vendor)}})
	}
}

// choose returns an edit that sets the tool choice.
func choose(mode string, tools ...llm.ToolRef) requestEdit {
	return func(r request) { r.ToolChoice = llm.ToolChoice{Mode: mode, Names: tools} }
}

// allow returns an edit that allows only the tool f.
func allow(mode string) requestEdit {
	return func(r request) {
		r.ToolChoice = llm.ToolChoice{Mode: "allowed", Allowed: mode, Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: "f"}}}
	}
}

// Schemas of tools and of structured output.
const (
	needleSchema    = `{"type":"object","properties":{"n33dle":{"type":"string"}},"required":["n33dle"],"additionalProperties":false}`
	keywordSchema   = `{"type":"object","properties":{"a":{"type":"integer","multipleOf":3}},"required":["a"],"additionalProperties":false}`
	recursiveSchema = `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"],"additionalProperties":false}`
	optionalSchema  = `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`
	openSchema      = `{"type":"object","properties":{"n33dle":{"type":"string"}}}`
)

func toolSamples() []requestSample {
	schema := func(s llm.Raw) requestEdit {
		return func(r request) { r.Tools[0].Schema = s }
	}
	strict := func(v bool) requestEdit {
		return func(r request) { r.Tools[0].Strict = &v }
	}
	grammar := func(g llm.Raw) requestEdit {
		return func(r request) { r.Tools[0].Grammar = g }
	}
	return []requestSample{
		{name: "tools.kind: function", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: needle, Schema: needleSchema}), find: needle},
		{name: "tools.kind: custom", set: declare(llm.Tool{Kind: llm.CustomTool, Name: needle}), find: needle},
		{name: "tools.kind: custom, to a server that knows only functions", set: declare(llm.Tool{Kind: llm.CustomTool, Name: needle}), find: needle, gates: gates{NoCustom: true}},
		{name: "tools.kind: search, which the client runs", set: declare(searchTool(`{"type":"tool_search","execution":"client","description":"n33dle"}`)), find: needle},
		{name: "tools.kind .hosted .raw: hosted, of the same protocol", base: sameProtocol, set: hosted("x", own), find: needle},
		{name: "tools.kind .hosted .raw: another vendor's web search", set: hosted("web_search", other)},
		{name: "tools.kind .hosted .raw: another vendor's web search, beside functions", base: withTool, set: hosted("web_search", other)},
		{name: "tools.kind .hosted .raw: another vendor's web fetch", set: hosted("web_fetch", other)},
		{name: "tools.kind .hosted .raw: another vendor's code execution", set: hosted("code", other)},
		{name: "tools.kind .hosted .raw: another vendor's file search, computer, image or MCP tool", set: hosted("file_search", other)},
		{name: "tools.name: good everywhere", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: needle}), find: needle},
		{name: "tools.name: out of the protocol's alphabet", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: needle + "/x"}), find: needle},
		{name: "tools.namespace", base: withTool, set: func(r request) { r.Tools[0].Namespace = needle }, find: needle},
		{name: "tools.description", base: withTool, set: func(r request) { r.Tools[0].Description = needle }, find: needle},
		{name: "tools.schema", base: withTool, set: schema(needleSchema), find: needle},
		{name: "tools.schema: not of an object", base: withTool, set: schema(`{"type":"string"}`)},
		{name: "tools.schema: keywords beyond the vendor's", base: withTool, set: schema(keywordSchema)},
		{name: "tools.schema: an array that does not say of what", base: withTool, set: schema(`{"type":"object","properties":{"a":{"type":"array"}}}`)},
		{name: "tools.strict: true", base: withTool, set: edits(strict(true), schema(needleSchema))},
		{name: "tools.strict: true, with an optional property", base: withTool, set: edits(strict(true), schema(optionalSchema))},
		{name: "tools.strict: false", base: withTool, set: strict(false)},
		{name: "tools.strict: true, with keywords beyond the vendor's", base: withTool, set: edits(strict(true), schema(keywordSchema))},
		{name: "tools.strict: true, with a schema that refers to itself", base: withTool, set: edits(strict(true), schema(recursiveSchema))},
		{name: "tools.grammar: regular expression", base: withCustomTool, set: grammar(`{"type":"grammar","grammar":{"syntax":"regex","definition":"n33dle"}}`), find: needle},
		{name: "tools.grammar: other", base: withCustomTool, set: grammar(`{"type":"grammar","grammar":{"syntax":"lark","definition":"n33dle"}}`), find: needle},
		{name: "tools.grammar: other, to a server that knows only functions", base: withCustomTool, set: grammar(`{"type":"grammar","grammar":{"syntax":"lark","definition":"n33dle"}}`), find: needle, gates: gates{NoCustom: true}},
		{name: "tools.cache", base: withTool, set: func(r request) { r.Tools[0].Cache = &llm.CacheMark{TTL: "5m"} }, find: "5m"},
		{name: "tools.ext: of the same protocol", base: edits(sameProtocol, withTool), set: func(r request) { r.Tools[0].Ext = member(r.own) }, find: needle},
		{name: "tools.ext: of another protocol", base: withTool, set: func(r request) { r.Tools[0].Ext = member(r.other) }},
		{name: "tools: none, but calls in earlier turns", base: withHistory, set: edits(replaceWithCall, func(r request) { r.Tools = nil })},
		{name: "parallel: false", base: withTool, set: func(r request) { r.Parallel = new(false) }},
		{name: "parallel: true", base: withTool, set: func(r request) { r.Parallel = new(true) }},
		{name: "parallel: without tools", set: func(r request) { r.Parallel = new(false) }},

		{name: "tool_choice.mode: auto", base: withTool, set: choose("auto")},
		{name: "tool_choice.mode: none", base: withTool, set: choose("none")},
		{name: "tool_choice.mode: required", base: withTool, set: choose("required")},
		{name: "tool_choice.mode: required, on a model that cannot be forced", base: withTool, set: choose("required"), gates: gates{NoForcedTool: true}},
		{name: "tool_choice.mode: required, without tools", set: choose("required")},
		{name: "tool_choice.mode .names tool_ref.kind .name: named", base: withTool, set: choose("named", llm.ToolRef{Kind: llm.FunctionTool, Name: "f"}), find: `"f"`},
		{name: "tool_choice.names tool_ref.kind: named, a custom tool", base: withCustomTool, set: choose("named", llm.ToolRef{Kind: llm.CustomTool, Name: "c"}), find: `"c"`},
		{name: "tool_ref.namespace", base: edits(withTool, func(r request) { r.Tools[0].Namespace = "ns" }), set: choose("named", llm.ToolRef{Kind: llm.FunctionTool, Namespace: "ns", Name: "f"}), find: "ns"},
		{name: "tool_choice.mode .names .allowed: allowed, auto", base: withTool, set: allow("auto"), find: `"f"`},
		{name: "tool_choice.mode .names .allowed: allowed, required", base: withTool, set: allow("required"), find: `"f"`},
		{name: "tool_choice.mode: validated", base: withTool, set: choose("validated")},
		{name: "tool_choice.mode .raw: another vendor's hosted tool", base: withTool, set: func(r request) { r.ToolChoice = llm.ToolChoice{Mode: "hosted", Raw: `{"type":"file_search"}`} }},
	}
}

func toolCallSamples() []requestSample {
	addResultBlock := func(b llm.Block) requestEdit {
		return func(r request) { r.result().Blocks = append(r.result().Blocks, b) }
	}
	return []requestSample{
		{name: "tool_call.call_id tool_result.call_id: good everywhere", base: withToolResult, set: func(r request) { r.call().CallID, r.result().CallID = needle, needle }, find: needle},
		{name: "tool_call.call_id tool_result.call_id: out of the protocol's alphabet", base: withToolResult, set: func(r request) { r.call().CallID, r.result().CallID = needle+" ü", needle+" ü" }, find: needle},
		{name: "tool_call.synthetic", base: withToolResult, set: func(r request) { r.call().Synthetic = true }},
		{name: "tool_call.kind: function", base: withHistory, set: replaceWithCall},
		{name: "tool_call.kind tool_result.kind: custom", base: withCustomCall, set: func(r request) { r.call().Args = needle }, find: needle},
		{name: "tool_call.kind tool_result.kind: search", base: withSearchCall, set: func(r request) { r.call().Args = `{"query":"n33dle"}` }, find: needle},
		{name: "tool_call.name", base: withToolResult, set: func(r request) { r.call().Name, r.Tools[0].Name = needle, needle }, find: needle},
		{name: "tool_call.namespace", base: withToolResult, set: func(r request) { r.call().Namespace, r.Tools[0].Namespace = needle, needle }, find: needle},
		{name: "tool_call.args: an object", base: withToolResult, set: func(r request) { r.call().Args = `{"a":1.10,"b":"n33dle"}` }, find: "1.10"},
		{name: "tool_call.args: empty", base: withToolResult, set: func(r request) { r.call().Args = "" }, find: "{}"},
		{name: "tool_call.args: JSON, but no object", base: withToolResult, set: func(r request) { r.call().Args = `["n33dle"]` }, find: needle},
		{name: "tool_call.args: no JSON", base: withToolResult, set: func(r request) { r.call().Args = needle + "{" }, find: needle},
		{name: "tool_result.blocks: text", base: withToolResult, set: func(r request) { r.result().Blocks = text(needle) }, find: needle},
		{name: "tool_result.blocks: several texts", base: withToolResult, set: addResultBlock(&llm.Text{Text: needle}), find: needle},
		{name: "tool_result.blocks: media", base: withToolResult, set: addResultBlock(png()), find: pngData},
		{name: "tool_result.blocks: another vendor's block", base: withToolResult, set: func(r request) {
			r.result().Blocks = append(r.result().Blocks, &llm.Opaque{Protocol: r.other, Type: "odd", Raw: `{"type":"odd"}`})
		}},
		{name: "tool_result.failed", base: withToolResult, set: func(r request) { r.result().Failed = true }},
		{name: "tool_result.name", base: withToolResult, set: func(r request) { r.result().Name = needle }, find: needle},
		{name: "tool_result.listed", base: withToolResult, set: func(r request) { r.result().Listed = true }},
		{name: "tool_result.missing", base: withToolResult, set: func(r request) { r.result().Missing, r.result().Blocks = true, nil }},
		{name: "tool_result: in system text", base: withToolResult, set: insertTurn(0, llm.System, []llm.Block{&llm.ToolResult{CallID: "x"}})},
	}
}
