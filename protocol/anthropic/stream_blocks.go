package anthropic

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// skeleton returns the block of the start event: without text, with the seals
// known so far.
func skeleton(b *blockcodec.OutBlock) wire.Raw {
	b.Sealed = len(b.Seals)
	carrier := codec.Carry(b.Seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: kept.Extra(b.Block.Common().Ext)}
	switch block := b.Block.(type) {
	case *llm.Thought:
		t := llm.Thought{Meta: llm.Meta{Seals: b.Seals, Ext: block.Ext}}
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

// seal takes a seal. Anthropic's own signature has an event; other seals wait for
// the block's start or end.
func (s *streamEncoder) seal(to []byte, b *blockcodec.OutBlock, seal llm.Seal) []byte {
	_, thought := b.Block.(*llm.Thought)
	if seal.Origin != own || seal.Form != llm.Signature || !thought {
		b.Seals = append(b.Seals, seal)
		return to
	}
	return s.signature(to, b, seal)
}

func (s *streamEncoder) signature(to []byte, b *blockcodec.OutBlock, seal llm.Seal) []byte {
	b.Signed = true
	return s.delta(to, b, blockcodec.SignaturePart, seal.Data)
}

// close writes the end of a block, and the complete block if it has no deltas.
func (s *streamEncoder) close(to []byte, b *blockcodec.OutBlock) []byte {
	switch block := b.Block.(type) {
	case *llm.Text, *llm.Refusal:
		if len(b.Seals) > 0 { // an empty text may carry a seal
			to = s.open(to, b)
		}
	case *llm.Thought:
		if len(b.Seals) > 0 {
			to = s.open(to, b)
		}
		t := llm.Thought{Meta: *block.Common()}
		if seal, ok := t.SealFor(own); ok && seal.Form == llm.Signature {
			to = s.signature(to, b, seal) // known since the start
		} else if w := codec.Wrap(b.Seals, protocol.Anthropic); w != "" && !ok {
			to = s.signature(to, b, llm.Seal{Data: w}) // clients send it back, whoever made it
			b.Sealed = len(b.Seals)
		} else if b.Begun && !b.Signed && len(b.Seals) == 0 {
			to = s.signature(to, b, llm.Seal{Data: codec.Unsealed}) // see answerBlock
		}
	case *llm.ToolCall:
		to = s.closeCall(to, b, block)
	default:
		to = s.wholeBlock(to, b)
	}
	if !b.Begun {
		return to
	}
	to = strconv.AppendInt(append(head(to, "content_block_stop"), `,"index":`...), int64(b.Index), 10)
	if late := codec.Carry(b.Seals[b.Sealed:], protocol.Anthropic); late != "" {
		to = append(append(to, `,"`+codec.CarrierMember+`":`...), late...)
	}
	return tail(to)
}

// wholeBlock writes a block without deltas. The input of vendor-run tools goes
// into one delta, because SDKs read it only there. ANT-02, ANT-26
func (s *streamEncoder) wholeBlock(to []byte, b *blockcodec.OutBlock) []byte {
	text, raw := blockcodec.AnswerText(b.Block, "", &llm.Report{}, own)
	if text != "" {
		return s.delta(to, b, blockcodec.TextPart, text)
	}
	if raw == nil {
		return to
	}
	var o wire.Object
	if strings.HasSuffix(blockType(raw), "_tool_use") && o.UnmarshalJSON(raw) == nil {
		if input, ok := o.Get("input"); ok {
			if shown, err := o.With("input", wire.Raw("{}")).MarshalJSON(); err == nil {
				return s.delta(s.begin(to, b, shown), b, blockcodec.InputPart, string(input))
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
