package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// outBlock is a block that is being sent to the client.
type outBlock struct {
	block   llm.Block
	seals   []llm.Seal
	sealed  int // number of seals that the start event held
	signed  bool
	index   int // index on the wire
	begun   bool
	ended   bool
	waiting []llm.Event
	part    int // of a thought: the last part that was written

	args blockcodec.Arguments
}

func newOutBlock(b llm.Block) *outBlock {
	return &outBlock{block: b, seals: append([]llm.Seal(nil), b.Common().Seals...)}
}

// skeleton returns the block of the start event: without text, with the seals
// known so far.
func (b *outBlock) skeleton() wire.Raw {
	b.sealed = len(b.seals)
	carrier := protocol.Carry(b.seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: kept.Extra(b.block.Common().Ext)}
	switch block := b.block.(type) {
	case *llm.Thought:
		t := llm.Thought{Meta: llm.Meta{Seals: b.seals, Ext: block.Ext}}
		seal, ok := t.SealFor(own)
		if !ok || seal.Form != llm.Redacted {
			seal = llm.Seal{} // a signature is sent as a delta
		}
		return thoughtBlock(&t, seal)
	case *llm.ToolCall:
		w.Type, w.ID, w.Name, w.Input = wire.Some("tool_use"), wire.Some(answerCallID(block)), wire.Some(block.Name), wire.Raw("{}")
	default:
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(""))
	}
	raw, err := wire.Marshal(&w)
	if err != nil { // the name has invalid UTF-8
		w.Name, w.Extra = wire.Some(strings.ToValidUTF8(w.Name.Value(), "\uFFFD")), wire.Extra{}
		raw, _ = wire.Marshal(&w)
	}
	return raw
}

// text writes a text delta. An empty one does not open the block.
func (s *streamEncoder) text(to []byte, b *outBlock, e llm.Delta) []byte {
	if e.Text == "" {
		return to
	}
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
		to = deltaHead(s.open(to, b), b, "text_delta", "text")
		return deltaTail(wire.AppendQuote(to, e.Text))
	case *llm.Thought:
		text := e.Text
		if e.Part > b.part {
			text = strings.Repeat(partBreak, e.Part-b.part) + text
			b.part = e.Part
		}
		to = deltaHead(s.open(to, b), b, "thinking_delta", "thinking")
		return deltaTail(wire.AppendQuote(to, text))
	case *llm.ToolCall:
		return s.args(to, b, block, e.Text)
	}
	return to
}

// seal takes a seal. Anthropic's own signature has an event; other seals wait for
// the block's start or end.
func (s *streamEncoder) seal(to []byte, b *outBlock, seal llm.Seal) []byte {
	_, thought := b.block.(*llm.Thought)
	if seal.Origin != own || seal.Form != llm.Signature || !thought {
		b.seals = append(b.seals, seal)
		return to
	}
	return s.signature(to, b, seal)
}

func (s *streamEncoder) signature(to []byte, b *outBlock, seal llm.Seal) []byte {
	b.signed = true
	to = deltaHead(s.open(to, b), b, "signature_delta", "signature")
	return deltaTail(wire.AppendQuote(to, seal.Data))
}

// close writes the end of a block, and the complete block if it has no deltas.
func (s *streamEncoder) close(to []byte, b *outBlock) []byte {
	switch block := b.block.(type) {
	case *llm.Text, *llm.Refusal:
		if len(b.seals) > 0 { // an empty text may carry a seal
			to = s.open(to, b)
		}
	case *llm.Thought:
		if len(b.seals) > 0 {
			to = s.open(to, b)
		}
		t := llm.Thought{Meta: *block.Common()}
		if seal, ok := t.SealFor(own); ok && seal.Form == llm.Signature {
			to = s.signature(to, b, seal) // known since the start
		} else if w := protocol.Wrap(b.seals, protocol.Anthropic); w != "" && !ok {
			to = s.signature(to, b, llm.Seal{Data: w}) // clients send it back, whoever made it
			b.sealed = len(b.seals)
		} else if b.begun && !b.signed && len(b.seals) == 0 {
			to = s.signature(to, b, llm.Seal{Data: protocol.Unsealed}) // see answerBlock
		}
	case *llm.ToolCall:
		to = s.closeCall(to, b, block)
	default:
		to = s.wholeBlock(to, b)
	}
	if !b.begun {
		return to
	}
	to = strconv.AppendInt(append(head(to, "content_block_stop"), `,"index":`...), int64(b.index), 10)
	if late := protocol.Carry(b.seals[b.sealed:], protocol.Anthropic); late != "" {
		to = append(append(to, `,"`+protocol.CarrierMember+`":`...), late...)
	}
	return tail(to)
}

// wholeBlock writes a block without deltas. The input of vendor-run tools goes
// into one delta, because SDKs read it only there. ANT-02, ANT-26
func (s *streamEncoder) wholeBlock(to []byte, b *outBlock) []byte {
	text, raw := blockcodec.AnswerText(b.block, "", &llm.Report{}, own)
	if text != "" {
		to = deltaHead(s.open(to, b), b, "text_delta", "text")
		return deltaTail(wire.AppendQuote(to, text))
	}
	if raw == nil {
		return to
	}
	var o wire.Object
	if strings.HasSuffix(blockType(raw), "_tool_use") && o.UnmarshalJSON(raw) == nil {
		if input, ok := o.Get("input"); ok {
			if shown, err := o.With("input", wire.Raw("{}")).MarshalJSON(); err == nil {
				return s.partialJSON(s.begin(to, b, shown), b, string(input))
			}
		}
	}
	return s.begin(to, b, raw)
}

// openBlock is a block that has not ended.
type openBlock struct {
	wire, index int
	block       llm.Block
	held        bool        // the block is emitted when it is complete
	raw         wire.Raw    // of a held block
	members     wire.Object // of raw, with those that deltas brought; nil before the first
	input       []byte      // of a held block
	args        string      // of a call, from its start event
	got         bool        // a delta came
	pieces      wire.Joiner // of the text
}

// text returns the text of a delta.
func (o *openBlock) text(e *streamEvent) string { return o.pieces.Next(e.body) }

// gather adds a delta to a block that is emitted when it is complete. ANT-26
func (o *openBlock) gather(e *streamEvent) {
	o.got = true
	if e.deltaType == "input_json_delta" {
		o.input = append(o.input, o.text(e)...)
		return
	}
	var delta wire.Object
	if len(e.delta) == 0 || o.members == nil && o.members.UnmarshalJSON(o.raw) != nil || delta.UnmarshalJSON(e.delta) != nil {
		return
	}
	for _, m := range delta {
		if _, known := o.members.Get(m.Name); known || len(o.members) < wire.MaxMembers {
			o.members = o.members.With(m.Name, bytes.Clone(m.Value))
		}
	}
}

// whole returns a held block with everything that its deltas brought.
func (o *openBlock) whole() llm.Block {
	raw := o.raw
	if o.members != nil {
		if all, err := o.members.MarshalJSON(); err == nil {
			raw = all
		}
	}
	var block wire.Object
	if in := wire.Raw(o.input); len(in) > 0 && in.IsValid(wire.Lenient) && block.UnmarshalJSON(raw) == nil {
		if b, err := block.With("input", in).MarshalJSON(); err == nil {
			raw = b
		}
	}
	if b, err := decodeBlock(raw); err == nil {
		return b
	}
	return o.block
}
