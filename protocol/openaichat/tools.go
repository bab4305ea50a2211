package openaichat

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// maxName is the longest name of a tool, and maxID of a call, that servers take.
const (
	maxName = 64
	maxID   = 64
)

func (d *requestDecoder) tools() {
	r := d.wire
	for _, t := range r.Tools.Value() {
		d.out.Tools = append(d.out.Tools, decodeTool(t))
	}
	for _, f := range r.Functions.Value() {
		t := decodeFunction(f, wire.Extra{})
		t.Ext.Protocol, t.Ext.Members = own, append(t.Ext.Members, llm.Member{Name: legacyMark, Value: "true"})
		d.out.Tools = append(d.out.Tools, t)
	}
	if c, ok := r.ToolChoice.Get(); ok {
		d.out.ToolChoice = decodeChoice(c)
	} else if c, ok := r.FunctionCall.Get(); ok {
		d.out.ToolChoice = llm.ToolChoice{Mode: string(c.Mode.Value())}
		if f, ok := c.Function.Get(); ok {
			d.out.ToolChoice = llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: f.Name.Value()}}}
		}
	}
	d.out.Parallel = ptr(r.ParallelToolCalls)
}

func decodeTool(t Tool) llm.Tool {
	switch t.Type.Value() {
	case ToolTypeFunction:
		return decodeFunction(t.Function.Value(), t.Extra)
	case ToolTypeCustom:
		c := t.Custom.Value()
		out := llm.Tool{Kind: llm.CustomTool, Name: c.Name.Value(), Description: c.Description.Value().String(), Ext: extWith(t.Extra, "custom", c.Extra)}
		if f, ok := c.Format.Get(); ok {
			out.Grammar = rawOf(f)
		}
		return out
	}
	return llm.Tool{Kind: llm.HostedTool, Hosted: string(t.Type.Value()), Raw: rawOf(t), Ext: llm.Ext{Protocol: own}}
}

func decodeFunction(f Function, outer wire.Extra) llm.Tool {
	return llm.Tool{Kind: llm.FunctionTool, Name: f.Name.Value(), Description: f.Description.Value().String(),
		Schema: llm.Raw(f.Parameters), Strict: ptr(f.Strict), Ext: extWith(outer, "function", f.Extra)}
}

func decodeChoice(c ToolChoice) llm.ToolChoice {
	o, ok := c.Object.Get()
	if !ok {
		return llm.ToolChoice{Mode: string(c.Mode.Value())}
	}
	if o.Type.Value() != ToolTypeAllowed {
		return llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{decodeRef(o)}}
	}
	a := o.AllowedTools.Value()
	out := llm.ToolChoice{Mode: "allowed", Allowed: string(a.Mode.Value())}
	for _, t := range a.Tools.Value() {
		out.Names = append(out.Names, decodeRef(t))
	}
	return out
}

func decodeRef(c NamedChoice) llm.ToolRef {
	if c.Type.Value() == ToolTypeCustom {
		return llm.ToolRef{Kind: llm.CustomTool, Name: c.Custom.Value().Name.Value()}
	}
	return llm.ToolRef{Kind: llm.FunctionTool, Name: c.Function.Value().Name.Value()}
}

// decodeCall reads a call of an earlier answer. at and j say where it stands.
func decodeCall(c *ToolCall, at, j int) *llm.ToolCall {
	out := &llm.ToolCall{CallID: c.ID.Value(), Kind: llm.FunctionTool}
	if cu, ok := c.Custom.Get(); ok {
		out.Kind, out.Name, out.Args = llm.CustomTool, cu.Name.Value(), cu.Input.Value().String()
		out.Ext = extWith(c.Extra, "custom", cu.Extra)
	} else {
		f := c.Function.Value()
		out.Name, out.Args = f.Name.Value(), f.Arguments.Value().String()
		out.Ext = extWith(c.Extra, "function", f.Extra)
	}
	if out.CallID == "" {
		out.CallID, out.Synthetic = llm.MintID("call_", strconv.Itoa(at), strconv.Itoa(j), out.Name), true
	}
	out.Seals = unseal(&out.Ext)
	return out
}

func (e *requestEncoder) tools() {
	var tools []Tool
	for i, t := range e.in.Tools {
		path := "tools[" + strconv.Itoa(i) + "]"
		protocol.DropExt(e.report, path, t.Ext, protocol.OpenAIChat)
		if t.Cache != nil {
			e.report.Drop(path, "cache.mark", "this protocol's servers cache by themselves")
		}
		switch t.Kind {
		case llm.FunctionTool, llm.SearchTool:
			if t.Kind == llm.SearchTool {
				e.report.Approximate(path, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
			}
			outer, inner := extrasOf(t.Ext, "function")
			f := e.function(t, inner, path)
			if isLegacy(t.Ext) {
				e.out.Functions = wire.Some(append(e.out.Functions.Value(), f))
				continue
			}
			tools = append(tools, Tool{Type: wire.Some(ToolTypeFunction), Function: wire.Some(f), Extra: outer})
		case llm.CustomTool:
			if e.target.Gates.NoCustom {
				tools = append(tools, e.wrapped(t, path))
				continue
			}
			tools = append(tools, e.custom(t))
		case llm.HostedTool:
			var same Tool
			if t.Ext.Protocol == own && toolShape.Unmarshal([]byte(t.Raw), &same) == nil {
				tools = append(tools, same)
				continue
			}
			e.report.Drop(path, "tool.hosted", "the tool "+strconv.Quote(t.Hosted)+" is run by its vendor and cannot be run here")
		}
	}
	if len(tools) > 0 {
		e.out.Tools = wire.Some(tools)
	}
	if len(tools) == 0 && !e.out.Functions.IsSet() {
		e.withoutTools()
		return
	}
	e.choice(e.in.ToolChoice)
	e.out.ParallelToolCalls = opt(e.in.Parallel)
}

// withoutTools leaves out what servers refuse where there is no tool.
func (e *requestEncoder) withoutTools() {
	switch c := e.in.ToolChoice; {
	case c.Mode == "required", c.Mode == "named", c.Mode == "allowed" && c.Allowed == "required":
		e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called and none can be")
	case c.Mode == "hosted":
		e.report.Drop("tool_choice", "tool_choice.hosted", "a tool that its vendor runs cannot be chosen here")
	}
}

// name is what a tool is called here, and is noted where that differs.
func (e *requestEncoder) name(r llm.ToolRef) string {
	full := r.Name
	if r.Namespace != "" {
		full = r.Namespace + "__" + r.Name
	}
	sent := llm.SafeName(full, maxName, llm.WordByte)
	if sent != r.Name || r.Namespace != "" || r.Kind == llm.SearchTool || e.wraps(r.Kind) {
		e.names[sent] = r
	}
	return sent
}

func isLegacy(e llm.Ext) bool { return e.Protocol == own && e.Get(legacyMark) != "" }

func (e *requestEncoder) function(t llm.Tool, extra wire.Extra, path string) Function {
	if e.in.Ext.Protocol != own && !describesObject(t.Schema) {
		e.report.Refuse(path+".schema", "schema.not_object", "the schema of a function's arguments must be that of an object")
		t.Schema = ""
	}
	f := Function{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})),
		Parameters: wire.Raw(t.Schema), Strict: opt(t.Strict), Extra: extra}
	if t.Description != "" {
		f.Description = wire.Some(wire.NewText(t.Description))
	}
	return f
}

// describesObject reports whether a schema is one that arguments can follow.
func describesObject(schema llm.Raw) bool {
	var s struct {
		Type jsontext.Value `json:"type"`
	}
	return schema == "" || json.Unmarshal([]byte(schema), &s, lenient) == nil &&
		(s.Type == nil || strings.Contains(string(s.Type), `"object"`))
}

// wraps reports whether a tool that takes free text is sent as a function.
func (e *requestEncoder) wraps(kind llm.ToolKind) bool {
	return kind == llm.CustomTool && e.target.Gates.NoCustom
}

// wrappedSchema is that of a function with the text as its one argument.
const wrappedSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// wrapped makes a function of a tool that takes free text: most servers besides
// OpenAI's own know no other kind.
func (e *requestEncoder) wrapped(t llm.Tool, path string) Tool {
	e.report.Approximate(path, "custom_tool.as_function", "a tool that takes free text is sent as a function with one argument")
	text := t.Description
	if t.Grammar != "" && !strings.Contains(string(t.Grammar), `"type":"text"`) {
		e.report.Approximate(path+".grammar", "grammar.lost", "the grammar is in the description only")
		text = strings.TrimSpace(text + "\n\nThe input follows this grammar:\n" + string(t.Grammar))
	}
	f := Function{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})), Parameters: wire.Raw(wrappedSchema)}
	if text != "" {
		f.Description = wire.Some(wire.NewText(text))
	}
	return Tool{Type: wire.Some(ToolTypeFunction), Function: wire.Some(f)}
}

func (e *requestEncoder) custom(t llm.Tool) Tool {
	outer, inner := extrasOf(t.Ext, "custom")
	c := CustomTool{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})), Extra: inner}
	if t.Description != "" {
		c.Description = wire.Some(wire.NewText(t.Description))
	}
	var f CustomFormat
	if t.Grammar != "" && customFormatShape.Unmarshal([]byte(t.Grammar), &f) == nil {
		c.Format = wire.Some(f)
	}
	return Tool{Type: wire.Some(ToolTypeCustom), Custom: wire.Some(c), Extra: outer}
}

func (e *requestEncoder) choice(c llm.ToolChoice) {
	if e.target.Gates.NoForcedTool && (c.Mode == "required" || c.Mode == "named") {
		e.report.Approximate("tool_choice", "tool_choice.forced_unsupported", "this model cannot be made to call a tool; it is free to")
		c = llm.ToolChoice{Mode: "auto"}
	}
	switch c.Mode {
	case "":
	case "named":
		if len(c.Names) == 1 && e.out.Functions.IsSet() {
			e.out.FunctionCall = wire.Some(FunctionCallChoice{Function: wire.Some(Named{Name: wire.Some(e.name(c.Names[0]))})})
		} else if len(c.Names) == 1 {
			e.out.ToolChoice = wire.Some(ToolChoice{Object: wire.Some(e.ref(c.Names[0]))})
		}
	case "allowed":
		a := AllowedTools{Mode: wire.Some(ToolMode(c.Allowed))}
		refs := make([]NamedChoice, 0, len(c.Names))
		for _, n := range c.Names {
			refs = append(refs, e.ref(n))
		}
		a.Tools = wire.Some(refs)
		e.out.ToolChoice = wire.Some(ToolChoice{Object: wire.Some(NamedChoice{Type: wire.Some(ToolTypeAllowed), AllowedTools: wire.Some(a)})})
	case "validated":
		e.report.Approximate("tool_choice", "tool_choice.validated", "calls are not checked against their schemas here")
		e.out.ToolChoice = wire.Some(ToolChoice{Mode: wire.Some(ToolModeAuto)})
	case "hosted":
		e.report.Drop("tool_choice", "tool_choice.hosted", "a tool that its vendor runs cannot be chosen here")
	default:
		if e.out.Functions.IsSet() {
			e.out.FunctionCall = wire.Some(FunctionCallChoice{Mode: wire.Some(ToolMode(c.Mode))})
			return
		}
		e.out.ToolChoice = wire.Some(ToolChoice{Mode: wire.Some(ToolMode(c.Mode))})
	}
}

func (e *requestEncoder) ref(r llm.ToolRef) NamedChoice {
	n := wire.Some(Named{Name: wire.Some(e.name(r))})
	if r.Kind == llm.CustomTool && !e.wraps(r.Kind) {
		return NamedChoice{Type: wire.Some(ToolTypeCustom), Custom: n}
	}
	return NamedChoice{Type: wire.Some(ToolTypeFunction), Function: n}
}

// call writes a call of an earlier answer.
func (e *requestEncoder) call(m *Message, c *llm.ToolCall) {
	name := e.name(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace})
	if isLegacy(c.Ext) {
		m.FunctionCall = wire.Some(FunctionCall{Name: wire.Some(name), Arguments: wire.Some(NewArguments(c.Args))})
		return
	}
	sent := c
	if e.wraps(c.Kind) {
		function := *c
		function.Kind, function.Args = llm.FunctionTool, `{"input":`+string(appendString(nil, c.Args))+"}"
		sent = &function
	}
	m.ToolCalls = wire.Some(append(m.ToolCalls.Value(), encodeCall(sent, e.ids.of(c), name)))
}

// encodeCall writes a call, of an answer or of an earlier one.
func encodeCall(c *llm.ToolCall, id, name string) ToolCall {
	kind := ToolTypeFunction
	if c.Kind == llm.CustomTool {
		kind = ToolTypeCustom
	}
	outer, inner := extrasOf(c.Ext, string(kind))
	out := ToolCall{ID: wire.Some(id), Type: wire.Some(kind), Extra: outer}
	// A seal that another protocol made travels in the carrier, where a client
	// sends it back from and a server that knows it looks for it.
	if _, has := outer.Get(protocol.CarrierMember); !has {
		if carried := protocol.Carry(c.Seals, protocol.OpenAIChat); carried != "" {
			out.Extra.Set(protocol.CarrierMember, wire.Raw(carried))
		}
	}
	if kind == ToolTypeCustom {
		out.Custom = wire.Some(CustomCall{Name: wire.Some(name), Input: wire.Some(wire.NewText(c.Args)), Extra: inner})
		return out
	}
	args := c.Args
	if args == "" { // no arguments are no JSON to most readers, CST-09
		args = "{}"
	}
	out.Function = wire.Some(FunctionCall{Name: wire.Some(name), Arguments: wire.Some(NewArguments(args)), Extra: inner})
	return out
}
