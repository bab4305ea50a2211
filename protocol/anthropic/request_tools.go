package anthropic

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// hostedKinds maps prefixes of Anthropic's tool types to neutral names.
var hostedKinds = []struct{ prefix, kind string }{
	{"web_search", "web_search"},
	{"web_fetch", "web_fetch"},
	{"code_execution", "code"},
	{"computer", "computer"},
	{"browser", "computer"},
	{"mcp", "mcp"},
	{"bash", "shell"},
	{"text_editor", "text_editor"},
	{"memory", "memory"},
	{"tool_search", "tool_search"},
}

// hostedTools maps neutral names of vendor-run tools to Anthropic's types.
var hostedTools = map[string]struct{ typ, name string }{
	"web_search": {"web_search_20250305", "web_search"},
	"web_fetch":  {"web_fetch_20250910", "web_fetch"},
	"code":       {"code_execution_20250825", "code_execution"},
}

func (d *requestDecoder) tools() {
	for i, raw := range d.wire.Tools.Value().All() {
		t, err := decodeTool(*raw)
		if err != nil {
			d.Fail("tools."+strconv.Itoa(i), err.Error())
			return
		}
		d.Req.Tools = append(d.Req.Tools, t)
	}
}

func decodeTool(raw wire.Raw) (llm.Tool, error) {
	var w Tool
	if err := wire.Unmarshal(raw, &w); err != nil {
		return llm.Tool{}, err
	}
	t := llm.Tool{Kind: llm.FunctionTool, Name: w.Name.Value(), Cache: decodeCache(w.CacheControl)}
	if typ := w.Type.Value(); typ != "" && typ != "custom" {
		t.Kind, t.Raw, t.Hosted = llm.HostedTool, llm.Raw(raw), typ
		t.Ext.Protocol = own
		for _, h := range hostedKinds {
			if strings.HasPrefix(typ, h.prefix) {
				t.Hosted = h.kind
				break
			}
		}
		return t, nil
	}
	t.Description, t.Schema, t.Ext = w.Description.Value().String(), llm.Raw(w.InputSchema), kept.Ext(w.Extra)
	if w.Type.IsSet() {
		kept.Mark(&t.Ext, "type", blockcodec.Quoted("custom"))
	}
	t.Ext.Protocol = own
	if strict, ok := w.Strict.Get(); ok {
		t.Strict = &strict
	}
	return t, nil
}

func (d *requestDecoder) toolChoice() {
	w, ok := d.wire.ToolChoice.Get()
	if !ok {
		return
	}
	c := &d.Req.ToolChoice
	switch w.Type.Value() {
	case "auto":
		c.Mode = "auto"
	case "none":
		c.Mode = "none"
	case "any":
		c.Mode = "required"
	case "tool":
		c.Mode = "named"
		ref := llm.ToolRef{Kind: llm.FunctionTool, Name: w.Name.Value()}
		for _, t := range d.Req.Tools {
			if t.Name == ref.Name {
				ref.Kind = t.Kind
			}
		}
		c.Names = []llm.ToolRef{ref}
	default:
		d.Fail("tool_choice.type", "want auto, any, tool or none, got "+strconv.Quote(w.Type.Value()))
	}
	if off, ok := w.DisableParallelToolUse.Get(); ok {
		parallel := !off
		d.Req.Parallel = &parallel
	}
	kept.KeepRest(&d.Req.Ext, "tool_choice", w.Extra)
}

// tools encodes all tools, or those that the choice allows.
func (e *requestEncoder) tools() {
	var out []wire.Raw
	for i := range e.Req.Tools {
		t := &e.Req.Tools[i]
		if e.Req.ToolChoice.Mode == "allowed" && !blockcodec.Allowed(e.Req.ToolChoice.Names, t) {
			continue
		}
		if raw := e.tool(codec.At("tools", i), t); raw != nil {
			out = append(out, raw)
		}
	}
	if len(out) == 0 && !e.Home {
		out = e.toolsOfHistory()
	}
	if len(out) > 0 {
		e.out.Tools = wire.Some(wire.ListOf(out...))
	}
}

func (e *requestEncoder) tool(at string, t *llm.Tool) wire.Raw {
	codec.DropExt(e.Report, at, t.Ext, protocol.Anthropic)
	w := Tool{CacheControl: e.cache(at, t.Cache)}
	schema := wire.Raw(t.Schema)
	switch t.Kind {
	case llm.HostedTool:
		return e.hosted(at, t)
	case llm.CustomTool:
		text, input := blockcodec.CustomTool(e.Report, at, t)
		w.Description, schema = wire.NonZero(wire.NewText(text)), input
	default:
		if t.Kind == llm.SearchTool {
			e.Report.Approximate(at, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
		}
		w.Description = wire.NonZero(wire.NewText(t.Description))
		schema = e.functionSchema(at, t, schema, &w)
	}
	w.Name = wire.Some(e.Names.Sent(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace}))
	w.InputSchema = schema
	w.Extra = kept.Extra(t.Ext)
	raw, err := wire.Marshal(&w)
	if err != nil {
		e.Report.Refuse(at, "tool.invalid", err.Error())
		return nil
	}
	return raw
}

func (e *requestEncoder) functionSchema(at string, t *llm.Tool, schema wire.Raw, w *Tool) wire.Raw {
	if t.Ext.Protocol == own {
		if t.Strict != nil {
			w.Strict = wire.Some(*t.Strict)
		}
		return schema
	}
	schema = blockcodec.RootObject(e.Report, at, schema)
	if t.Strict != nil && *t.Strict { // false is the default
		w.Strict = wire.Some(true)
		schema, _ = e.subset(at+".schema", schema)
	}
	return schema
}

func (e *requestEncoder) hosted(at string, t *llm.Tool) wire.Raw {
	if t.Ext.Protocol == own && t.Raw != "" {
		e.Names.Fix(t.Name)
		return wire.Raw(t.Raw)
	}
	h, ok := hostedTools[t.Hosted]
	if !ok {
		e.Report.Drop(at, "tool.hosted", "there is no counterpart of the hosted tool "+t.Hosted) // RSP-23
		return nil
	}
	e.Report.Approximate(at, "tool.hosted_mapped", "sent as "+h.typ+" without the settings of the original")
	e.Names.Take(h.name)
	w := Tool{Type: wire.Some(h.typ), Name: wire.Some(h.name)}
	raw, _ := wire.Marshal(&w)
	return raw
}

// toolsOfHistory declares the tools that earlier turns called: the API rejects
// tool blocks without declared tools. CRQ-31
func (e *requestEncoder) toolsOfHistory() []wire.Raw {
	var out []wire.Raw
	for _, name := range e.Names.Called(e.Req.Turns) {
		w := Tool{Name: wire.Some(name), InputSchema: wire.Raw(`{"type":"object"}`)}
		if raw, err := wire.Marshal(&w); err == nil {
			out = append(out, raw)
		}
	}
	if out != nil {
		e.FromHistory = true
		e.Report.Approximate("tools", "tools.from_history", "declared the tools of earlier turns, which may not be called")
	}
	return out
}

// toolChoice encodes which tools may or must be called.
func (e *requestEncoder) toolChoice() {
	typ, name := e.ChoiceType(func(name string) (string, bool) {
		h, ok := hostedTools[name]
		return h.name, ok
	})
	if !e.out.Tools.IsSet() {
		if typ == "any" || typ == "tool" {
			e.Report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but none is declared")
		}
		return
	}
	if e.FromHistory {
		typ, name = "none", ""
	}
	if (typ == "any" || typ == "tool") && e.Target.Gates.NoForcedTool {
		e.Report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be forced to call a tool; it is instructed to")
		e.Notes = append(e.Notes, blockcodec.ForcedNote(name))
		typ, name = "auto", ""
	}
	c := ToolChoice{Extra: kept.Rest(e.Req.Ext, "tool_choice")}
	if e.Req.Parallel != nil && typ != "none" {
		switch {
		case !*e.Req.Parallel:
			c.DisableParallelToolUse = wire.Some(true)
		case e.Home: // true is the default, and clients of other protocols send it routinely
			c.DisableParallelToolUse = wire.Some(false)
		}
		if typ == "" && !*e.Req.Parallel { // CRQ-28
			typ = "auto"
		}
	}
	if typ == "" {
		return
	}
	c.Type, c.Name = wire.Some(typ), wire.NonZero(name)
	e.out.ToolChoice = wire.Some(c)
	e.Forced = typ == "any" || typ == "tool"
}
