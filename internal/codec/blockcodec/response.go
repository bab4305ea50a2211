package blockcodec

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeContent decodes the blocks of a response and reports whether one is a call.
func DecodeContent(content wire.List[wire.Raw], decode func(wire.Raw) (llm.Block, error)) (blocks []llm.Block, called bool, fault *llm.Error) {
	for _, raw := range content.All() {
		b, err := decode(*raw)
		if err != nil {
			return nil, false, codec.InvalidResponse("the upstream's response holds a content block that cannot be decoded", err)
		}
		if call, ok := b.(*llm.ToolCall); ok {
			called = true
			if call.Args == "" {
				call.Args = "{}"
			}
		}
		blocks = append(blocks, b)
	}
	return blocks, called, nil
}

// EncodeContent encodes the blocks of a response and reports whether one is a call. encode returns nil for an empty block.
func EncodeContent(blocks []llm.Block, report *llm.Report, encode func(b llm.Block, at string, report *llm.Report) wire.Raw) (content wire.List[wire.Raw], called bool) {
	for i, b := range blocks {
		_, call := b.(*llm.ToolCall)
		called = called || call
		if raw := encode(b, codec.At("blocks", i), report); raw != nil {
			content.Append(&raw)
		}
	}
	return content, called
}

// ReportEnvelope reports members of the response beside its blocks for which the protocol has no field. tier is the
// service tier that is written. standard is another protocol's name of the same tier, which needs no report.
func ReportEnvelope(resp *llm.Response, choice llm.Choice, tier, standard string, own protocol.Name, report *llm.Report) {
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "the protocol returns one choice; the others are dropped")
	}
	if tier != resp.Tier && resp.Tier != standard {
		report.Approximate("tier", "tier.mapped", resp.Tier+" is written as "+tier)
	}
	if resp.Usage == nil {
		report.Approximate("usage", "usage.unknown", "nothing was counted; clients read zeros")
	}
	codec.DropExt(report, "response", resp.Ext, own)
	codec.DropExt(report, codec.At("choices", choice.Index), choice.Ext, own)
}

// ReportText reports what a text block of a response cannot hold.
func ReportText(t *llm.Text, at string, own protocol.Name, report *llm.Report) {
	if t.Phase != "" {
		report.Drop(at+".phase", "text.phase", "the protocol does not distinguish commentary from the final answer")
	}
	if len(OwnCitations(t.Citations, string(own))) < len(t.Citations) {
		report.Drop(at+".citations", "citation.foreign", "citations of another vendor")
	}
	DropLogprobs(t.Logprobs, at, report)
}
