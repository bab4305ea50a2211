package openaichat

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// maxName and maxID are the lengths of tool names and call ids that OpenAI accepts. It rejects longer ids with status
// 400. Other servers make longer ids, and get them back as they made them.
const (
	maxName = 64
	maxID   = 40
)

func (d *requestDecoder) tools() {
	r := d.wire
	if n := r.Tools.Value().Len() + r.Functions.Value().Len(); n > 0 {
		d.out.Tools = make([]llm.Tool, 0, n)
	}
	for _, t := range r.Tools.Value().All() {
		d.out.Tools = append(d.out.Tools, decodeTool(t))
	}
	for _, f := range r.Functions.Value().All() {
		t := decodeFunction(*f, wire.Extra{})
		t.Ext.Protocol, t.Ext.Members = own, append(t.Ext.Members, llm.Member{Name: legacyMark, Value: "true"})
		d.out.Tools = append(d.out.Tools, t)
	}
	if c, ok := r.ToolChoice.Get(); ok {
		d.out.ToolChoice = decodeChoice(c)
	} else if c, ok := r.FunctionCall.Get(); ok {
		d.out.ToolChoice = llm.ToolChoice{Mode: c.Mode.Value()}
		if f, ok := c.Function.Get(); ok {
			d.out.ToolChoice = llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{{Kind: llm.FunctionTool, Name: f.Name.Value()}}}
		}
	}
	d.out.Parallel = r.ParallelToolCalls.Clone()
}

func decodeTool(t *Tool) llm.Tool {
	switch t.Type.Value() {
	case ToolTypeFunction:
		return decodeFunction(t.Function.Value(), t.Extra)
	case ToolTypeCustom:
		c := t.Custom.Value()
		out := llm.Tool{Kind: llm.CustomTool, Name: c.Name.Value(), Description: c.Description.Value().String(), Ext: extWith(t.Extra, "custom", c.Extra)}
		if c.Format.Kind() == '{' {
			out.Grammar = rawOf(c.Format)
		}
		return out
	}
	return llm.Tool{Kind: llm.HostedTool, Hosted: string(t.Type.Value()), Raw: rawOf(t), Ext: llm.Ext{Protocol: own}}
}

func decodeChoice(c ToolChoice) llm.ToolChoice {
	o, ok := c.Object.Get()
	if !ok {
		return llm.ToolChoice{Mode: c.Mode.Value()}
	}
	if o.Type.Value() != ToolTypeAllowed {
		return llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{decodeRef(o)}}
	}
	a := o.AllowedTools.Value()
	out := llm.ToolChoice{Mode: "allowed", Allowed: a.Mode.Value()}
	for _, t := range a.Tools.Value().All() {
		out.Names = append(out.Names, decodeRef(*t))
	}
	return out
}

func decodeRef(c NamedChoice) llm.ToolRef {
	if c.Type.Value() == ToolTypeCustom {
		return llm.ToolRef{Kind: llm.CustomTool, Name: c.Custom.Value().Name.Value()}
	}
	return llm.ToolRef{Kind: llm.FunctionTool, Name: c.Function.Value().Name.Value()}
}

func (e *requestEncoder) tools() {
	var tools wire.List[Tool]
	for i, t := range e.in.Tools {
		path := codec.At("tools", i)
		codec.DropExt(e.report, path, t.Ext, protocol.OpenAIChat)
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
				functions := e.out.Functions.Value()
				functions.Append(&f)
				e.out.Functions = wire.Some(functions)
				continue
			}
			tools.Append(&Tool{Type: wire.Some(ToolTypeFunction), Function: wire.Some(f), Extra: outer})
		case llm.CustomTool:
			if e.target.Gates.NoCustom {
				tools.Append(e.wrapped(t, path))
				continue
			}
			tools.Append(e.custom(t))
		case llm.HostedTool:
			var same Tool
			if t.Ext.Protocol == own && wire.Unmarshal([]byte(t.Raw), &same) == nil {
				tools.Append(&same)
				continue
			}
			e.report.Drop(path, "tool.hosted", "the tool "+strconv.Quote(t.Hosted)+" is run by its vendor and cannot be run here")
		}
	}
	if tools.Len() > 0 {
		e.out.Tools = wire.Some(tools)
	}
	if tools.Len() == 0 && !e.out.Functions.IsSet() {
		e.withoutTools()
		return
	}
	e.choice(e.in.ToolChoice)
	e.out.ParallelToolCalls = wire.FromPtr(e.in.Parallel)
}

// withoutTools removes the settings that servers reject in a request without
// tools.
func (e *requestEncoder) withoutTools() {
	switch c := e.in.ToolChoice; {
	case c.Mode == "required", c.Mode == "named", c.Mode == "allowed" && c.Allowed == "required":
		e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called and none can be")
	case c.Mode == "hosted":
		e.report.Drop("tool_choice", "tool_choice.hosted", "a tool that its vendor runs cannot be chosen here")
	}
}

// name returns a tool's name on the wire, and records it if it differs from the
// client's.
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

// wraps reports whether a custom tool is sent as a function.
func (e *requestEncoder) wraps(kind llm.ToolKind) bool {
	return kind == llm.CustomTool && e.target.Gates.NoCustom
}

// wrappedSchema is the schema of a function that takes a custom tool's text as
// its one argument.
const wrappedSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// wrapped encodes a custom tool as a function: few servers besides OpenAI's know
// custom tools.
func (e *requestEncoder) wrapped(t llm.Tool, path string) *Tool {
	e.report.Approximate(path, "custom_tool.as_function", "a tool that takes free text is sent as a function with one argument")
	text := t.Description
	if t.Grammar != "" && !strings.Contains(string(t.Grammar), `"type":"text"`) {
		e.report.Approximate(path+".grammar", "grammar.lost", "the grammar is in the description only")
		text = strings.TrimSpace(text + "\n\nThe input follows this grammar:\n" + string(t.Grammar))
	}
	f := Function{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})),
		Description: wire.NonZero(wire.NewText(text)), Parameters: wire.Raw(wrappedSchema)}
	return &Tool{Type: wire.Some(ToolTypeFunction), Function: wire.Some(f)}
}

func (e *requestEncoder) custom(t llm.Tool) *Tool {
	outer, inner := extrasOf(t.Ext, "custom")
	c := CustomTool{Name: wire.Some(e.name(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})),
		Description: wire.NonZero(wire.NewText(t.Description)), Format: wire.Raw(t.Grammar), Extra: inner}
	return &Tool{Type: wire.Some(ToolTypeCustom), Custom: wire.Some(c), Extra: outer}
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
		a := AllowedTools{Mode: wire.Some(c.Allowed)}
		var refs wire.List[NamedChoice]
		for _, n := range c.Names {
			ref := e.ref(n)
			refs.Append(&ref)
		}
		a.Tools = wire.Some(refs)
		e.out.ToolChoice = wire.Some(ToolChoice{Object: wire.Some(NamedChoice{Type: wire.Some(ToolTypeAllowed), AllowedTools: wire.Some(a)})})
	case "validated":
		e.report.Approximate("tool_choice", "tool_choice.validated", "calls are not checked against their schemas here")
		e.out.ToolChoice = wire.Some(ToolChoice{Mode: wire.Some("auto")})
	case "hosted":
		e.report.Drop("tool_choice", "tool_choice.hosted", "a tool that its vendor runs cannot be chosen here")
	default:
		if e.out.Functions.IsSet() {
			e.out.FunctionCall = wire.Some(FunctionCallChoice{Mode: wire.Some(c.Mode)})
			return
		}
		e.out.ToolChoice = wire.Some(ToolChoice{Mode: wire.Some(c.Mode)})
	}
}

func (e *requestEncoder) ref(r llm.ToolRef) NamedChoice {
	n := wire.Some(Named{Name: wire.Some(e.name(r))})
	if r.Kind == llm.CustomTool && !e.wraps(r.Kind) {
		return NamedChoice{Type: wire.Some(ToolTypeCustom), Custom: n}
	}
	return NamedChoice{Type: wire.Some(ToolTypeFunction), Function: n}
}
