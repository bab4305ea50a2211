package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// toolChoice writes which tools may or must be called.
func (e *requestEncoder) toolChoice() {
	typ, name := e.choiceType()
	if !e.out.Tools.IsSet() {
		if typ == "any" || typ == "tool" {
			e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but none is declared")
		}
		return
	}
	if e.fromHistory {
		typ, name = "none", ""
	}
	if (typ == "any" || typ == "tool") && e.target.Gates.NoForcedTool {
		e.report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be forced; it is told to instead")
		e.notes = append(e.notes, forcedNote(name))
		typ, name = "auto", ""
	}
	c := ToolChoice{Extra: restOf(e.req.Ext, "tool_choice")}
	if e.req.Parallel != nil && typ != "none" {
		switch {
		case !*e.req.Parallel:
			c.DisableParallelToolUse = wire.Some(true)
		case e.home: // elsewhere true is what everybody says and what is done unasked
			c.DisableParallelToolUse = wire.Some(false)
		}
		if typ == "" && !*e.req.Parallel { // CRQ-28
			typ = "auto"
		}
	}
	if typ == "" {
		return
	}
	c.Type, c.Name = wire.Some(typ), optString(name)
	e.out.ToolChoice = wire.Some(c)
	e.forced = typ == "any" || typ == "tool"
}

func forcedNote(name string) string {
	if name == "" {
		return "Call one of the tools now; do not answer without a call."
	}
	return "Call the tool " + name + " now; do not answer without that call."
}

// choiceType is the protocol's word for the choice, and the tool that it names.
func (e *requestEncoder) choiceType() (typ, name string) {
	c := e.req.ToolChoice
	switch c.Mode {
	case "auto", "none":
		return c.Mode, ""
	case "required":
		return "any", ""
	case "named":
		if len(c.Names) == 1 {
			return "tool", e.chosen(c.Names[0])
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
		if len(c.Names) == 1 {
			if h, ok := hostedTools[c.Names[0].Name]; ok {
				return "tool", h.name
			}
		}
		e.report.Approximate("tool_choice", "tool_choice.hosted", "the tool cannot be chosen; the model decides")
		return "auto", ""
	}
	return "", ""
}

func (e *requestEncoder) chosen(ref llm.ToolRef) string {
	if ref.Kind == llm.HostedTool {
		return ref.Name
	}
	return e.names.sent(ref)
}
