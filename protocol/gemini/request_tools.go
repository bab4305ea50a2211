package gemini

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// hosted maps Google's tools to neutral names.
var hosted = map[string]string{
	"googleSearch": "web_search", "googleSearchRetrieval": "web_search", "enterpriseWebSearch": "web_search",
	"urlContext": "web_fetch", "codeExecution": "code", "fileSearch": "file_search", "computerUse": "computer",
	"mcpServers": "mcp", "googleMaps": "maps", "retrieval": "retrieval",
}

// hostedTools maps neutral names to Google's tools that need no settings.
var hostedTools = map[string]string{"web_search": "googleSearch", "web_fetch": "urlContext", "code": "codeExecution"}

func (d *requestDecoder) tool(t *Tool) {
	declared := t.FunctionDeclarations.Value()
	for _, f := range declared.All() {
		d.req.Tools = append(d.req.Tools, readFunction(f))
	}
	for _, m := range append(hostedMembers(t), t.Extra.All()...) {
		if len(m.Value) == 0 || m.Value.Kind() == 'n' {
			continue
		}
		d.req.Tools = append(d.req.Tools, llm.Tool{
			Kind: llm.HostedTool, Name: m.Name, Hosted: hosted[m.Name], Raw: llm.Raw(marshal(wire.Object{m})), Ext: llm.Ext{Protocol: own},
		})
	}
}

func hostedMembers(t *Tool) wire.Object {
	return wire.Object{
		{Name: "googleSearch", Value: t.GoogleSearch}, {Name: "googleSearchRetrieval", Value: t.GoogleSearchRetrieval},
		{Name: "codeExecution", Value: t.CodeExecution}, {Name: "urlContext", Value: t.URLContext},
		{Name: "googleMaps", Value: t.GoogleMaps}, {Name: "fileSearch", Value: t.FileSearch},
		{Name: "computerUse", Value: t.ComputerUse}, {Name: "mcpServers", Value: t.MCPServers},
		{Name: "retrieval", Value: t.Retrieval}, {Name: "enterpriseWebSearch", Value: t.EnterpriseWebSearch},
	}
}

func readFunction(f *FunctionDeclaration) llm.Tool {
	t := llm.Tool{Kind: llm.FunctionTool, Name: f.Name.Value(), Description: textOf(f.Description.Value()), Schema: llm.Raw(f.ParametersJSONSchema)}
	keep(&t.Ext, "", f.Extra.All())
	keepRaw(&t.Ext, "response", f.Response)
	keepRaw(&t.Ext, "responseJsonSchema", f.ResponseJSONSchema)
	if len(f.Parameters) > 0 && f.Parameters.Kind() != 'n' {
		note(&t.Ext, "parameters", f.Parameters) // kept for clients of this protocol
		if t.Schema == "" {
			t.Schema = llm.Raw(jsonSchema(f.Parameters))
		}
	}
	return t
}

func (d *requestDecoder) toolConfig(c *ToolConfig) {
	if c == nil {
		return
	}
	e := &d.req.Ext
	keep(e, atToolConfig, c.Extra.All())
	keepRaw(e, atToolConfig+"retrievalConfig", c.RetrievalConfig)
	keepRaw(e, atToolConfig+"includeServerSideToolInvocations", c.IncludeServerSideToolInvocations)
	f := c.FunctionCallingConfig.Ptr()
	if f == nil {
		return
	}
	keep(e, atCalling, f.Extra.All())
	keepRaw(e, atCalling+"streamFunctionCallArguments", f.StreamFunctionCallArguments)
	choice := &d.req.ToolChoice
	for _, name := range f.AllowedFunctionNames.Value() {
		choice.Names = append(choice.Names, llm.ToolRef{Kind: llm.FunctionTool, Name: name})
	}
	named := len(choice.Names)
	switch mode := strings.ToUpper(f.Mode.Value()); {
	case mode == "ANY" && named == 0:
		choice.Mode = "required"
	case mode == "ANY" && named == 1:
		choice.Mode = "named"
	case mode == "ANY":
		choice.Mode, choice.Allowed = "allowed", "required"
	case mode == "VALIDATED" && named == 0:
		choice.Mode = "validated"
	case mode == "VALIDATED":
		choice.Mode, choice.Allowed = "allowed", "auto"
	case mode == "NONE":
		*choice = llm.ToolChoice{Mode: "none"}
	case mode == "AUTO", mode == "", mode == "MODE_UNSPECIFIED":
		*choice = llm.ToolChoice{Mode: map[string]string{"AUTO": "auto"}[mode]}
	default:
		d.fail(invalid("toolConfig.functionCallingConfig.mode", "write AUTO, ANY, NONE or VALIDATED"))
	}
}

// nameByte reports whether a function name may hold b after its first byte.
func nameByte(b byte) bool { return llm.WordByte(b) || b == '.' || b == ':' }

const nameLimit = 128

// toolName returns a tool's name on the wire.
func toolName(ref llm.ToolRef) string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "__" + name
	}
	if name != "" && name[0] != '_' && (name[0] < 'A' || name[0] > 'z' || !llm.WordByte(name[0])) && name[0] < 0x80 {
		// A name must not begin like this. The zero byte forces a hash, so that
		// the result differs from a name that begins with an underscore itself.
		return "_" + llm.SafeName(name+"\x00", nameLimit-1, nameByte)
	}
	return llm.SafeName(name, nameLimit, nameByte)
}

// send returns a tool's name on the wire, and records how to restore the client's
// name.
func (e *requestEncoder) send(ref llm.ToolRef) string {
	name := toolName(ref)
	if name != ref.Name || ref.Namespace != "" || ref.Kind == llm.CustomTool || ref.Kind == llm.SearchTool {
		if e.names == nil {
			e.names = map[string]llm.ToolRef{}
		}
		e.names[name] = ref
	}
	return name
}

func (e *requestEncoder) tools() wire.List[Tool] {
	var out wire.List[Tool]
	var group wire.List[FunctionDeclaration] // adjacent functions form one tool
	flush := func() {
		if group.Len() > 0 {
			out.Append(&Tool{FunctionDeclarations: listOf(group)})
			group = wire.List[FunctionDeclaration]{}
		}
	}
	for i := range e.req.Tools {
		t := &e.req.Tools[i]
		if t.Kind != llm.HostedTool {
			f := e.function(t, codec.At("tools", i))
			group.Append(&f)
			continue
		}
		flush()
		if h, ok := e.hosted(t, codec.At("tools", i)); ok {
			out.Append(&h)
		}
	}
	flush()
	return out
}

func (e *requestEncoder) function(t *llm.Tool, path string) FunctionDeclaration {
	f := FunctionDeclaration{Name: wire.Some(e.send(llm.ToolRef{Kind: t.Kind, Name: t.Name, Namespace: t.Namespace}))}
	if t.Cache != nil {
		e.cached = true
	}
	if t.Strict != nil && *t.Strict {
		e.report.Approximate(path+".strict", "strict.best_effort", "the API follows a schema as well as it can")
	}
	if t.Kind == llm.SearchTool {
		e.report.Approximate(path, "tool_search.as_function", "a search for tools that the client runs is sent as a function")
	}
	codec.DropExt(e.report, path, t.Ext, protocol.Gemini)
	f.Extra = extra(t.Ext, "")
	description := t.Description
	switch {
	case t.Kind == llm.CustomTool:
		f.ParametersJSONSchema, description = e.customTool(t, path)
	case t.Ext.Protocol == own:
		if t.Ext.Get(codec.MarkPrefix+"parameters") == "" {
			f.ParametersJSONSchema = wire.Raw(t.Schema)
		}
	case emptySchema(t.Schema):
	default:
		if root := rootType(t.Schema); root != "object" && root != "" {
			e.report.Refuse(path+".schema", "schema.not_object", "the parameters of a function must be an object")
		}
		f.ParametersJSONSchema = fitSchema(t.Schema, path+".schema", e.report)
	}
	if description != "" {
		f.Description = wire.Some(wire.NewText(description))
	}
	return f
}

// customTool encodes a custom tool as a function with one argument.
func (e *requestEncoder) customTool(t *llm.Tool, path string) (schema wire.Raw, description string) {
	e.report.Approximate(path, "custom_tool.as_function", "a tool that takes free text is sent as a function with the argument input")
	description = t.Description
	var g struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
		Grammar    struct {
			Syntax     string `json:"syntax"`
			Definition string `json:"definition"`
		} `json:"grammar"`
	}
	_ = json.Unmarshal([]byte(t.Grammar), &g, wire.Lenient) // no grammar, or one in an unknown form
	if g.Definition == "" {
		g.Syntax, g.Definition = g.Grammar.Syntax, g.Grammar.Definition
	}
	if g.Definition != "" {
		// Not even a regular expression can be enforced: the API has no pattern
		// keyword.
		e.report.Approximate(path+".grammar", "grammar.lost", "the grammar is only part of the description")
		description = strings.TrimSpace(description + "\nThe input must follow this " + g.Syntax + " grammar:\n" + g.Definition)
	}
	return wire.Raw(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`), description
}

func (e *requestEncoder) hosted(t *llm.Tool, path string) (Tool, bool) {
	if t.Ext.Protocol == own {
		var o wire.Object
		if o.UnmarshalJSON([]byte(t.Raw)) != nil {
			return Tool{}, false
		}
		return Tool{Extra: wire.NewExtra(o)}, true
	}
	name, ok := hostedTools[t.Hosted]
	if !ok {
		e.report.Drop(path, "tool.hosted", "the API has no tool of its own for "+t.Hosted+t.Name)
		return Tool{}, false
	}
	// The API rejects its own tools beside functions unless the client sends back
	// what they did. Clients of other vendors cannot.
	if slices.ContainsFunc(e.req.Tools, func(t llm.Tool) bool { return t.Kind != llm.HostedTool }) {
		e.report.Drop(path, "tool.hosted", "the API does not take its own "+name+" beside functions")
		return Tool{}, false
	}
	e.report.Approximate(path, "tool.hosted_mapped", "the vendor's own "+name+" is used, without the settings of "+t.Hosted)
	return Tool{Extra: wire.NewExtra(wire.Object{{Name: name, Value: wire.Raw("{}")}})}, true
}

func (e *requestEncoder) toolChoice() wire.Opt[ToolConfig] {
	c := &e.req.ToolChoice
	var f FunctionCallingConfig
	mode := map[string]string{
		"auto": "AUTO", "none": "NONE", "required": "ANY", "named": "ANY", "validated": "VALIDATED",
		"allowed": "VALIDATED",
	}[c.Mode]
	if c.Mode == "allowed" && c.Allowed == "required" {
		mode = "ANY"
	}
	switch {
	case c.Mode == "hosted":
		e.report.Drop("tool_choice", "tool_choice.hosted", "a tool of the vendor cannot be forced")
	case !e.tooled && (mode == "ANY" || mode == "VALIDATED"):
		e.report.Refuse("tool_choice", "tool_choice.without_tools", "a tool is to be called, but there are none")
	case !e.tooled && e.req.Ext.Protocol != own:
	case e.target.Gates.NoForcedTool && mode == "ANY":
		e.report.Approximate("tool_choice", "tool_choice.forced_unsupported", "the model cannot be forced; it may call the tool")
		f.Mode = wire.Some("AUTO")
	case mode != "":
		f.Mode = wire.Some(mode)
	}
	if m := f.Mode.Value(); m == "ANY" || m == "VALIDATED" {
		names := make([]string, 0, len(c.Names))
		for _, ref := range c.Names {
			names = append(names, e.send(ref))
		}
		if len(names) > 0 {
			f.AllowedFunctionNames = wire.Some(names)
		}
	}
	if p := e.req.Parallel; p != nil && !*p && e.tooled {
		e.report.Drop("parallel", "parallel.unsupported", "the model may call several tools at once")
	}
	f.Extra = extra(e.req.Ext, atCalling)
	t := ToolConfig{Extra: extra(e.req.Ext, atToolConfig)}
	if f.Mode.IsSet() || len(f.Extra.All()) > 0 {
		t.FunctionCallingConfig = wire.Some(f)
	}
	if !t.FunctionCallingConfig.IsSet() && len(t.Extra.All()) == 0 {
		return wire.Opt[ToolConfig]{}
	}
	return wire.Some(t)
}
