package converse

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// firstWords is a user message in front of a conversation that begins with an assistant
// turn, which the API rejects.
const firstWords = "(The conversation goes on.)"

// documentWords is a text beside a document, which the API rejects without one.
const documentWords = "(See the document.)"

// draft is a message that is being built.
type draft struct {
	role   string
	blocks []wire.Raw
	ext    llm.Ext
}

// conversation encodes the messages.
func (e *requestEncoder) conversation() {
	e.pairs = blockcodec.Pair(e.req.Turns, e.report, blockcodec.IDs{Prefix: "tooluse_", Longest: maxID, Allowed: idByte})
	turns := e.req.Turns
	if e.target.Gates.NoPrefill && blockcodec.Prefilled(e.req.Turns) {
		e.report.Refuse(protocol.At("turns", len(turns)-1), "prefill.unsupported_by_model", "the model does not continue an assistant turn; end with one of the user")
		turns = turns[:len(turns)-1]
	}
	for i := blockcodec.Leading(turns); i < len(turns); {
		if turns[i].Role == llm.Assistant {
			e.put("assistant", i, e.turn(i), turns[i].Joined)
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
	if len(e.moved) > 0 {
		e.add("user", e.moved)
	}
	if len(e.drafts) > 0 && e.drafts[0].role != "user" {
		e.report.Approximate("turns", "turns.user_inserted", "a conversation begins with the user; a neutral turn was put first")
		e.drafts = slices.Insert(e.drafts, 0, draft{role: "user", blocks: []wire.Raw{textBlock(firstWords)}})
	}
	if len(e.drafts) == 0 {
		e.report.Refuse("turns", "turns.empty", "the conversation has no user message")
	}
	var messages wire.List[Message]
	for i := range e.drafts {
		d := &e.drafts[i]
		e.besideDocuments(d)
		if auto := e.req.Cache.Auto; auto != nil && i == len(e.drafts)-1 && unionName(d.blocks[len(d.blocks)-1]) != "cachePoint" {
			d.blocks = append(d.blocks, e.cachePoint("cache.auto", auto))
		}
		m := Message{Role: wire.Some(d.role), Content: wire.Some(wire.ListOf(d.blocks...)), Extra: kept.Extra(d.ext)}
		messages.Append(&m)
	}
	e.out.Messages = wire.Some(messages)
}

// besideDocuments adds a text to a message with a document and without text.
func (e *requestEncoder) besideDocuments(d *draft) {
	has := func(name string) bool {
		return slices.ContainsFunc(d.blocks, func(raw wire.Raw) bool { return unionName(raw) == name })
	}
	if !e.home && has("document") && !has("text") {
		e.report.Approximate("turns", "document.text_added", "a message with a document needs a text; a short one was added")
		d.blocks = append(d.blocks, textBlock(documentWords))
	}
}

// last returns the newest message, or nil.
func (e *requestEncoder) last() *draft {
	if len(e.drafts) == 0 {
		return nil
	}
	return &e.drafts[len(e.drafts)-1]
}

// add appends blocks to the last message if it has the role, and to a new one otherwise.
func (e *requestEncoder) add(role string, blocks []wire.Raw) {
	if d := e.last(); d == nil || d.role != role {
		e.drafts = append(e.drafts, draft{role: role})
	}
	e.last().blocks = append(e.last().blocks, blocks...)
}

// put adds a turn's blocks as a message. Roles alternate, so a turn of the role of the
// message before it joins that message. A client of this protocol divides them itself.
func (e *requestEncoder) put(role string, i int, blocks []wire.Raw, join bool) {
	if len(blocks) == 0 {
		return
	}
	if d := e.last(); d != nil && d.role == role && (join || !e.home) {
		d.blocks = append(d.blocks, blocks...)
		return
	}
	e.drafts = append(e.drafts, draft{role: role, blocks: blocks, ext: e.req.Turns[i].Ext})
}

// between encodes the turns between two assistant turns. Tool results come first, in the
// order of their calls, in one message with the user's next text.
func (e *requestEncoder) between(from, to int) {
	join := false
	var blocks []wire.Raw
	for _, r := range e.pairs.Results(e.req.Turns, from, to) {
		blocks = append(blocks, e.result(r)...)
	}
	if blocks = append(blocks, e.moved...); len(blocks) > 0 {
		e.drafts = append(e.drafts, draft{role: "user", blocks: blocks})
		e.moved, join = nil, true
	}
	for i := from; i < to; i++ {
		t := e.req.Turns[i]
		switch {
		case t.Role == llm.ToolRole:
			if d := e.last(); d != nil && t.Ext.Protocol == own {
				d.ext = t.Ext
			}
		case blockcodec.IsSystem(t.Role):
			join = e.midSystem(i, join)
		default:
			blocks := e.turn(i)
			if len(blocks) == 0 && !t.Joined && !join {
				e.report.Drop(protocol.At("turns", i), "turn.empty", "a message must hold more than white space")
			}
			e.put("user", i, blocks, join || t.Joined)
			join = join && len(blocks) == 0
		}
	}
}

// midSystem encodes system text in the middle of the conversation: as a system message
// after a user message if the model accepts it, otherwise as marked user text.
func (e *requestEncoder) midSystem(i int, join bool) bool {
	t := e.req.Turns[i]
	if d := e.last(); (e.target.Gates.MidSystem || e.home) && d != nil && d.role != "assistant" {
		blocks := e.turn(i)
		e.put("system", i, blocks, true)
		return join && len(blocks) == 0
	}
	for k, b := range t.Blocks {
		if _, ok := b.(*llm.Media); ok {
			e.report.Refuse(protocol.At(protocol.At("turns", i)+".blocks", k), "media.in_system", "system text cannot hold anything but text")
		}
	}
	text := blockcodec.Text(t)
	if blockcodec.IsBlank(text) {
		return join
	}
	e.report.Approximate(protocol.At("turns", i), "system.mid_folded", "the model takes no system text here; it is marked text of the user")
	e.put("user", i, []wire.Raw{textBlock("<system>" + text + "</system>")}, join)
	return false
}

// system encodes the system prompt: the leading turns and the instructions that replace
// missing settings. It runs last, when all instructions are known.
func (e *requestEncoder) system() {
	var blocks []wire.Raw
	for i := range blockcodec.Leading(e.req.Turns) {
		blocks = append(blocks, e.turn(i)...)
	}
	for _, note := range e.notes {
		blocks = append(blocks, textBlock(note))
	}
	if len(blocks) > 0 {
		e.out.System = wire.Some(wire.ListOf(blocks...))
	}
}
