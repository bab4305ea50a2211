package converse

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// noCalls is the instruction that stands for a choice of no tool.
const noCalls = "Do not call any tool now; answer with text only."

// tools encodes all tools, or those that the choice allows.
func (e *requestEncoder) tools() {
	var out []wire.Raw
	for i := range e.Req.Tools {
		t := &e.Req.Tools[i]
		if e.Req.ToolChoice.Mode == "allowed" && !blockcodec.Allowed(e.Req.ToolChoice.Names, t) {
			continue
		}
		at := codec.At("tools", i)
		raw := e.tool(at, t)
		if raw == nil {
			continue
		}
		if out = append(out, raw); t.Cache != nil {
			out = append(out, e.cachePoint(at, t.Cache))
		}
	}
	if e.Req.ToolChoice.Mode == "none" && len(out) > 0 {
		out = e.withoutChoice(out)
	}
	if len(out) == 0 && !e.Home {
		out = e.toolsOfHistory()
	}
	rest := kept.Rest(e.Req.Ext, "toolConfig")
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
	for _, t := range e.Req.Turns {
		for _, b := range t.Blocks {
			if _, ok := b.(*llm.ToolCall); ok {
				e.Report.Approximate("tool_choice", "tool_choice.none", "the protocol cannot forbid calls; the model is instructed not to call a tool")
				e.Notes = append(e.Notes, noCalls)
				return tools
			}
		}
	}
	e.Report.Approximate("tool_choice", "tool_choice.none", "the protocol cannot forbid calls; the tools are not sent")
	return nil
}

func (e *requestEncoder) tool(at string, t *llm.Tool) wire.Raw {
	codec.DropExt(e.Report, at, t.Ext, protocol.Converse)
	w := ToolSpec{Extra: kept.Extra(t.Ext)}
	schema := wire.Raw(t.Schema)
	switch t.Kind {
	case llm.HostedTool:
		if t.Ext.Protocol == own && t.Raw != "" {
			return wire.Raw(t.Raw)
		}
		e.Report.Drop(at, "tool.hosted", "there is no counterpart of the hosted tool "+t.Hosted)
		return nil
	case llm.CustomTool:
		text, input := blockcodec.CustomTool(e.Report, at, t)
		w.Description, schema = wire.NonZero(wire.NewText(text)), input
	default:
		if t.Kind == llm.SearchTool {
			e.Report.Approximate(at, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
		}
		w.Description = wire.NonZero(wire.NewText(t.Description))
		if t.Ext.Protocol != own {
			schema = blockcodec.RootObject(e.Report, at, schema)
		}
		if t.Strict != nil && (*t.Strict || t.Ext.Protocol == own) { // false is the default
			w.Strict = wire.Some(*t.Strict)
		}
	}
	w.Name = wire.Some(e.Names.Sent(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace}))
	w.InputSchema = wire.Some(InputSchema{JSON: schema})
	raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)})
	if err != nil {
		e.Report.Refuse(at, "tool.invalid", err.Error())
		return nil
	}
	return raw
}

// toolsOfHistory declares the tools that earlier turns called: the API rejects tool blocks
// without declared tools.
func (e *requestEncoder) toolsOfHistory() []wire.Raw {
	var out []wire.Raw
	for _, name := range e.Names.Called(e.Req.Turns) {
		w := ToolSpec{Name: wire.Some(name), InputSchema: wire.Some(InputSchema{JSON: wire.Raw(`{"type":"object"}`)})}
		if raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)}); err == nil {
			out = append(out, raw)
		}
	}
	if out != nil {
		e.FromHistory = true
		e.Notes = append(e.Notes, noCalls)
		e.Report.Approximate("tools", "tools.from_history", "declared the tools of earlier turns; the model is instructed not to call them")
	}
	return out
}

// toolChoice encodes which tools may or must be called.
func (e *requestEncoder) toolChoice() {
	e.DropIf(e.Req.Parallel != nil && !*e.Req.Parallel && e.out.ToolConfig.IsSet(), "parallel", "parallel.unsupported")
	typ, name := e.ChoiceType(nil)
	forced := typ == "any" || typ == "tool"
	config := e.out.ToolConfig.Ptr()
	switch {
	case config == nil || !config.Tools.IsSet():
		if forced {
			e.Report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but none is declared")
		}
		return
	case e.FromHistory:
		return
	case forced && e.Target.Gates.NoForcedTool:
		e.Report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be forced to call a tool; it is instructed to")
		e.Notes = append(e.Notes, blockcodec.ForcedNote(name))
		typ = "auto"
	}
	var c ToolChoice
	switch typ {
	case "", "none":
		return
	case "auto":
		c.Auto = wire.Raw("{}")
	case "any":
		c.Any = wire.Raw("{}")
	case "tool":
		c.Tool = wire.Some(ToolName{Name: wire.Some(name)})
	}
	config.ToolChoice = wire.Some(c)
	e.Forced = typ != "auto"
}
