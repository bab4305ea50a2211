package converse

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// openBlock is a block that has not ended.
type openBlock struct {
	wire, index int
	block       llm.Block
	pieces      wire.Joiner // of the text or of the arguments
	got         bool        // arguments came

	signature strings.Builder
	redacted  []byte

	held    bool       // the block is emitted when it is complete
	use     ToolUse    // of a held call
	result  ToolResult // of a held result
	input   strings.Builder
	content wire.List[wire.Raw]
	media   *llm.Media      // of a held image
	data    strings.Builder // of media
}

// gather adds a delta to a block that is emitted when it is complete.
func (o *openBlock) gather(delta Delta) {
	switch {
	case o.media != nil:
		o.data.WriteString(codec.StandardBase64(delta.Image.Value().Source.Value().Bytes.Value().String()))
	case o.use.ToolUseID.IsSet():
		o.input.WriteString(o.pieces.Next(delta.ToolUse.Value().Input.Value().Body()))
	default:
		for _, raw := range delta.ToolResult.Value().All() {
			o.content.Append(raw)
		}
	}
}

// whole returns a held block.
func (o *openBlock) whole() llm.Block {
	switch {
	case o.media != nil:
		o.media.Data = o.data.String()
		return o.media
	case o.use.ToolUseID.IsSet():
		if o.use.Input = wire.Raw(o.input.String()); !o.use.Input.IsValid(wire.Lenient) {
			o.use.Input = wire.Raw("{}")
		}
		raw, _ := wire.Marshal(&Block{ToolUse: wire.Some(o.use)}) // cannot fail: it was decoded from JSON
		return &llm.ServerCall{Protocol: own, Type: "toolUse", Raw: llm.Raw(raw), Digest: o.use.Name.Value() + " " + string(o.use.Input)}
	}
	o.result.Content = wire.Some(o.content)
	raw, _ := wire.Marshal(&Block{ToolResult: wire.Some(o.result)}) // as above
	var blocks []llm.Block
	for _, item := range o.content.All() {
		if b, err := decodeBlock(*item); err == nil {
			blocks = append(blocks, b)
		}
	}
	return serverResult(blocks, raw)
}

// close writes the end of a block, and the complete block if it has no deltas.
func (s *streamEncoder) close(to []byte, b *blockcodec.OutBlock) []byte {
	switch block := b.Block.(type) {
	case *llm.Text, *llm.Refusal:
	case *llm.Thought:
		switch seal := answerSeal(b.Seals); {
		case seal.Form == llm.Redacted:
			to = s.delta(to, b, blockcodec.RedactedPart, seal.Data)
		case seal.Data != "":
			to = s.delta(to, b, blockcodec.SignaturePart, seal.Data)
		case b.Begun && block.Ext.Protocol != own:
			to = s.delta(to, b, blockcodec.SignaturePart, codec.Unsealed) // see answerBlock
		}
	case *llm.ToolCall:
		to = s.closeCall(to, b, block)
	case *llm.Media:
		to = s.media(to, b, block)
	default:
		to = s.whole(to, b)
	}
	if !b.Begun {
		return to
	}
	return tail(appendIndex(head(to, "contentBlockStop"), b.Index))
}

func (s *streamEncoder) media(to []byte, b *blockcodec.OutBlock, m *llm.Media) []byte {
	w := answerImage(m)
	if w == nil {
		return s.delta(to, b, blockcodec.TextPart, blockcodec.Placeholder(m))
	}
	to = s.begin(to, b, wire.Raw(`{"image":{"format":"`+formatOf(m.Kind, m.MIME)+`"}}`))
	return deltaTail(wire.AppendQuote(s.deltaHead(to, b, `"image":{"source":{"bytes":`), m.Data), b, "}}")
}

// whole writes a block without deltas: of a tool that the vendor ran, or the text in place
// of another block.
func (s *streamEncoder) whole(to []byte, b *blockcodec.OutBlock) []byte {
	text, raw := blockcodec.AnswerText(b.Block, "", &llm.Report{}, own)
	if text != "" {
		return s.delta(to, b, blockcodec.TextPart, text)
	}
	var w Block
	if raw == nil || wire.UnmarshalPart(raw, &w) != nil {
		return to
	}
	if use := w.ToolUse.Ptr(); use != nil {
		input := string(wire.Compact(use.Input))
		use.Input = nil
		start, _ := wire.Marshal(use) // cannot fail: it was decoded from JSON
		return s.delta(s.begin(to, b, blockcodec.Member("toolUse", wire.Compact(start))), b, blockcodec.InputPart, input)
	}
	if result := w.ToolResult.Ptr(); result != nil {
		content := result.Content
		result.Content = wire.Opt[wire.List[wire.Raw]]{}
		start, _ := wire.Marshal(result) // as above
		list, _ := wire.Marshal(&content)
		to = s.begin(to, b, blockcodec.Member("toolResult", wire.Compact(start)))
		return deltaTail(append(s.deltaHead(to, b, `"toolResult":`), wire.Compact(list)...), b, "")
	}
	return to // a stream has no event for it
}
