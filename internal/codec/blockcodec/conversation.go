package blockcodec

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// firstWords is a user message in front of a conversation that begins with an assistant turn, which the APIs reject.
// CRQ-13
const firstWords = "(The conversation goes on.)"

// Draft is a message that is being built.
type Draft struct {
	Role   string
	Text   string // of a plain one
	Plain  bool   // it is a text and not blocks
	blocks []wire.Raw
	Ext    llm.Ext
}

// Conversation is the messages of a request while they are written.
type Conversation struct {
	IsPlain   func(llm.Block) bool // the block can be sent as a string; nil: none can
	Alternate bool                 // messages of one role that follow each other are joined
	MidSystem bool                 // the model takes system text after a message of the user

	Pairs  Pairs
	Drafts []Draft
	Moved  []wire.Raw // blocks of an assistant turn that only user messages may hold
}

// Blocks returns the content of a message as blocks.
func (e *RequestEncoder) Blocks(d *Draft) []wire.Raw {
	if d.Plain {
		d.blocks, d.Plain = []wire.Raw{e.Form.TextBlock(d.Text)}, false
	}
	return d.blocks
}

// PlainText returns the text of a turn that can be sent as a string.
func (e *RequestEncoder) PlainText(i int) (string, bool) {
	t := e.Req.Turns[i]
	if e.IsPlain == nil || t.List || len(t.Blocks) != 1 || !e.IsPlain(t.Blocks[0]) {
		return "", false
	}
	text, ok := t.Blocks[0].(*llm.Text)
	return text.Text, ok
}

// add appends blocks to a message.
func (e *RequestEncoder) add(d *Draft, blocks []wire.Raw) { d.blocks = append(e.Blocks(d), blocks...) }

// last returns the newest message, or nil.
func (e *RequestEncoder) last() *Draft {
	if len(e.Drafts) == 0 {
		return nil
	}
	return &e.Drafts[len(e.Drafts)-1]
}

// Messages encodes the messages.
func (e *RequestEncoder) Messages(ids IDs) {
	e.Pairs = Pair(e.Req.Turns, e.Report, ids)
	turns := e.Req.Turns
	if e.Target.Gates.NoPrefill && Prefilled(turns) {
		e.Report.Refuse(codec.At("turns", len(turns)-1), "prefill.unsupported_by_model", "the model does not continue an assistant turn; end with one of the user")
		turns = turns[:len(turns)-1]
	}
	for i := Leading(turns); i < len(turns); {
		if turns[i].Role == llm.Assistant {
			e.put("assistant", i, e.Form.Turn(i), turns[i].Joined)
			i++
			continue
		}
		end := i
		for end < len(turns) && turns[end].Role != llm.Assistant {
			end++
		}
		e.between(i, end)
		i = end
	}
	if d := e.last(); len(e.Moved) > 0 && d != nil && d.Role == "user" && e.Alternate {
		e.add(d, e.Moved)
	} else if len(e.Moved) > 0 {
		e.Drafts = append(e.Drafts, Draft{Role: "user", blocks: e.Moved})
	}
	if len(e.Drafts) > 0 && e.Drafts[0].Role != "user" {
		e.Report.Approximate("turns", "turns.user_inserted", "a conversation begins with the user; a neutral turn was put first")
		e.Drafts = slices.Insert(e.Drafts, 0, Draft{Role: "user", Text: firstWords, Plain: true})
	}
	if len(e.Drafts) == 0 {
		e.Report.Refuse("turns", "turns.empty", "the conversation has no user message")
	}
}

// put adds a turn's blocks as a new message, or to the last one if it has the same role.
func (e *RequestEncoder) put(role string, i int, blocks []wire.Raw, join bool) {
	t := e.Req.Turns[i]
	if len(blocks) == 0 && (role != "system" || e.IsPlain == nil || len(t.Ext.Members) == 0) { // a system message may have settings and no content
		return
	}
	if d := e.last(); d != nil && d.Role == role && (join || e.Alternate) {
		e.add(d, blocks)
		return
	}
	d := Draft{Role: role, Ext: t.Ext, blocks: blocks}
	if text, ok := e.PlainText(i); ok && len(blocks) == 1 {
		d.Text, d.Plain = e.trimmed(i, text), true
	}
	e.Drafts = append(e.Drafts, d)
}

// between encodes the turns between two assistant turns. Tool results come first, in the order of their calls, in one
// message with the user's next text.
func (e *RequestEncoder) between(from, to int) {
	join := false
	var blocks []wire.Raw
	for _, r := range e.Pairs.Results(e.Req.Turns, from, to) {
		blocks = append(blocks, e.Form.Result(r)...)
	}
	if blocks = append(blocks, e.Moved...); len(blocks) > 0 {
		e.Drafts = append(e.Drafts, Draft{Role: "user", blocks: blocks})
		e.Moved, join = nil, true
	}
	for i := from; i < to; i++ {
		t := e.Req.Turns[i]
		switch {
		case t.Role == llm.ToolRole:
			if d := e.last(); d != nil && t.Ext.Protocol == string(e.Own) {
				d.Ext = t.Ext
			}
		case IsSystem(t.Role):
			join = e.midSystem(i, join)
		default:
			blocks := e.Form.Turn(i)
			if len(blocks) == 0 && !t.Joined && !join {
				e.Report.Drop(codec.At("turns", i), "turn.empty", "a message must hold more than white space")
			}
			e.put("user", i, blocks, join || t.Joined)
			join = join && len(blocks) == 0
		}
	}
}

// midSystem encodes system text in the middle of the conversation: as a system message after a user message if the
// model accepts it, otherwise as marked user text. CRQ-09
func (e *RequestEncoder) midSystem(i int, join bool) bool {
	t := e.Req.Turns[i]
	if d := e.last(); e.MidSystem && d != nil && d.Role != "assistant" {
		e.put("system", i, e.Form.Turn(i), true)
		return join && e.last().Role == "user"
	}
	for k, b := range t.Blocks {
		if _, ok := b.(*llm.Media); ok {
			e.Report.Refuse(codec.At(codec.At("turns", i)+".blocks", k), "media.in_system", "system text cannot hold anything but text")
		}
	}
	text := Text(t)
	if IsBlank(text) {
		return join
	}
	e.Report.Approximate(codec.At("turns", i), "system.mid_folded", "the model takes no system text here; it is marked text of the user")
	text = "<system>" + text + "</system>"
	if d := e.last(); d != nil && d.Role == "user" && (join || e.Alternate) {
		e.add(d, []wire.Raw{e.Form.TextBlock(text)})
		return false
	}
	d := Draft{Role: "user", Text: text, Plain: true}
	if e.IsPlain == nil {
		d.Ext = t.Ext
	}
	e.Drafts = append(e.Drafts, d)
	return false
}
