package anthropic

import (
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// conversation encodes the messages.
func (e *requestEncoder) conversation() {
	e.Messages(blockcodec.IDs{Prefix: "toolu_", Longest: maxName, Allowed: llm.WordByte})
	var messages wire.List[Message]
	for i := range e.Drafts {
		d := &e.Drafts[i]
		m := Message{Role: wire.Some(d.Role), Extra: kept.Extra(d.Ext)}
		if d.Plain {
			m.Content = wire.Some(Content{Text: wire.Some(wire.NewText(d.Text))})
		} else if blocks := e.Blocks(d); len(blocks) > 0 { // a system message may have settings and no content
			m.Content = wire.Some(Content{Blocks: wire.Some(wire.ListOf(blocks...))})
		}
		messages.Append(&m)
	}
	e.out.Messages = wire.Some(messages)
}

// system encodes the system prompt: the leading turns and the instructions that
// replace missing settings. It runs last, when all instructions are known.
func (e *requestEncoder) system() {
	n := blockcodec.Leading(e.Req.Turns)
	var blocks []wire.Raw
	if e.Home && e.Req.Ext.Get("system") != "" {
		blocks = arrayItems(wire.Raw(e.Req.Ext.Get("system")))
	}
	if n == 1 && len(blocks) == 0 && len(e.Notes) == 0 {
		if text, ok := e.PlainText(0); ok && !blockcodec.IsBlank(text) {
			e.out.System = wire.Some(Content{Text: wire.Some(wire.NewText(text))})
			return
		}
	}
	for i := range n {
		blocks = append(blocks, e.Turn(i)...)
	}
	for _, note := range e.Notes {
		blocks = append(blocks, textBlock(note))
	}
	if len(blocks) > 0 {
		e.out.System = wire.Some(Content{Blocks: wire.Some(wire.ListOf(blocks...))})
	}
}
