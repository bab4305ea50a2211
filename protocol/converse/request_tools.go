package converse

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// noCalls is the instruction that stands for a choice of no tool.
const noCalls = "Do not call any tool now; answer with text only."

// tools encodes all tools, or those that the choice allows.
func (e *requestEncoder) tools() {
	var out []wire.Raw
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		if e.req.ToolChoice.Mode == "allowed" && !blockcodec.Allowed(e.req.ToolChoice.Names, t) {
			continue
		}
		at := protocol.At("tools", i)
		raw := e.tool(at, t)
		if raw == nil {
			continue
		}
		if out = append(out, raw); t.Cache != nil {
			out = append(out, e.cachePoint(at, t.Cache))
		}
	}
	if e.req.ToolChoice.Mode == "none" && len(out) > 0 {
		out = e.withoutChoice(out)
	}
	if len(out) == 0 && !e.home {
		out = e.toolsOfHistory()
	}
	rest := kept.Rest(e.req.Ext, "toolConfig")
	if len(out) == 0 && len(rest.All()) == 0 {
		return
	}
	e.out.ToolConfig = wire.Some(ToolConfig{Extra: rest})
	if len(out) > 0 {
		e.out.ToolConfig.Ptr().Tools = wire.Some(wire.ListOf(out...))
	}
}

// withoutChoice returns the tools of a request whose choice is none, which the protocol
// lacks: no tools, or all of them and an instruction if earlier turns have calls, because
// the API rejects those without tools.
func (e *requestEncoder) withoutChoice(tools []wire.Raw) []wire.Raw {
	for _, t := range e.req.Turns {
		for _, b := range t.Blocks {
			if _, ok := b.(*llm.ToolCall); ok {
				e.report.Approximate("tool_choice", "tool_choice.none", "the protocol cannot forbid calls; the model is instructed not to call a tool")
				e.notes = append(e.notes, noCalls)
				return tools
			}
		}
	}
	e.report.Approximate("tool_choice", "tool_choice.none", "the protocol cannot forbid calls; the tools are not sent")
	return nil
}

func (e *requestEncoder) tool(at string, t *llm.Tool) wire.Raw {
	protocol.DropExt(e.report, at, t.Ext, protocol.Converse)
	w := ToolSpec{Extra: kept.Extra(t.Ext)}
	schema := wire.Raw(t.Schema)
	switch t.Kind {
	case llm.HostedTool:
		if t.Ext.Protocol == own && t.Raw != "" {
			return wire.Raw(t.Raw)
		}
		e.report.Drop(at, "tool.hosted", "there is no counterpart of the hosted tool "+t.Hosted)
		return nil
	case llm.CustomTool:
		text, input := blockcodec.CustomTool(e.report, at, t)
		w.Description, schema = wire.NonZero(wire.NewText(text)), input
	default:
		if t.Kind == llm.SearchTool {
			e.report.Approximate(at, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
		}
		w.Description = wire.NonZero(wire.NewText(t.Description))
		if t.Ext.Protocol != own {
			schema = blockcodec.RootObject(e.report, at, schema)
		}
		if t.Strict != nil && (*t.Strict || t.Ext.Protocol == own) { // false is the default
			w.Strict = wire.Some(*t.Strict)
		}
	}
	w.Name = wire.Some(e.names.Sent(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace}))
	w.InputSchema = wire.Some(InputSchema{JSON: schema})
	raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)})
	if err != nil {
		e.report.Refuse(at, "tool.invalid", err.Error())
		return nil
	}
	return raw
}

// toolsOfHistory declares the tools that earlier turns called: the API rejects tool blocks
// without declared tools.
func (e *requestEncoder) toolsOfHistory() []wire.Raw {
	var out []wire.Raw
	for _, name := range e.names.Called(e.req.Turns) {
		w := ToolSpec{Name: wire.Some(name), InputSchema: wire.Some(InputSchema{JSON: wire.Raw(`{"type":"object"}`)})}
		if raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)}); err == nil {
			out = append(out, raw)
		}
	}
	if out != nil {
		e.fromHistory = true
		e.notes = append(e.notes, noCalls)
		e.report.Approximate("tools", "tools.from_history", "declared the tools of earlier turns; the model is instructed not to call them")
	}
	return out
}

// toolChoice encodes which tools may or must be called.
func (e *requestEncoder) toolChoice() {
	e.dropIf(e.req.Parallel != nil && !*e.req.Parallel && e.out.ToolConfig.IsSet(), "parallel", "parallel.unsupported")
	typ, name := e.choiceType()
	forced := typ == "any" || typ == "tool"
	config := e.out.ToolConfig.Ptr()
	switch {
	case config == nil || !config.Tools.IsSet():
		if forced {
			e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but none is declared")
		}
		return
	case e.fromHistory:
		return
	case forced && e.target.Gates.NoForcedTool:
		e.report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be forced to call a tool; it is instructed to")
		e.notes = append(e.notes, blockcodec.ForcedNote(name))
		typ = "auto"
	}
	var c ToolChoice
	switch typ {
	case "":
		return
	case "auto":
		c.Auto = wire.Raw("{}")
	case "any":
		c.Any = wire.Raw("{}")
	case "tool":
		c.Tool = wire.Some(ToolName{Name: wire.Some(name)})
	}
	config.ToolChoice = wire.Some(c)
	e.forced = typ != "auto"
}

// choiceType returns the member of the tool choice, and the tool that it names.
func (e *requestEncoder) choiceType() (typ, name string) {
	c := e.req.ToolChoice
	switch c.Mode {
	case "auto":
		return "auto", ""
	case "required":
		return "any", ""
	case "named":
		if len(c.Names) == 1 && c.Names[0].Kind != llm.HostedTool {
			return "tool", e.names.Sent(c.Names[0])
		}
		return "any", ""
	case "allowed":
		e.report.Approximate("tool_choice", "tool_choice.allowed_filtered", "the tools that are not allowed are not sent")
		if c.Allowed == "required" {
			return "any", ""
		}
		return "auto", ""
	case "validated":
		e.report.Approximate("tool_choice", "tool_choice.validated", "sent as auto")
		return "auto", ""
	case "hosted":
		e.report.Approximate("tool_choice", "tool_choice.hosted", "the tool cannot be chosen; the model decides")
		return "auto", ""
	}
	return "", ""
}
