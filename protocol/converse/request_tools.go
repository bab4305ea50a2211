package converse

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// emptySchema is the schema of a function without arguments.
const emptySchema = `{"type":"object","properties":{}}`

// noCalls is the instruction that stands for a choice of no tool.
const noCalls = "Do not call any tool now; answer with text only."

// tools encodes all tools, or those that the choice allows.
func (e *requestEncoder) tools() {
	var out []wire.Raw
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		if e.req.ToolChoice.Mode == "allowed" && !allowed(e.req.ToolChoice.Names, t) {
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
	rest := restOf(e.req.Ext, "toolConfig")
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

func allowed(names []llm.ToolRef, t *llm.Tool) bool {
	for _, n := range names {
		if n.Name == t.Name && n.Namespace == t.Namespace || n.Kind == llm.HostedTool && n.Name == t.Hosted {
			return true
		}
	}
	return false
}

func (e *requestEncoder) tool(at string, t *llm.Tool) wire.Raw {
	protocol.DropExt(e.report, at, t.Ext, protocol.Converse)
	w := ToolSpec{Extra: extraOf(t.Ext)}
	schema := wire.Raw(t.Schema)
	switch t.Kind {
	case llm.HostedTool:
		if t.Ext.Protocol == own && t.Raw != "" {
			return wire.Raw(t.Raw)
		}
		e.report.Drop(at, "tool.hosted", "there is no counterpart of the hosted tool "+t.Hosted)
		return nil
	case llm.CustomTool:
		schema = e.customSchema(at, t, &w)
	default:
		if t.Kind == llm.SearchTool {
			e.report.Approximate(at, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
		}
		w.Description = wire.NonZero(wire.NewText(t.Description))
		if t.Ext.Protocol != own {
			schema = e.rootObject(at, schema)
		}
		if t.Strict != nil && (*t.Strict || t.Ext.Protocol == own) { // false is the default
			w.Strict = wire.Some(*t.Strict)
		}
	}
	w.Name = wire.Some(e.names.sent(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace}))
	w.InputSchema = wire.Some(InputSchema{JSON: schema})
	raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)})
	if err != nil {
		e.report.Refuse(at, "tool.invalid", err.Error())
		return nil
	}
	return raw
}

// rootObject makes sure that a schema describes an object.
func (e *requestEncoder) rootObject(at string, schema wire.Raw) wire.Raw {
	var o wire.Object
	if schema.Kind() != '{' || o.UnmarshalJSON(schema) != nil || len(o) == 0 {
		if k := schema.Kind(); k != '{' && k != 'n' && k != 0 {
			e.report.Refuse(at+".schema", "schema.not_object", "the schema of a tool's arguments is an object")
		}
		return wire.Raw(emptySchema)
	}
	typ, ok := o.Get("type")
	if !ok {
		raw, _ := append(wire.Object{{Name: "type", Value: wire.Raw(`"object"`)}}, o...).MarshalJSON()
		return raw
	}
	if string(typ) != `"object"` {
		e.report.Refuse(at+".schema", "schema.not_object", "the arguments of a tool are an object; its schema says "+string(typ))
	}
	return schema
}

// customSchema returns the function that replaces a custom tool.
func (e *requestEncoder) customSchema(at string, t *llm.Tool, w *ToolSpec) wire.Raw {
	e.report.Approximate(at, "custom_tool.as_function", "sent as a function with the one argument input")
	input := wire.Object{{Name: "type", Value: wire.Raw(`"string"`)}}
	text := t.Description
	if pattern, ok := regexOf(t.Grammar); ok {
		input = append(input, wire.Member{Name: "pattern", Value: quoted(pattern)})
	} else if t.Grammar != "" {
		e.report.Approximate(at+".grammar", "grammar.lost", "the grammar is in the description only")
		text = strings.TrimSpace(text + "\n\nThe input follows this grammar:\n" + string(t.Grammar))
	}
	w.Description = wire.NonZero(wire.NewText(text))
	raw, _ := input.MarshalJSON()
	return wire.Raw(`{"type":"object","properties":{"input":` + string(raw) + `},"required":["input"],"additionalProperties":false}`)
}

// regexOf returns the regular expression of a grammar in Chat's nested or Responses' flat
// form.
func regexOf(grammar llm.Raw) (string, bool) {
	type form struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	var g struct {
		form
		Grammar form `json:"grammar"`
	}
	if grammar == "" || json.Unmarshal([]byte(grammar), &g, wire.Lenient) != nil {
		return "", false
	}
	if g.Syntax == "" {
		g.form = g.Grammar
	}
	return g.Definition, g.Syntax == "regex"
}

// toolsOfHistory declares the tools that earlier turns called: the API rejects tool blocks
// without declared tools.
func (e *requestEncoder) toolsOfHistory() []wire.Raw {
	var out []wire.Raw
	seen := map[string]bool{}
	for _, t := range e.req.Turns {
		for _, b := range t.Blocks {
			call, ok := b.(*llm.ToolCall)
			if !ok {
				continue
			}
			name := e.names.sent(refOf(call))
			if seen[name] {
				continue
			}
			seen[name] = true
			w := ToolSpec{Name: wire.Some(name), InputSchema: wire.Some(InputSchema{JSON: wire.Raw(`{"type":"object"}`)})}
			if raw, err := wire.Marshal(&Tool{ToolSpec: wire.Some(w)}); err == nil {
				out = append(out, raw)
			}
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
		e.notes = append(e.notes, forcedNote(name))
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

func forcedNote(name string) string {
	if name == "" {
		return "Call one of the tools now; do not answer without a call."
	}
	return "Call the tool " + name + " now; do not answer without that call."
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
			return "tool", e.names.sent(c.Names[0])
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
