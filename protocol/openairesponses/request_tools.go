package openairesponses

import (
	"cmp"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// hostedTools maps prefixes of vendor-run tool types to neutral names.
var hostedTools = []struct{ prefix, name string }{
	{"web_search", "web_search"}, {"file_search", "file_search"}, {"code_interpreter", "code"},
	{"image_generation", "image"}, {"computer", "computer"}, {"mcp", "mcp"},
}

// ourTools maps neutral names of vendor-run tools to OpenAI's.
var ourTools = map[string]llm.Raw{
	"web_search": `{"type":"web_search"}`,
	"code":       `{"type":"code_interpreter","container":{"type":"auto"}}`,
}

func decodeTools(raws wire.List[wire.Raw]) ([]llm.Tool, *llm.Error) {
	var tools []llm.Tool
	for i, raw := range raws.All() {
		some, err := decodeTool(*raw, "")
		if err != nil {
			return nil, invalid(codec.At("tools", i), err)
		}
		tools = append(tools, some...)
	}
	return tools, nil
}

// decodeTool decodes a tool, or all tools of a namespace.
func decodeTool(raw wire.Raw, namespace string) ([]llm.Tool, error) {
	if raw.Kind() != '{' {
		return nil, &wire.Error{Message: "want a tool, which is an object"}
	}
	typ := itemType(raw)
	if typ == searchTool && namespace == "" && byClient(raw) {
		return decodeSearch(raw)
	}
	if typ != "function" && typ != "custom" && typ != "namespace" {
		return []llm.Tool{hostedTool(typ, llm.Raw(raw), namespace)}, nil
	}
	var w Tool
	if err := wire.Unmarshal(raw, &w); err != nil {
		return nil, err
	}
	if typ == "namespace" {
		return decodeNamespace(&w, raw)
	}
	if w.Name.Value() == "" {
		return nil, &wire.Error{Pointer: "/name", Message: "the tool has no name"}
	}
	t := llm.Tool{Kind: llm.FunctionTool, Name: w.Name.Value(), Namespace: namespace, Description: w.Description.Value(),
		Schema: value(w.Parameters), Strict: w.Strict.Clone(), Ext: extOf(w.Extra)}
	keepNull(&t.Ext, "strict", w.Strict.IsNull())
	keepNull(&t.Ext, "parameters", w.Parameters.Kind() == 'n')
	if typ == "custom" {
		t.Kind, t.Grammar = llm.CustomTool, value(w.Format)
	}
	return []llm.Tool{t}, nil
}

func hostedTool(typ string, raw llm.Raw, namespace string) llm.Tool {
	t := llm.Tool{Kind: llm.HostedTool, Namespace: namespace, Hosted: typ, Raw: raw, Ext: llm.Ext{Protocol: own}}
	for _, h := range hostedTools {
		if strings.HasPrefix(typ, h.prefix) {
			t.Hosted = h.name
			break
		}
	}
	return t
}

func decodeNamespace(w *Tool, raw wire.Raw) ([]llm.Tool, error) {
	var tools []llm.Tool
	for _, inner := range w.Tools.Value().All() {
		some, err := decodeTool(*inner, w.Name.Value())
		if err != nil {
			return nil, err
		}
		tools = append(tools, some...)
	}
	if len(tools) == 0 { // it has no function, but the client sent it
		return []llm.Tool{hostedTool("namespace", llm.Raw(raw), "")}, nil
	}
	o := object{}
	o.str("type", "namespace")
	o.str("name", w.Name.Value())
	if w.Description.IsSet() {
		o.str("description", w.Description.Value())
	}
	o.ext(extOf(w.Extra))
	tools[0].Ext.Members = append(tools[0].Ext.Members, llm.Member{Name: namespaceMark, Value: o.end()})
	return tools, nil
}

func decodeToolChoice(c ToolChoice) (llm.ToolChoice, *llm.Error) {
	if c.Mode.IsSet() {
		return llm.ToolChoice{Mode: c.Mode.Value()}, nil
	}
	var w NamedTool
	if err := wire.Unmarshal(c.Object, &w); err != nil {
		return llm.ToolChoice{}, invalid("tool_choice", err)
	}
	switch w.Type.Value() {
	case "function", "custom":
		return llm.ToolChoice{Mode: "named", Names: []llm.ToolRef{w.ref()}}, nil
	case "allowed_tools":
		return decodeAllowed(&w, llm.Raw(c.Object)), nil
	}
	return llm.ToolChoice{Mode: "hosted", Raw: llm.Raw(c.Object)}, nil
}

// decodeAllowed decodes a choice among some tools. If one of them is run by the
// vendor, the original is kept too.
func decodeAllowed(w *NamedTool, raw llm.Raw) llm.ToolChoice {
	choice := llm.ToolChoice{Mode: "allowed", Allowed: w.Mode.Value()}
	for _, r := range w.Tools.Value().All() {
		var named NamedTool
		if r.Kind() == '{' && wire.UnmarshalLenient(*r, &named) == nil {
			ref := named.ref()
			choice.Names = append(choice.Names, ref)
			if ref.Kind == llm.HostedTool {
				choice.Raw = raw
			}
		}
	}
	return choice
}

func (w *NamedTool) ref() llm.ToolRef {
	switch w.Type.Value() {
	case "function":
		return llm.ToolRef{Kind: llm.FunctionTool, Name: w.Name.Value(), Namespace: w.Namespace.Value()}
	case "custom":
		return llm.ToolRef{Kind: llm.CustomTool, Name: w.Name.Value(), Namespace: w.Namespace.Value()}
	}
	return llm.ToolRef{Kind: llm.HostedTool, Name: w.Type.Value()}
}

// toolName returns a tool's name on the wire.
func (e *requestEncoder) toolName(ref llm.ToolRef) string {
	sent := llm.SafeName(ref.Name, maxID, llm.WordByte)
	if sent != ref.Name {
		if e.names == nil {
			e.names = map[string]llm.ToolRef{}
		}
		e.names[sent] = ref
	}
	return sent
}

// tools encodes the request's list of tools.
func (e *requestEncoder) tools() list { return e.toolList(0, e.listed()) }

// toolList encodes some of the tools.
func (e *requestEncoder) toolList(from, to int) list {
	var all list
	tools := e.req.Tools[:to]
	for i := from; i < to; {
		n := namespaceLength(tools[i:])
		if n == 0 {
			if raw := e.tool(&tools[i], codec.At("tools", i)); raw != "" {
				all.add(raw)
			}
			i++
			continue
		}
		var inner list
		for j := i; j < i+n; j++ {
			if raw := e.tool(&tools[j], codec.At("tools", j)); raw != "" {
				inner.add(raw)
			}
		}
		all.add(namespace(&tools[i], inner.end()))
		i += n
	}
	return all
}

// namespaceLength returns how many tools, from the first on, are in one
// namespace.
func namespaceLength(tools []llm.Tool) int {
	if tools[0].Namespace == "" {
		return 0
	}
	n := 1
	for n < len(tools) && tools[n].Namespace == tools[0].Namespace && tools[n].Ext.Get(namespaceMark) == "" {
		n++
	}
	return n
}

func namespace(first *llm.Tool, tools llm.Raw) llm.Raw {
	o := object{}
	for _, m := range membersOf(first.Ext.Get(namespaceMark)) {
		o.raw(m.Name, llm.Raw(m.Value))
	}
	o.str("type", "namespace")
	o.str("name", first.Namespace)
	o.str("description", "")
	o.raw("tools", tools)
	return o.end()
}

func (e *requestEncoder) tool(t *llm.Tool, path string) llm.Raw {
	if t.Kind == llm.HostedTool {
		return e.hosted(t, path)
	}
	if t.Kind == llm.SearchTool && isOwn(t.Ext) {
		return t.Raw
	}
	codec.DropExt(e.report, path, t.Ext, protocol.OpenAIResponses)
	schema := t.Schema
	if !isOwn(e.req.Ext) && !openai.DescribesObject(schema) {
		e.report.Refuse(path+".schema", "schema.not_object", "the schema of a function's arguments must be that of an object")
		schema = ""
	}
	o := object{}
	name := e.toolName(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace})
	if t.Kind == llm.CustomTool {
		o.str("type", "custom")
		o.str("name", name)
		o.opt("description", t.Description)
		o.raw("format", flatGrammar(t.Grammar))
	} else {
		o.str("type", "function")
		o.str("name", name)
		o.opt("description", t.Description)
		o.raw("parameters", schema)
		strict := t.Strict
		if !isOwn(e.req.Ext) {
			strict = openai.Strict(strict, schema, path+".strict", e.report)
		}
		o.boolean("strict", strict)
		if e.echo { // a response repeats all of them
			o.nullable("description", "")
			o.raw("parameters", "null")
			o.raw("strict", "null")
		}
		if !isOwn(t.Ext) {
			o.raw("parameters", `{"type":"object","properties":{}}`)
			o.raw("strict", "false") // the server's default is true, CRQ-46
		}
	}
	if t.Cache != nil {
		e.cacheMark(&object{}, &llm.CacheMark{}) // tools have no cache mark here
	}
	o.ext(t.Ext)
	return o.end()
}

func (e *requestEncoder) hosted(t *llm.Tool, path string) llm.Raw {
	if isOwn(t.Ext) {
		return t.Raw
	}
	raw, ok := ourTools[t.Hosted]
	if !ok {
		e.report.Drop(path, "tool.hosted", "the Responses API has no tool for "+t.Hosted)
		return ""
	}
	e.report.Approximate(path, "tool.hosted_mapped", "OpenAI's own tool for "+t.Hosted+" is used, without the settings of the other vendor's")
	return raw
}

func (e *requestEncoder) toolChoice(o *object) {
	c := e.req.ToolChoice
	forced := c.Mode == "required" || c.Mode == "named" || c.Mode == "allowed" && c.Allowed == "required"
	switch {
	case forced && e.target.Gates.NoForcedTool:
		e.report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be made to call a tool; it may")
		o.str("tool_choice", "auto")
	case forced && len(e.req.Tools) == 0 && !isOwn(e.req.Ext):
		e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but there are none")
	case len(e.req.Tools) == 0 && !isOwn(e.req.Ext): // CRQ-29
	case c.Mode == "auto", c.Mode == "none", c.Mode == "required":
		o.str("tool_choice", c.Mode)
	case c.Raw != "" && isOwn(e.req.Ext):
		o.raw("tool_choice", c.Raw)
	case c.Mode == "named" && len(c.Names) > 0:
		o.raw("tool_choice", e.namedTool(c.Names[0]))
	case c.Mode == "allowed":
		o.raw("tool_choice", e.allowed(c))
	case c.Mode == "validated":
		e.report.Approximate("tool_choice", "tool_choice.validated", "calls are not held to their schemas; set strict on the tools")
		o.str("tool_choice", "auto")
	case c.Mode != "" && isOwn(e.req.Ext):
		o.str("tool_choice", c.Mode)
	case c.Mode != "":
		e.report.Approximate("tool_choice", "tool_choice.hosted", "the choice of another vendor's tool is left to the model")
		o.str("tool_choice", "auto")
	}
}

func (e *requestEncoder) namedTool(ref llm.ToolRef) llm.Raw {
	o := object{}
	typ := "function"
	if ref.Kind == llm.CustomTool {
		typ = "custom"
	}
	o.str("type", typ)
	o.str("name", e.toolName(ref))
	o.opt("namespace", ref.Namespace)
	return o.end()
}

func (e *requestEncoder) allowed(c llm.ToolChoice) llm.Raw {
	var tools list
	for _, ref := range c.Names {
		tools.add(e.namedTool(ref))
	}
	o := object{}
	o.str("type", "allowed_tools")
	if c.Allowed != "" || !isOwn(e.req.Ext) {
		o.str("mode", cmp.Or(c.Allowed, "auto"))
	}
	o.raw("tools", tools.end())
	return o.end()
}
