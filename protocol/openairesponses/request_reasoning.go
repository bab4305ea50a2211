package openairesponses

import (
	"cmp"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
)

func (e *requestEncoder) reasoning(o *object) {
	r := &e.req.Reasoning
	codec.DropExt(e.report, "reasoning", r.Ext, protocol.OpenAIResponses)
	out := object{}
	out.opt("effort", openai.Effort(r, e.target.Gates.Efforts, e.report))
	switch {
	case isOwn(e.req.Ext), r.Show == "auto", r.Show == "concise", r.Show == "detailed":
		out.opt("summary", r.Show)
	case r.Show == "full":
		e.report.Approximate("reasoning.show", "reasoning.summary", "OpenAI shows a summary of the reasoning, not all of it")
		out.str("summary", "detailed")
	}
	out.ext(r.Ext)
	if len(out.names) > 0 || isOwn(r.Ext) {
		o.raw("reasoning", out.end())
	}
}

// thought encodes reasoning that OpenAI sealed. Other reasoning has no meaning
// for it, and an id without the sealed content is not found (RSP-12).
func (e *requestEncoder) thought(t *llm.Thought, path string) {
	seal, sealed := t.SealFor(own)
	if !sealed && (!isOwn(t.Ext) || len(t.Seals) > 0) {
		e.report.Drop(path, "reasoning.foreign", "reasoning of another vendor's model is not sent")
		return
	}
	o := object{}
	o.str("type", "reasoning")
	o.opt("id", itemID(cmp.Or(t.ID, seal.ID), thoughtID)) // a client of another protocol has it in the seal
	var summary, full list
	for _, p := range t.Parts {
		// What a client of another protocol sends back was a summary when it got
		// it.
		if p.Form == llm.SummaryReasoning || !isOwn(t.Ext) {
			summary.add(textPart("summary_text", p.Text))
		} else {
			full.add(textPart("reasoning_text", p.Text))
		}
	}
	o.raw("summary", summary.end()) // required even if it is empty, RSP-15
	if len(full) > 0 {
		o.raw("content", full.end())
	}
	o.opt("encrypted_content", seal.Data)
	o.ext(t.Ext)
	e.items.add(o.end())
}

// decodeThought decodes a reasoning item.
func decodeThought(it *Item) *llm.Thought {
	t := &llm.Thought{Meta: llm.Meta{ID: it.ID.Value(), Ext: extOf(it.Extra)}}
	minted := strings.HasPrefix(t.ID, thoughtID+codec.Minted)
	sealed := it.EncryptedContent.Value()
	if foreign, wrapped := codec.Unwrap(sealed); wrapped {
		t.Seals, sealed, minted = foreign, "", true
	}
	if minted { // the gateway made the item from another vendor's reasoning
		t.ID, t.Ext = "", llm.Ext{}
	}
	if sealed != "" {
		t.Seals = append(t.Seals, llm.Seal{Form: llm.Encrypted, Data: sealed, Origin: own, ID: t.ID})
	}
	t.Seals = append(t.Seals, unseal(&t.Ext, value(it.ExtraContent))...)
	for _, p := range it.Summary.Value().All() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.SummaryReasoning, Text: p.Text.Value()})
	}
	c := it.Content.Value()
	for _, p := range c.Parts.Value().All() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.FullReasoning, Text: p.Text.Value()})
	}
	if c.Text.IsSet() {
		t.Parts = append(t.Parts, llm.ThoughtPart{Form: llm.FullReasoning, Text: c.Text.Value()})
	}
	return t
}
