package loss

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

func custom(s scene) *llm.Request {
	r := hello(s)
	r.Tools = []llm.Tool{{Kind: llm.CustomTool, Name: "c"}}
	return r
}

func customWorking(s scene) *llm.Request {
	r := working(s)
	r.Tools[0] = llm.Tool{Kind: llm.CustomTool, Name: "f"}
	call(r).Kind, result(r).Kind = llm.CustomTool, llm.CustomTool
	call(r).Args = "free"
	return r
}

// searching is a search for tools. Only one protocol has it.
func searching(raw llm.Raw) llm.Tool {
	return llm.Tool{Kind: llm.SearchTool, Name: aNeedle, Raw: raw, Ext: llm.Ext{Protocol: string(protocol.OpenAIResponses)}}
}

func searchWorking(s scene) *llm.Request {
	r := working(s)
	r.Tools[0] = searching(`{"type":"tool_search","execution":"client"}`)
	call(r).Name, call(r).Kind, result(r).Kind = aNeedle, llm.SearchTool, llm.SearchTool
	return r
}

func declare(t llm.Tool) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { r.Tools = append(r.Tools, t) }
}

func hosted(what string) func(*llm.Request, scene) {
	return func(r *llm.Request, s scene) {
		r.Tools = []llm.Tool{{Kind: llm.HostedTool, Name: what, Hosted: what, Raw: llm.Raw(`{"type":"` + aNeedle + `"}`), Ext: llm.Ext{Protocol: s.other}}}
	}
}

func choose(c llm.ToolChoice) func(*llm.Request, scene) {
	return func(r *llm.Request, _ scene) { r.ToolChoice = c }
}

func named(kind llm.ToolKind, namespace, name string) []llm.ToolRef {
	return []llm.ToolRef{{Kind: kind, Namespace: namespace, Name: name}}
}

const aSchema = `{"type":"object","properties":{"n33dle":{"type":"string"}}}`

func toolSamples() []sample {
	schema := func(s llm.Raw) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) { r.Tools[0].Schema = s }
	}
	strict := func(v bool, schema llm.Raw) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) {
			r.Tools[0].Strict = &v
			if schema != "" {
				r.Tools[0].Schema = schema
			}
		}
	}
	grammar := func(g llm.Raw) func(*llm.Request, scene) {
		return func(r *llm.Request, _ scene) { r.Tools[0].Grammar = g }
	}
	return []sample{
		{fields: "tools.kind", when: "function", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: aNeedle, Schema: aSchema}), find: aNeedle},
		{fields: "tools.kind", when: "custom", set: declare(llm.Tool{Kind: llm.CustomTool, Name: aNeedle}), find: aNeedle},
		{fields: "tools.kind", when: "custom, to a server that knows only functions", set: declare(llm.Tool{Kind: llm.CustomTool, Name: aNeedle}), find: aNeedle, gates: gates{NoCustom: true}},
		{fields: "tools.kind", when: "search, which the client runs", set: declare(searching(`{"type":"tool_search","execution":"client","description":"n33dle"}`)), find: aNeedle},
		{fields: "tools.kind tools.hosted tools.raw", when: "hosted, of the same protocol", base: home, set: func(r *llm.Request, s scene) {
			r.Tools = []llm.Tool{{Kind: llm.HostedTool, Name: "x", Hosted: "x", Raw: `{"type":"n33dle"}`, Ext: llm.Ext{Protocol: s.own}}}
		}, find: aNeedle},
		{fields: "tools.kind tools.hosted tools.raw", when: "another vendor's web search", set: hosted("web_search")},
		{fields: "tools.kind tools.hosted tools.raw", when: "another vendor's web search, beside functions", base: tooled, set: func(r *llm.Request, s scene) {
			functions := r.Tools
			hosted("web_search")(r, s)
			r.Tools = append(functions, r.Tools...)
		}},
		{fields: "tools.kind tools.hosted tools.raw", when: "another vendor's web fetch", set: hosted("web_fetch")},
		{fields: "tools.kind tools.hosted tools.raw", when: "another vendor's code execution", set: hosted("code")},
		{fields: "tools.kind tools.hosted tools.raw", when: "another vendor's file search, computer, image or MCP tool", set: hosted("file_search")},
		{fields: "tools.name", when: "good everywhere", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: aNeedle}), find: aNeedle},
		{fields: "tools.name", when: "out of the protocol's alphabet", set: declare(llm.Tool{Kind: llm.FunctionTool, Name: aNeedle + "/x"}), find: aNeedle},
		{fields: "tools.namespace", base: tooled, set: func(r *llm.Request, _ scene) { r.Tools[0].Namespace = aNeedle }, find: aNeedle},
		{fields: "tools.description", base: tooled, set: func(r *llm.Request, _ scene) { r.Tools[0].Description = aNeedle }, find: aNeedle},
		{fields: "tools.schema", base: tooled, set: schema(aSchema), find: aNeedle},
		{fields: "tools.schema", when: "not of an object", base: tooled, set: schema(`{"type":"string"}`)},
		{fields: "tools.schema", when: "keywords beyond the vendor's", base: tooled, set: schema(`{"type":"object","properties":{"a":{"type":"integer","multipleOf":3}}}`)},
		{fields: "tools.schema", when: "an array that does not say of what", base: tooled, set: schema(`{"type":"object","properties":{"a":{"type":"array"}}}`)},
		{fields: "tools.strict", when: "true", base: tooled, set: strict(true, "")},
		{fields: "tools.strict", when: "false", base: tooled, set: strict(false, "")},
		{fields: "tools.strict", when: "true, with keywords beyond the vendor's", base: tooled, set: strict(true, `{"type":"object","properties":{"a":{"type":"integer","multipleOf":3}}}`)},
		{fields: "tools.strict", when: "true, with a schema that refers to itself", base: tooled, set: strict(true, `{"type":"object","properties":{"a":{"$ref":"#"}}}`)},
		{fields: "tools.grammar", when: "regular expression", base: custom, set: grammar(`{"type":"grammar","grammar":{"syntax":"regex","definition":"n33dle"}}`), find: aNeedle},
		{fields: "tools.grammar", when: "other", base: custom, set: grammar(`{"type":"grammar","grammar":{"syntax":"lark","definition":"n33dle"}}`), find: aNeedle},
		{fields: "tools.grammar", when: "other, to a server that knows only functions", base: custom, set: grammar(`{"type":"grammar","grammar":{"syntax":"lark","definition":"n33dle"}}`), find: aNeedle, gates: gates{NoCustom: true}},
		{fields: "tools.cache", base: tooled, set: func(r *llm.Request, _ scene) { r.Tools[0].Cache = &llm.CacheMark{TTL: "5m"} }, find: "5m"},
		{fields: "tools.ext", when: "of the same protocol", base: func(s scene) *llm.Request {
			r := tooled(s)
			r.Ext.Protocol, r.Tools[0].Ext.Protocol = s.own, s.own
			return r
		}, set: func(r *llm.Request, s scene) { r.Tools[0].Ext = member(s.own) }, find: aNeedle},
		{fields: "tools.ext", when: "of another protocol", base: tooled, set: func(r *llm.Request, s scene) { r.Tools[0].Ext = member(s.other) }},
		{fields: "tools", when: "none, but calls in earlier turns", base: dialogue, set: func(r *llm.Request, s scene) {
			r.Turns = working(s).Turns
		}},
		{fields: "parallel", when: "false", base: tooled, set: func(r *llm.Request, _ scene) { r.Parallel = new(false) }},
		{fields: "parallel", when: "true", base: tooled, set: func(r *llm.Request, _ scene) { r.Parallel = new(true) }},
		{fields: "parallel", when: "without tools", set: func(r *llm.Request, _ scene) { r.Parallel = new(false) }},

		{fields: "tool_choice.mode", when: "auto", base: tooled, set: choose(llm.ToolChoice{Mode: "auto"})},
		{fields: "tool_choice.mode", when: "none", base: tooled, set: choose(llm.ToolChoice{Mode: "none"})},
		{fields: "tool_choice.mode", when: "required", base: tooled, set: choose(llm.ToolChoice{Mode: "required"})},
		{fields: "tool_choice.mode", when: "required, on a model that cannot be forced", base: tooled, set: choose(llm.ToolChoice{Mode: "required"}), gates: gates{NoForcedTool: true}},
		{fields: "tool_choice.mode", when: "required, without tools", set: choose(llm.ToolChoice{Mode: "required"})},
		{fields: "tool_choice.mode tool_choice.names tool_ref.kind tool_ref.name", when: "named", base: tooled,
			set: choose(llm.ToolChoice{Mode: "named", Names: named(llm.FunctionTool, "", "f")}), find: `"f"`},
		{fields: "tool_choice.names tool_ref.kind", when: "named, a custom tool", base: custom,
			set: choose(llm.ToolChoice{Mode: "named", Names: named(llm.CustomTool, "", "c")}), find: `"c"`},
		{fields: "tool_ref.namespace", base: func(s scene) *llm.Request { r := tooled(s); r.Tools[0].Namespace = "ns"; return r },
			set: choose(llm.ToolChoice{Mode: "named", Names: named(llm.FunctionTool, "ns", "f")}), find: "ns"},
		{fields: "tool_choice.mode tool_choice.names tool_choice.allowed", when: "allowed, auto", base: tooled,
			set: choose(llm.ToolChoice{Mode: "allowed", Allowed: "auto", Names: named(llm.FunctionTool, "", "f")}), find: `"f"`},
		{fields: "tool_choice.mode tool_choice.names tool_choice.allowed", when: "allowed, required", base: tooled,
			set: choose(llm.ToolChoice{Mode: "allowed", Allowed: "required", Names: named(llm.FunctionTool, "", "f")}), find: `"f"`},
		{fields: "tool_choice.mode", when: "validated", base: tooled, set: choose(llm.ToolChoice{Mode: "validated"})},
		{fields: "tool_choice.mode tool_choice.raw", when: "another vendor's hosted tool", base: tooled,
			set: choose(llm.ToolChoice{Mode: "hosted", Raw: `{"type":"file_search"}`})},

		{fields: "tool_call.call_id tool_result.call_id", when: "good everywhere", base: working, set: func(r *llm.Request, _ scene) {
			call(r).CallID, result(r).CallID = aNeedle, aNeedle
		}, find: aNeedle},
		{fields: "tool_call.call_id tool_result.call_id", when: "out of the protocol's alphabet", base: working, set: func(r *llm.Request, _ scene) {
			call(r).CallID, result(r).CallID = aNeedle+" ü", aNeedle+" ü"
		}, find: aNeedle},
		{fields: "tool_call.synthetic", base: working, set: func(r *llm.Request, _ scene) { call(r).Synthetic = true }},
		{fields: "tool_call.kind", when: "function", base: dialogue, set: func(r *llm.Request, s scene) {
			r.Turns, r.Tools = working(s).Turns, tooled(s).Tools
		}},
		{fields: "tool_call.kind tool_result.kind", when: "custom", base: customWorking, set: func(r *llm.Request, _ scene) { call(r).Args = aNeedle }, find: aNeedle},
		{fields: "tool_call.kind tool_result.kind", when: "search", base: searchWorking, set: func(r *llm.Request, _ scene) { call(r).Args = `{"query":"n33dle"}` }, find: aNeedle},
		{fields: "tool_call.name", base: working, set: func(r *llm.Request, _ scene) { call(r).Name, r.Tools[0].Name = aNeedle, aNeedle }, find: aNeedle},
		{fields: "tool_call.namespace", base: working, set: func(r *llm.Request, _ scene) {
			call(r).Namespace, r.Tools[0].Namespace = aNeedle, aNeedle
		}, find: aNeedle},
		{fields: "tool_call.args", when: "an object", base: working, set: func(r *llm.Request, _ scene) { call(r).Args = `{"a":1.10,"b":"n33dle"}` }, find: "1.10"},
		{fields: "tool_call.args", when: "empty", base: working, set: func(r *llm.Request, _ scene) { call(r).Args = "" }, find: "{}"},
		{fields: "tool_call.args", when: "JSON, but no object", base: working, set: func(r *llm.Request, _ scene) { call(r).Args = `["n33dle"]` }, find: aNeedle},
		{fields: "tool_call.args", when: "no JSON", base: working, set: func(r *llm.Request, _ scene) { call(r).Args = aNeedle + "{" }, find: aNeedle},
		{fields: "tool_result.blocks", when: "text", base: working, set: func(r *llm.Request, _ scene) { result(r).Blocks = text(aNeedle) }, find: aNeedle},
		{fields: "tool_result.blocks", when: "several texts", base: working, set: func(r *llm.Request, _ scene) {
			result(r).Blocks = append(result(r).Blocks, text(aNeedle)...)
		}, find: aNeedle},
		{fields: "tool_result.blocks", when: "media", base: working, set: func(r *llm.Request, _ scene) {
			result(r).Blocks = append(result(r).Blocks, picture())
		}, find: aPicture},
		{fields: "tool_result.blocks", when: "another vendor's block", base: working, set: func(r *llm.Request, s scene) {
			result(r).Blocks = append(result(r).Blocks, &llm.Opaque{Protocol: s.other, Type: "odd", Raw: `{"type":"odd"}`})
		}},
		{fields: "tool_result.failed", base: working, set: func(r *llm.Request, _ scene) { result(r).Failed = true }},
		{fields: "tool_result.name", base: working, set: func(r *llm.Request, _ scene) { result(r).Name = aNeedle }, find: aNeedle},
		{fields: "tool_result.listed", base: working, set: func(r *llm.Request, _ scene) { result(r).Listed = true }},
		{fields: "tool_result.missing", base: working, set: func(r *llm.Request, _ scene) { result(r).Missing, result(r).Blocks = true, nil }},
		{fields: "tool_result", when: "in system text", base: working, set: func(r *llm.Request, _ scene) {
			r.Turns = append([]llm.Turn{{Role: llm.System, Blocks: []llm.Block{&llm.ToolResult{CallID: "x"}}}}, r.Turns...)
		}},
	}
}
