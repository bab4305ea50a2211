package openairesponses

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Notes that this codec puts into an Ext for its own encoder. Other notes keep how
// a member was spelled and are written again.
const (
	// instructionsMark: the turn was the request's instructions.
	instructionsMark = protocol.MarkPrefix + "is_instructions"

	// inputMark: the turn was an input that is one string.
	inputMark = protocol.MarkPrefix + "is_input"

	// itemMark, on the first block of an assistant's message, is that message
	// with an empty content: it begins an item.
	itemMark = protocol.MarkPrefix + "item"

	// partMark tells an opaque part of a message from an opaque item.
	partMark = protocol.MarkPrefix + "is_part"

	// namespaceMark, on the first tool of a namespace, is that namespace without
	// its tools.
	namespaceMark = protocol.MarkPrefix + "of_namespace"

	// additionalMark, on each tool that an item has declared, is that item without
	// its tools.
	additionalMark = protocol.MarkPrefix + "of_item"

	// wholeMark, on the call of a search for tools and on its result, is the item
	// as it came.
	wholeMark = protocol.MarkPrefix + "whole"

	// foundMark: the tool was declared by what a search has found.
	foundMark = protocol.MarkPrefix + "is_found"
)

// spelled is the note that keeps a member as it was spelled, where the neutral
// model has what it says.
func spelled(name string) string { return protocol.MarkPrefix + name }

// wireName is the name that a member goes by on the wire; none for a mere note.
func wireName(name string) (string, bool) {
	switch name {
	case instructionsMark, inputMark, itemMark, partMark, namespaceMark, additionalMark, wholeMark, foundMark:
		return "", false
	}
	return strings.TrimPrefix(name, protocol.MarkPrefix), true
}

// The prefixes of item ids. OpenAI refuses an id with another one (RSP-10).
const (
	messageID  = "msg_"
	thoughtID  = "rs_"
	functionID = "fc_"
	customID   = "ctc_"
	searchID   = "tsc_"
)

// itemType reads what an item is. Messages may come without a type, and so may
// references (RSP-27).
func itemType(raw []byte) string {
	var head struct {
		Type string `json:"type"`
		Role string `json:"role"`
		ID   string `json:"id"`
	}
	_ = json.Unmarshal(raw, &head, lenient) // what is no item has no type
	switch {
	case head.Type != "":
		return head.Type
	case head.Role != "":
		return "message"
	case head.ID != "":
		return "item_reference"
	}
	return ""
}

// decodeThought reads a reasoning item.
func decodeThought(it *Item) *llm.Thought {
	t := &llm.Thought{Meta: llm.Meta{ID: it.ID.Value(), Ext: extOf(it.Extra)}}
	if sealed := it.EncryptedContent.Value(); sealed != "" {
		t.Seals = append(t.Seals, llm.Seal{Form: llm.Encrypted, Data: sealed, Origin: own})
	}
	t.Seals = append(t.Seals, unseal(&t.Ext, value(it.ExtraContent))...)
	for _, p := range it.Summary.Value() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.SummaryReasoning, Text: p.Text.Value()})
	}
	c := it.Content.Value()
	for _, p := range c.Parts.Value() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.FullReasoning, Text: p.Text.Value()})
	}
	if c.Text.IsSet() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.FullReasoning, Text: c.Text.Value()})
	}
	return t
}

// decodeCall reads the call of a function or of a custom tool.
func decodeCall(it *Item) *llm.ToolCall {
	c := &llm.ToolCall{
		Meta:   llm.Meta{ID: it.ID.Value(), Ext: extOf(it.Extra)},
		CallID: it.CallID.Value(), Name: it.Name.Value(), Namespace: it.Namespace.Value(),
		Kind: llm.FunctionTool, Args: it.Arguments.Value().String(),
	}
	if it.Type.Value() == "custom_tool_call" {
		c.Kind, c.Args = llm.CustomTool, it.Input.Value()
	}
	c.Seals = unseal(&c.Ext, value(it.ExtraContent))
	return c
}

// String is the JSON text of the arguments in either form.
func (a Arguments) String() string {
	if a.Text.IsSet() {
		return a.Text.Value()
	}
	return string(value(a.Value))
}

// decodeResult reads a tool's output.
func decodeResult(it *Item) *llm.ToolResult {
	r := &llm.ToolResult{
		Meta:   llm.Meta{ID: it.ID.Value(), Ext: extOf(it.Extra)},
		CallID: it.CallID.Value(), Name: it.Name.Value(), Kind: llm.FunctionTool,
	}
	if it.Namespace.IsSet() {
		keepMember(&r.Ext, "namespace", it.Namespace.Value())
	}
	if it.Type.Value() == "custom_tool_call_output" {
		r.Kind = llm.CustomTool
	}
	out, ok := it.Output.Get()
	r.Missing, r.Listed = !ok, out.Parts.IsSet()
	if s := out.Text.Value(); s != "" {
		r.Blocks = []llm.Block{&llm.Text{Text: s}}
	}
	for i := range out.Parts.Value() {
		r.Blocks = append(r.Blocks, decodePart(&out.Parts.Value()[i]))
	}
	return r
}

func keepMember(e *llm.Ext, name, as string) {
	if as != "" {
		e.Members = append(e.Members, llm.Member{Name: spelled(name), Value: quote(as)})
	}
}

// messageBlocks reads the parts of a message.
func messageBlocks(it *Item) []llm.Block {
	c := it.Content.Value()
	if c.Text.IsSet() {
		return []llm.Block{&llm.Text{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Text: c.Text.Value()}}
	}
	var blocks []llm.Block
	for i := range c.Parts.Value() {
		blocks = append(blocks, decodePart(&c.Parts.Value()[i]))
	}
	return blocks
}

// serverTools are the items of tools that OpenAI runs itself.
var serverTools = map[string]bool{
	"web_search_call": true, "file_search_call": true, "code_interpreter_call": true, "image_generation_call": true,
	"mcp_call": true, "mcp_list_tools": true, "tool_search_call": true, "tool_search_output": true,
}

// decodeOther keeps an item that only this protocol knows.
func decodeOther(typ string, raw llm.Raw) llm.Block {
	meta := llm.Meta{Ext: llm.Ext{Protocol: own}}
	if serverTools[typ] {
		return &llm.ServerCall{Meta: meta, Protocol: own, Type: typ, Raw: raw, Digest: digest(typ, raw)}
	}
	return &llm.Opaque{Meta: meta, Protocol: own, Type: typ, Raw: raw}
}

// digest says in words what a server tool did, for protocols that cannot hold the
// item.
func digest(typ string, raw llm.Raw) string {
	var call struct {
		Action struct {
			Query   string   `json:"query"`
			Queries []string `json:"queries"`
			URL     string   `json:"url"`
		} `json:"action"`
		Queries []string `json:"queries"`
		Code    string   `json:"code"`
		Name    string   `json:"name"`
		Output  string   `json:"output"`
	}
	_ = json.Unmarshal([]byte(raw), &call, lenient) // a digest of what can be read
	words := append(append([]string{call.Name, call.Action.Query}, call.Action.Queries...), call.Action.URL)
	words = append(append(words, call.Queries...), call.Code, call.Output)
	said := strings.Builder{}
	said.WriteString("[" + strings.TrimSuffix(typ, "_call") + "]")
	for i, word := range words {
		if word != "" && (i == 0 || word != words[i-1]) {
			said.WriteString(" " + word)
		}
	}
	return said.String()
}
