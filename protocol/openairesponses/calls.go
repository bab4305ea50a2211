package openairesponses

import (
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
)

// maxID is how long OpenAI lets an id be.
const maxID = 64

// sentCall is a call that has been written.
type sentCall struct {
	id       string // the neutral model's
	sent     string // as it was written
	kind     llm.ToolKind
	path     string
	turn     int
	answered bool
}

// assistantItem writes a block that is an item of its own.
func (w *requestWriter) assistantItem(b llm.Block, path string, turn int) {
	switch b := b.(type) {
	case *llm.Thought:
		w.thought(b, path)
	case *llm.ToolCall:
		w.call(b, path, turn)
	case *llm.ServerCall:
		w.serverCall(b, path)
	case *llm.Opaque:
		if b.Protocol == own {
			w.items.add(b.Raw)
			return
		}
		w.report.Refuse(path, "block.unknown", "the Responses API has no item of the type "+b.Type)
	default:
		w.report.Refuse(path, "block.misplaced", "a block of this kind cannot stand in an assistant's turn")
	}
}

// thought writes reasoning that is OpenAI's own; other reasoning means nothing to
// it, and an id without the sealed content cannot be found (RSP-12).
func (w *requestWriter) thought(t *llm.Thought, path string) {
	seal, sealed := t.SealFor(own)
	if !sealed && (!isOwn(t.Ext) || len(t.Seals) > 0) {
		w.report.Drop(path, "reasoning.foreign", "reasoning of another vendor's model is not sent")
		return
	}
	o := object{}
	o.str("type", "reasoning")
	o.opt("id", itemID(t.ID, thoughtID))
	var summary, full list
	for _, p := range t.Parts {
		// What another dialect's client has sent back was a summary when it
		// left here.
		if p.Form == llm.SummaryReasoning || !isOwn(t.Ext) {
			summary.add(textPart("summary_text", p.Text))
		} else {
			full.add(textPart("reasoning_text", p.Text))
		}
	}
	o.raw("summary", summary.end()) // required also when it is empty, RSP-15
	if len(full) > 0 {
		o.raw("content", full.end())
	}
	o.opt("encrypted_content", seal.Data)
	o.ext(t.Ext)
	w.items.add(o.end())
}

func textPart(typ, text string) llm.Raw {
	o := object{}
	o.str("type", typ)
	o.str("text", text)
	return o.end()
}

func (w *requestWriter) call(c *llm.ToolCall, path string, turn int) {
	if raw := wholeItem(c.Ext); raw != "" {
		w.calls = append(w.calls, &sentCall{id: c.CallID, sent: c.CallID, kind: c.Kind, path: path, turn: turn})
		w.items.add(raw)
		return
	}
	sent := w.uniqueID(c.CallID)
	w.calls = append(w.calls, &sentCall{id: c.CallID, sent: sent, kind: c.Kind, path: path, turn: turn})
	o := object{}
	if c.Kind == llm.CustomTool {
		o.str("type", "custom_tool_call")
		o.opt("id", itemID(c.ID, customID))
	} else {
		o.str("type", "function_call")
		o.opt("id", itemID(c.ID, functionID))
	}
	o.str("call_id", sent)
	o.str("name", w.toolName(llm.ToolRef{Kind: c.Kind, Name: c.Name, Namespace: c.Namespace}))
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
	w.items.add(o.end())
}

// uniqueID is the id that a call is written with: its own if it is valid and has
// not been used before in this conversation (CRQ-33, CRQ-34).
func (w *requestWriter) uniqueID(id string) string {
	sent := callID(id)
	for n := 2; w.usedID(sent); n++ {
		sent = callID(id + "\x00" + strconv.Itoa(n))
	}
	return sent
}

func (w *requestWriter) usedID(sent string) bool {
	for _, c := range w.calls {
		if c.sent == sent {
			return true
		}
	}
	return false
}

func callID(id string) string {
	return llm.SafeName(id, maxID, func(b byte) bool { return b > ' ' && b < 0x7f })
}

// answer finds the call that a result is for: the nearest before it that has none.
func (w *requestWriter) answer(id string) *sentCall {
	for i := len(w.calls) - 1; i >= 0; i-- {
		if c := w.calls[i]; c.id == id && !c.answered {
			c.answered = true
			return c
		}
	}
	return nil
}

// unanswered refuses calls without a result where the conversation has gone on.
// An OpenAI client may have left results, or calls, in the vendor's store.
func (w *requestWriter) unanswered(lastTurn int) {
	for _, c := range w.calls {
		if !c.answered && c.turn < lastTurn && !isOwn(w.req.Ext) {
			w.report.Refuse(c.path, "tool_call.unanswered", "the call "+c.id+" has no result; send one")
		}
	}
}

func (w *requestWriter) result(r *llm.ToolResult, path string) {
	call := w.answer(r.CallID)
	if raw := wholeItem(r.Ext); raw != "" {
		w.items.add(raw)
		return
	}
	kind, sent := r.Kind, r.CallID
	switch {
	case call != nil:
		kind, sent = call.kind, call.sent
	case !isOwn(w.req.Ext):
		w.report.Refuse(path, "tool_result.orphan", "the result "+r.CallID+" answers no call before it")
	}
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
	o.raw("output", w.output(r, path))
	o.ext(r.Ext)
	w.items.add(o.end())
}

// output writes what a tool gave: text as a string, unless it was a list.
func (w *requestWriter) output(r *llm.ToolResult, path string) llm.Raw {
	blocks := r.Blocks
	if r.Failed && !isOwn(r.Ext) {
		w.report.Approximate(path, "tool_result.error_as_text", "there is no flag for a failed tool; the text says so")
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
	return w.parts(blocks, path)
}

// failedBlocks says in the text that the tool has failed.
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

// serverCall writes what OpenAI's own tools did; what others did becomes words.
func (w *requestWriter) serverCall(c *llm.ServerCall, path string) {
	switch {
	case c.Protocol == own:
		w.items.add(c.Raw)
	case c.Digest == "":
		w.report.Drop(path, "server_tool.dropped", "the item "+c.Type+" of another vendor is left out")
	default:
		w.report.Approximate(path, "server_tool.digest", "the item "+c.Type+" of another vendor is sent as text")
		w.endMessage(&assistantMessage{parts: list("[" + string(textPart("output_text", c.Digest)))})
	}
}
