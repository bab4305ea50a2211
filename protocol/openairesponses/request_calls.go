package openairesponses

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// call adds a call and gives it an id if it has none.
func (r *inputReader) call(c *llm.ToolCall) {
	if c.CallID == "" {
		c.CallID = c.ID
	}
	if c.CallID == "" {
		c.CallID, c.Synthetic = llm.MintID("call_", c.Name, c.Args, strconv.Itoa(len(r.turns))), true
	}
	r.assistant(c)
}

// maxID is the maximum length of an id.
const maxID = 64

// sentCall is a call that was written.
type sentCall struct {
	id       string // in the neutral model
	sent     string // on the wire
	kind     llm.ToolKind
	path     string
	turn     int
	answered bool
}

// assistantItem encodes a block that is an item of its own.
func (e *requestEncoder) assistantItem(b llm.Block, path string, turn int) {
	switch b := b.(type) {
	case *llm.Thought:
		e.thought(b, path)
	case *llm.ToolCall:
		e.call(b, path, turn)
	case *llm.ServerCall:
		e.serverCall(b, path)
	case *llm.Opaque:
		if b.Protocol == own {
			e.items.add(b.Raw)
			return
		}
		e.report.Refuse(path, "block.unknown", "the Responses API has no item of the type "+b.Type)
	default:
		e.report.Refuse(path, "block.misplaced", "a block of this kind cannot stand in an assistant's turn")
	}
}

func textPart(typ, text string) llm.Raw {
	o := object{}
	o.str("type", typ)
	o.str("text", text)
	return o.end()
}

func (e *requestEncoder) call(c *llm.ToolCall, path string, turn int) {
	if raw := wholeItem(c.Ext); raw != "" {
		e.addCall(&sentCall{id: c.CallID, sent: c.CallID, kind: c.Kind, path: path, turn: turn})
		e.items.add(raw)
		return
	}
	e.cacheMark(&object{}, c.Cache)
	sent := e.uniqueID(c.CallID)
	e.addCall(&sentCall{id: c.CallID, sent: sent, kind: c.Kind, path: path, turn: turn})
	o := object{}
	if c.Kind == llm.CustomTool {
		o.str("type", "custom_tool_call")
		o.opt("id", itemID(c.ID, customID))
	} else {
		o.str("type", "function_call")
		o.opt("id", itemID(c.ID, functionID))
	}
	o.str("call_id", sent)
	o.str("name", e.toolName(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace}))
	o.opt("namespace", c.Namespace)
	switch {
	case c.Kind == llm.CustomTool:
		o.str("input", c.Args)
	case c.Args == "" && !isOwn(c.Ext): // RSP-33
		o.str("arguments", "{}")
	default:
		o.str("arguments", c.Args)
	}
	o.ext(c.Ext)
	e.items.add(o.end())
}

// addCall adds a call that results may belong to.
func (e *requestEncoder) addCall(c *sentCall) {
	e.calls, e.open[c.id] = append(e.calls, c), append(e.open[c.id], c)
	e.ids[c.sent] = max(e.ids[c.sent], 1)
}

// uniqueID returns the id that a call is sent with: its own if it is valid and
// unused in this conversation (CRQ-33, CRQ-34).
func (e *requestEncoder) uniqueID(id string) string {
	return e.ids.Add(func(n int) string {
		if n == 1 {
			return callID(id)
		}
		return callID(id + "\x00" + strconv.Itoa(n))
	})
}

func callID(id string) string {
	return llm.SafeName(id, maxID, func(b byte) bool { return b > ' ' && b < 0x7f })
}

// answer returns the call of a result: the nearest earlier call without one.
func (e *requestEncoder) answer(id string) *sentCall {
	same := e.open[id]
	if len(same) == 0 {
		return nil
	}
	c := same[len(same)-1]
	e.open[id], c.answered = same[:len(same)-1], true
	return c
}

// unanswered rejects calls without a result if the conversation continues.
// Clients of OpenAI may have left results or calls in OpenAI's store, so theirs
// pass.
func (e *requestEncoder) unanswered(lastTurn int) {
	for _, c := range e.calls {
		if !c.answered && c.turn < lastTurn && !isOwn(e.req.Ext) {
			e.report.Refuse(c.path, "tool_call.unanswered", "the call "+c.id+" has no result; send one")
		}
	}
}

func (e *requestEncoder) result(r *llm.ToolResult, path string) {
	call := e.answer(r.CallID)
	if raw := wholeItem(r.Ext); raw != "" {
		e.items.add(raw)
		return
	}
	kind, sent := r.Kind, r.CallID
	switch {
	case call != nil:
		kind, sent = call.kind, call.sent
	case !isOwn(e.req.Ext):
		e.report.Refuse(path, "tool_result.orphan", "the result "+r.CallID+" matches no earlier call")
	}
	e.cacheMark(&object{}, r.Cache)
	o := object{}
	if kind == llm.CustomTool {
		o.str("type", "custom_tool_call_output")
	} else {
		o.str("type", "function_call_output")
	}
	if isOwn(r.Ext) {
		o.opt("id", r.ID)
		o.opt("name", r.Name)
	}
	if sent != "" {
		o.str("call_id", callID(sent))
	}
	o.raw("output", e.output(r, path))
	o.ext(r.Ext)
	e.items.add(o.end())
}

// output encodes a tool's output: as a string, unless the client sent a list.
func (e *requestEncoder) output(r *llm.ToolResult, path string) llm.Raw {
	blocks := r.Blocks
	if r.Failed && !isOwn(r.Ext) {
		e.report.Approximate(path, "tool_result.error_as_text", "there is no flag for a failed tool; the text says so")
		blocks = failedBlocks(blocks)
	}
	if len(blocks) == 0 && !r.Listed {
		return `""`
	}
	if len(blocks) == 1 && !r.Listed {
		if t, ok := blocks[0].(*llm.Text); ok && t.Cache == nil {
			return quote(t.Text)
		}
	}
	return e.parts(blocks, path)
}

// failedBlocks adds to the text that the tool failed.
func failedBlocks(blocks []llm.Block) []llm.Block {
	const word = "Error"
	if len(blocks) > 0 {
		if t, ok := blocks[0].(*llm.Text); ok {
			if strings.HasPrefix(t.Text, word) {
				return blocks
			}
			said := *t
			said.Text = word + ": " + t.Text
			return append([]llm.Block{&said}, blocks[1:]...)
		}
	}
	return append([]llm.Block{&llm.Text{Text: word}}, blocks...)
}

// serverCall encodes calls of OpenAI's own tools. Those of other vendors become
// text.
func (e *requestEncoder) serverCall(c *llm.ServerCall, path string) {
	switch {
	case c.Protocol == own:
		e.items.add(c.Raw)
	case c.Digest == "":
		e.report.Drop(path, "server_tool.dropped", "the item "+c.Type+" of another vendor is left out")
	default:
		e.report.Approximate(path, "server_tool.digest", "the item "+c.Type+" of another vendor is sent as text")
		e.endMessage(&assistantMessage{parts: list("[" + string(textPart("output_text", c.Digest)))})
	}
}

// decodeCall decodes a function or custom tool call.
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

// String returns the arguments' JSON text in either form.
func (a Arguments) String() string {
	if a.Text.IsSet() {
		return a.Text.Value()
	}
	return string(value(a.Value))
}

// decodeResult decodes a tool's output.
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
	for _, p := range out.Parts.Value().All() {
		r.Blocks = append(r.Blocks, decodePart(p))
	}
	return r
}
