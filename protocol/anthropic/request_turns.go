package anthropic

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// firstWords is a user message in front of a conversation that begins with an
// assistant turn, which the API rejects. CRQ-13
const firstWords = "(The conversation goes on.)"

// draft is a message that is being built.
type draft struct {
	role   string
	text   string // the complete content if it is plain text
	plain  bool
	blocks []wire.Raw
	ext    llm.Ext
}

// add appends blocks to a message.
func (d *draft) add(blocks []wire.Raw) {
	if d.plain {
		d.blocks, d.plain = []wire.Raw{textBlock(d.text)}, false
	}
	d.blocks = append(d.blocks, blocks...)
}

func (d *draft) message() Message {
	m := Message{Role: wire.Some(d.role), Extra: kept.Extra(d.ext)}
	switch {
	case d.plain:
		m.Content = wire.Some(Content{Text: wire.Some(wire.NewText(d.text))})
	case len(d.blocks) > 0: // a system message may have settings and no content
		m.Content = wire.Some(Content{Blocks: wire.Some(wire.ListOf(d.blocks...))})
	}
	return m
}

// conversation encodes the messages.
func (e *requestEncoder) conversation() {
	e.pairs = blockcodec.Pair(e.req.Turns, e.report, blockcodec.IDs{Prefix: "toolu_", Longest: maxName, Allowed: llm.WordByte})
	turns := e.req.Turns
	if e.target.Gates.NoPrefill && blockcodec.Prefilled(e.req.Turns) {
		e.report.Refuse(protocol.At("turns", len(turns)-1), "prefill.unsupported_by_model", "the model does not continue an assistant turn; end with one of the user")
		turns = turns[:len(turns)-1]
	}
	for i := blockcodec.Leading(turns); i < len(turns); {
		if turns[i].Role == llm.Assistant {
			e.assistant(i)
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
		e.open("user").add(e.moved)
	}
	if len(e.drafts) > 0 && e.drafts[0].role != "user" {
		e.report.Approximate("turns", "turns.user_inserted", "a conversation begins with the user; a neutral turn was put first")
		e.drafts = append([]draft{{role: "user", text: firstWords, plain: true}}, e.drafts...)
	}
	if len(e.drafts) == 0 {
		e.report.Refuse("turns", "turns.empty", "the conversation has no user message")
	}
	var messages wire.List[Message]
	for i := range e.drafts {
		m := e.drafts[i].message()
		messages.Append(&m)
	}
	e.out.Messages = wire.Some(messages)
}

// open appends an empty message.
func (e *requestEncoder) open(role string) *draft {
	e.drafts = append(e.drafts, draft{role: role})
	return e.last()
}

// last returns the newest message, or nil.
func (e *requestEncoder) last() *draft {
	if len(e.drafts) == 0 {
		return nil
	}
	return &e.drafts[len(e.drafts)-1]
}

func (e *requestEncoder) assistant(i int) {
	blocks := e.turn(i)
	if len(blocks) == 0 {
		return
	}
	e.put("assistant", i, blocks, e.req.Turns[i].Joined)
}

// put adds a turn's blocks as a new message, or to the last one if it has the
// same role.
func (e *requestEncoder) put(role string, i int, blocks []wire.Raw, join bool) {
	t := e.req.Turns[i]
	if d := e.last(); join && d != nil && d.role == role {
		d.add(blocks)
		return
	}
	d := e.open(role)
	d.ext = t.Ext
	if text, ok := plainText(t); ok && len(blocks) == 1 {
		d.text, d.plain = e.trim(i, text), true
		return
	}
	d.add(blocks)
}

// plainText returns the text of a turn that can be sent as a string.
func plainText(t llm.Turn) (string, bool) {
	if t.List || len(t.Blocks) != 1 || !isPlain(t.Blocks[0]) {
		return "", false
	}
	return t.Blocks[0].(*llm.Text).Text, true
}

// trim removes trailing white space, which the API rejects in a response to be
// continued. CRQ-07
func (e *requestEncoder) trim(i int, text string) string {
	if i != len(e.req.Turns)-1 || e.req.Turns[i].Role != llm.Assistant {
		return text
	}
	return strings.TrimRight(text, " \t\r\n")
}

// between encodes the turns between two assistant turns. Tool results come first,
// in the order of their calls, in one message with the user's next text.
func (e *requestEncoder) between(from, to int) {
	var results []wire.Raw
	for _, r := range e.pairs.Results(e.req.Turns, from, to) {
		results = append(results, e.result(r)...)
	}
	join := len(results) > 0
	if join {
		e.open("user").add(results)
	}
	if len(e.moved) > 0 {
		if !join {
			e.open("user")
		}
		e.last().add(e.moved)
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
			if blocks := e.turn(i); len(blocks) > 0 {
				e.put("user", i, blocks, join || t.Joined)
				join = false
			} else if !t.Joined && !join {
				e.report.Drop(protocol.At("turns", i), "turn.empty", "a message must hold more than white space")
			}
		}
	}
}

// midSystem encodes system text in the middle of the conversation: as a system
// message after a user message if the model accepts it, otherwise as marked user
// text. CRQ-09
func (e *requestEncoder) midSystem(i int, join bool) bool {
	t := e.req.Turns[i]
	if d := e.last(); e.target.Gates.MidSystem && d != nil && d.role != "assistant" {
		if blocks := e.turn(i); len(blocks) > 0 || len(t.Ext.Members) > 0 {
			e.put("system", i, blocks, true)
			join = false
		}
		return join
	}
	for k, b := range t.Blocks {
		if _, ok := b.(*llm.Media); ok {
			e.report.Refuse(protocol.At(protocol.At("turns", i)+".blocks", k), "media.in_system", "system text cannot hold anything but text")
		}
	}
	text := blockcodec.Text(t)
	if strings.TrimSpace(text) == "" {
		return join
	}
	e.report.Approximate(protocol.At("turns", i), "system.mid_folded", "the model takes no system text here; it is marked text of the user")
	folded := "<system>" + text + "</system>"
	if d := e.last(); join && d != nil {
		d.add([]wire.Raw{textBlock(folded)})
		return false
	}
	d := e.open("user")
	d.text, d.plain = folded, true
	return false
}

// system encodes the system prompt: the leading turns and the instructions that
// replace missing settings. It runs last, when all instructions are known.
func (e *requestEncoder) system() {
	n := blockcodec.Leading(e.req.Turns)
	var blocks []wire.Raw
	if e.home && e.req.Ext.Get("system") != "" {
		blocks = arrayItems(wire.Raw(e.req.Ext.Get("system")))
	}
	if n == 1 && len(blocks) == 0 && len(e.notes) == 0 {
		if text, ok := plainText(e.req.Turns[0]); ok && !blockcodec.IsBlank(text) {
			e.out.System = wire.Some(Content{Text: wire.Some(wire.NewText(text))})
			return
		}
	}
	for i := range n {
		blocks = append(blocks, e.turn(i)...)
	}
	for _, note := range e.notes {
		blocks = append(blocks, textBlock(note))
	}
	if len(blocks) > 0 {
		e.out.System = wire.Some(Content{Blocks: wire.Some(wire.ListOf(blocks...))})
	}
}
