package openairesponses

import (
	"fmt"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

var roles = map[string]llm.Role{"user": llm.User, "assistant": llm.Assistant, "system": llm.System, "developer": llm.Developer}

// inputReader decodes items into turns.
type inputReader struct {
	turns []llm.Turn
	tools []llm.Tool // tools that items declare
}

func (r *inputReader) read(w *Request) *llm.Error {
	if s, ok := w.Instructions.Get(); ok {
		r.plain(llm.System, s, instructionsMark)
	}
	in := w.Input.Value()
	if s, ok := in.Text.Get(); ok {
		r.plain(llm.User, s, inputMark)
	}
	for i, raw := range in.Items.Value().All() {
		if err := r.item(*raw); err != nil {
			return invalid(codec.At("input", i), err)
		}
	}
	return nil
}

func (r *inputReader) plain(role llm.Role, s, was string) {
	r.turns = append(r.turns, llm.Turn{
		Role: role, Blocks: []llm.Block{&llm.Text{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}, Text: s}},
		Ext: llm.Ext{Protocol: own, Members: []llm.Member{{Name: was, Value: "true"}}},
	})
}

func (r *inputReader) item(raw wire.Raw) error {
	if raw.Kind() != '{' {
		return &wire.Error{Message: "want an item, which is an object"}
	}
	typ := itemType(raw)
	if isSearch(typ) && byClient(raw) {
		return r.search(typ, raw)
	}
	var it Item
	switch typ {
	case "message", "reasoning", "function_call", "custom_tool_call", "function_call_output", "custom_tool_call_output":
		if err := wire.Unmarshal(raw, &it); err != nil {
			return err
		}
	case "":
		return &wire.Error{Pointer: "/type", Message: "the item has no type"}
	}
	switch typ {
	case "message":
		return r.message(&it)
	case "reasoning":
		t := decodeThought(&it)
		keepMember(&t.Ext, "status", it.Status.Value())
		r.assistant(t)
	case "function_call", "custom_tool_call":
		c := decodeCall(&it)
		keepMember(&c.Ext, "status", it.Status.Value())
		r.call(c)
	case "function_call_output", "custom_tool_call_output":
		result := decodeResult(&it)
		keepMember(&result.Ext, "status", it.Status.Value())
		r.turns = append(r.turns, llm.Turn{Role: llm.ToolRole, Blocks: []llm.Block{result}, Ext: llm.Ext{Protocol: own}})
	case "additional_tools":
		return r.additional(raw)
	default:
		r.assistant(decodeOther(typ, llm.Raw(raw)))
	}
	return nil
}

// assistant adds blocks to the assistant's turn. Consecutive items form one turn
// (RSP-14).
func (r *inputReader) assistant(blocks ...llm.Block) {
	if n := len(r.turns); n > 0 && r.turns[n-1].Role == llm.Assistant {
		r.turns[n-1].Blocks = append(r.turns[n-1].Blocks, blocks...)
		return
	}
	r.turns = append(r.turns, llm.Turn{Role: llm.Assistant, Blocks: blocks, Ext: llm.Ext{Protocol: own}})
}

func (r *inputReader) message(it *Item) error {
	role, ok := roles[it.Role.Value()]
	if !ok {
		return &wire.Error{Pointer: "/role", Message: fmt.Sprintf("%q is no role; use user, assistant, system or developer", it.Role.Value())}
	}
	blocks := messageBlocks(it)
	if role == llm.Assistant {
		r.assistant(markMessage(it, blocks)...)
		return nil
	}
	t := llm.Turn{Role: role, Blocks: blocks, List: it.Content.Value().Parts.IsSet(), Ext: extOf(it.Extra)}
	keepMember(&t.Ext, "type", it.Type.Value())
	keepMember(&t.Ext, "id", it.ID.Value())
	keepMember(&t.Ext, "status", it.Status.Value())
	keepMember(&t.Ext, "phase", it.Phase.Value())
	r.turns = append(r.turns, t)
	return nil
}

// markMessage keeps on the blocks of an assistant message what the message was.
func markMessage(it *Item, blocks []llm.Block) []llm.Block {
	o := object{}
	o.opt("type", it.Type.Value())
	o.opt("id", it.ID.Value())
	o.opt("status", it.Status.Value())
	o.str("role", "assistant")
	o.opt("phase", it.Phase.Value())
	o.ext(extOf(it.Extra))
	if it.Content.Value().Parts.IsSet() {
		o.raw("content", "[]")
	}
	o.str("content", "")
	for i, b := range blocks {
		m := b.Common()
		m.ID = it.ID.Value()
		if i == 0 {
			m.Ext.Members = append(m.Ext.Members, llm.Member{Name: itemMark, Value: o.end()})
		}
		switch b := b.(type) {
		case *llm.Text:
			b.Phase = it.Phase.Value()
		case *llm.Opaque:
			m.Ext.Members = append(m.Ext.Members, llm.Member{Name: partMark, Value: "true"})
		}
	}
	return blocks
}

// input encodes the turns: the instructions and the items.
func (e *requestEncoder) input(o *object) {
	turns := e.req.Turns
	e.foreign(turns)
	if s, ok := e.instructions(turns); ok {
		o.str("instructions", s)
		e.first, turns = 1, turns[1:]
	}
	if len(turns) == 1 && isOwn(turns[0].Ext) && turns[0].Ext.Get(inputMark) != "" {
		if t, ok := onlyText(turns[0]); ok {
			o.str("input", t.Text)
			return
		}
	}
	e.declared = e.listed()
	for i := range turns {
		e.additional(e.first + i)
		e.turn(&turns[i], e.first+i)
	}
	e.additional(e.first + len(turns))
	e.unanswered(e.first + len(turns) - 1)
	stored := isOwn(e.req.Ext) && (e.req.Ext.Get("prompt") != "" || e.req.State.PreviousID != "" || e.req.State.Conversation != "")
	if len(e.items) > 0 || len(turns) > 0 || !stored {
		o.bytes("input", e.items.close())
	}
}

// instructions returns the text of a leading system turn if it is one plain text
// and no other system turn follows. Several system turns stay separate messages.
func (e *requestEncoder) instructions(turns []llm.Turn) (string, bool) {
	if len(turns) == 0 || turns[0].Role != llm.System || turns[0].Name != "" {
		return "", false
	}
	t, ok := onlyText(turns[0])
	switch {
	case !ok || t.Cache != nil && isOwn(t.Cache.Ext):
		return "", false
	case isOwn(turns[0].Ext):
		return t.Text, turns[0].Ext.Get(instructionsMark) != ""
	case len(turns) > 1 && (turns[1].Role == llm.System || turns[1].Role == llm.Developer):
		return "", false
	}
	e.cacheMark(&object{}, t.Cache)
	return t.Text, true
}

func onlyText(t llm.Turn) (*llm.Text, bool) {
	if len(t.Blocks) != 1 {
		return nil, false
	}
	b, ok := t.Blocks[0].(*llm.Text)
	return b, ok
}

func (e *requestEncoder) turn(t *llm.Turn, index int) {
	path := codec.At("turns", index)
	if t.Name != "" {
		e.report.Drop(path+".name", "turn.name", "messages have no name in the Responses API")
	}
	switch t.Role {
	case llm.Assistant:
		e.assistant(t, path, index)
	case llm.ToolRole:
		for i, b := range t.Blocks {
			at := path + "." + codec.At("blocks", i)
			if r, ok := b.(*llm.ToolResult); ok {
				e.result(r, at)
			} else {
				e.report.Refuse(at, "block.misplaced", "a turn of tools holds results and nothing else")
			}
		}
	default:
		e.message(t, path)
	}
}

func (e *requestEncoder) message(t *llm.Turn, path string) {
	o := object{}
	if isOwn(t.Ext) {
		o.raw("type", t.Ext.Get(spelled("type")))
	} else {
		o.str("type", "message")
	}
	role := string(t.Role)
	if t.Role == llm.Developer && e.target.Gates.SystemOnly {
		role = string(llm.System)
	}
	o.str("role", role)
	if text, ok := onlyText(*t); ok && !t.List && text.Cache == nil {
		o.str("content", text.Text)
	} else {
		o.raw("content", e.parts(t.Blocks, path))
	}
	o.ext(t.Ext)
	e.items.add(o.end())
}

func (e *requestEncoder) parts(blocks []llm.Block, path string) llm.Raw {
	var parts list
	for i, b := range blocks {
		if raw := e.part(b, path+"."+codec.At("blocks", i), false); raw != "" {
			parts.add(raw)
		}
	}
	return parts.end()
}

// assistantMessage is an assistant message that is being built.
type assistantMessage struct {
	head  llm.Raw // set by markMessage
	id    string
	phase string
	texts []string
	parts list
}

// begins reports whether a block begins a new message.
func (m *assistantMessage) begins(b llm.Block) bool {
	meta := b.Common()
	t, isText := b.(*llm.Text)
	return m == nil || isOwn(meta.Ext) && meta.Ext.Get(itemMark) != "" || meta.ID != m.id || isText && t.Phase != m.phase
}

func (e *requestEncoder) assistant(t *llm.Turn, path string, index int) {
	var msg *assistantMessage
	for i, b := range t.Blocks {
		at := path + "." + codec.At("blocks", i)
		if !isMessagePart(b) {
			e.endMessage(msg)
			msg = nil
			e.assistantItem(b, at, index)
			continue
		}
		text, isText := b.(*llm.Text)
		if isText && text.Text == "" && !isOwn(text.Ext) {
			continue // other protocols send empty text beside calls, CRQ-06
		}
		if msg.begins(b) {
			e.endMessage(msg)
			msg = &assistantMessage{id: b.Common().ID}
			if isOwn(b.Common().Ext) {
				msg.head = b.Common().Ext.Get(itemMark)
			}
			if isText {
				msg.phase = text.Phase
			}
		}
		if isText {
			msg.texts = append(msg.texts, text.Text)
		}
		if raw := e.part(b, at, true); raw != "" {
			msg.parts.add(raw)
		}
	}
	e.endMessage(msg)
}

func isMessagePart(b llm.Block) bool {
	switch b := b.(type) {
	case *llm.Text, *llm.Refusal, *llm.Media:
		return true
	case *llm.Opaque:
		return b.Protocol == own && b.Ext.Get(partMark) != ""
	}
	return false
}

func (e *requestEncoder) endMessage(m *assistantMessage) {
	if m == nil || len(m.parts) == 0 {
		return
	}
	head := membersOf(m.head) // empty if the message came from another protocol
	o := object{}
	content := m.parts.end()
	for _, member := range head {
		switch member.Name {
		case "id":
			o.opt("id", itemID(m.id, messageID))
		case "content":
			if string(member.Value) == `""` && len(m.texts) == 1 {
				content = quote(m.texts[0])
			}
			o.raw("content", content)
		default:
			o.raw(member.Name, llm.Raw(member.Value))
		}
	}
	if len(head) == 0 {
		o.str("type", "message")
		o.str("role", "assistant")
		o.opt("phase", m.phase)
	}
	o.raw("content", content)
	e.items.add(o.end())
}

// itemID returns an item's id if OpenAI accepts it.
func itemID(id, prefix string) string {
	if strings.HasPrefix(id, strings.TrimSuffix(prefix, "_")) && len(id) <= maxID {
		return id
	}
	return ""
}
