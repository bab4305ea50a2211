package blockcodec

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Names assigns each tool its name on the wire.
type Names struct {
	longest int
	sentAs  map[llm.ToolRef]string // by name and namespace
	taken   map[string]bool
	undo    map[string]llm.ToolRef
}

// NewNames returns Names whose names have at most longest bytes.
func NewNames(longest int) *Names {
	return &Names{longest: longest, sentAs: map[llm.ToolRef]string{}, taken: map[string]bool{}, undo: map[string]llm.ToolRef{}}
}

// Take reserves a name.
func (n *Names) Take(name string) { n.taken[name] = true }

// Fix reserves the name of a tool that is sent unchanged, so that its calls keep the name.
func (n *Names) Fix(name string) {
	n.Take(name)
	n.sentAs[llm.ToolRef{Name: name}] = name
}

// Sent returns a tool's name on the wire. A name in earlier turns refers to the tool that is declared under
// it.
func (n *Names) Sent(ref llm.ToolRef) string {
	key := llm.ToolRef{Name: ref.Name, Namespace: ref.Namespace}
	if s, ok := n.sentAs[key]; ok {
		return s
	}
	full := ref.Name
	if ref.Namespace != "" {
		full = ref.Namespace + "__" + ref.Name
	}
	s := llm.SafeName(full, n.longest, llm.WordByte)
	for n.taken[s] {
		full += "\x00" // no name contains it, so the result hashes differently
		s = llm.SafeName(full, n.longest, llm.WordByte)
	}
	n.sentAs[key], n.taken[s] = s, true
	if s != ref.Name || ref.Namespace != "" || ref.Kind == llm.CustomTool || ref.Kind == llm.SearchTool {
		n.undo[s] = ref
	}
	return s
}

// Undo maps the names on the wire that differ from the tools' own to the tools.
func (n *Names) Undo() map[string]llm.ToolRef { return n.undo }

// Called returns the names on the wire of the tools that earlier turns called, each once.
func (n *Names) Called(turns []llm.Turn) (names []string) {
	seen := map[string]bool{}
	for _, t := range turns {
		for _, b := range t.Blocks {
			call, ok := b.(*llm.ToolCall)
			if !ok {
				continue
			}
			if name := n.Sent(RefOf(call)); !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// RefOf returns the tool of a call.
func RefOf(c *llm.ToolCall) llm.ToolRef {
	return llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace}
}

// Allowed reports whether a tool is among those that a choice allows.
func Allowed(names []llm.ToolRef, t *llm.Tool) bool {
	for _, n := range names {
		if n.Name == t.Name && n.Namespace == t.Namespace || n.Kind == llm.HostedTool && n.Name == t.Hosted {
			return true
		}
	}
	return false
}

// ForcedNote returns the instruction for a model that cannot be forced to call a tool. Without a name it is
// any of them.
func ForcedNote(name string) string {
	if name == "" {
		return "Call one of the tools now; do not answer without a call."
	}
	return "Call the tool " + name + " now; do not answer without that call."
}

// EmptySchema is the schema of a function without arguments.
const EmptySchema = `{"type":"object","properties":{}}`

// RootObject makes sure that a schema describes an object. CRQ-53
func RootObject(report *llm.Report, at string, schema wire.Raw) wire.Raw {
	var o wire.Object
	if schema.Kind() != '{' || o.UnmarshalJSON(schema) != nil || len(o) == 0 {
		if k := schema.Kind(); k != '{' && k != 'n' && k != 0 {
			report.Refuse(at+".schema", "schema.not_object", "the schema of a tool's arguments is an object")
		}
		return wire.Raw(EmptySchema)
	}
	typ, ok := o.Get("type")
	if !ok {
		raw, _ := append(wire.Object{{Name: "type", Value: wire.Raw(`"object"`)}}, o...).MarshalJSON()
		return raw
	}
	if string(typ) != `"object"` {
		report.Refuse(at+".schema", "schema.not_object", "the arguments of a tool are an object; its schema says "+string(typ))
	}
	return schema
}

// CustomTool returns the description and the schema of the function that replaces a custom tool.
func CustomTool(report *llm.Report, at string, t *llm.Tool) (description string, schema wire.Raw) {
	report.Approximate(at, "custom_tool.as_function", "sent as a function with the one argument input")
	input := wire.Object{{Name: "type", Value: wire.Raw(`"string"`)}}
	text := t.Description
	if pattern, ok := regexOf(t.Grammar); ok {
		input = append(input, wire.Member{Name: "pattern", Value: Quoted(pattern)})
	} else if t.Grammar != "" {
		report.Approximate(at+".grammar", "grammar.lost", "the grammar is in the description only")
		text = strings.TrimSpace(text + "\n\nThe input follows this grammar:\n" + string(t.Grammar))
	}
	raw, _ := input.MarshalJSON()
	return text, wire.Raw(`{"type":"object","properties":{"input":` + string(raw) + `},"required":["input"],"additionalProperties":false}`)
}

// regexOf returns the regular expression of a grammar in Chat's nested or Responses' flat form.
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

// ChoiceType returns the protocol's type of tool choice, and the tool that it names. hosted are the names of the tools
// that the vendor runs, by their neutral names.
func (e *RequestEncoder) ChoiceType(hosted func(name string) (string, bool)) (typ, name string) {
	c := e.Req.ToolChoice
	switch c.Mode {
	case "auto", "none":
		return c.Mode, ""
	case "required":
		return "any", ""
	case "named":
		switch {
		case len(c.Names) == 1 && c.Names[0].Kind != llm.HostedTool:
			return "tool", e.Names.Sent(c.Names[0])
		case len(c.Names) == 1 && hosted != nil:
			return "tool", c.Names[0].Name
		}
		return "any", ""
	case "allowed":
		e.Report.Approximate("tool_choice", "tool_choice.allowed_filtered", "the tools that are not allowed are not sent")
		if c.Allowed == "required" {
			return "any", ""
		}
		return "auto", ""
	case "validated":
		e.Report.Approximate("tool_choice", "tool_choice.validated", "sent as auto")
		return "auto", ""
	case "hosted":
		if len(c.Names) == 1 && hosted != nil {
			if name, ok := hosted(c.Names[0].Name); ok {
				return "tool", name
			}
		}
		e.Report.Approximate("tool_choice", "tool_choice.hosted", "the tool cannot be chosen; the model decides")
		return "auto", ""
	}
	return "", ""
}
