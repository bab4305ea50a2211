package converse

import (
	"slices"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, _ *llm.Request, report *llm.Report) []byte {
	var choice llm.Choice
	if len(resp.Choices) > 0 {
		choice = resp.Choices[0]
	}
	blockcodec.ReportEnvelope(resp, choice, encodeTier(resp.Tier), "standard", protocol.Converse, report)
	content, called := blockcodec.EncodeContent(choice.Blocks, report, answerBlock)
	reason := blockcodec.EncodeStop(stops, choice.Stop, called)
	blockcodec.ReportStop(stops, reason, choice.Stop, false, report)
	w := Response{
		Output:     wire.Some(Output{Message: wire.Some(Message{Role: wire.Some("assistant"), Content: wire.Some(content)})}),
		StopReason: wire.Some(reason),
		Usage:      wire.Some(encodeUsage(resp.Usage, resp.Ext)),
		Metrics:    wire.Raw(noMetrics),
		Extra:      kept.Extra(blockcodec.Without(resp.Ext, responseNames...)),
	}
	for _, m := range kept.Extra(blockcodec.Without(choice.Ext, responseNames...)).All() {
		w.Extra.Set(m.Name, m.Value)
	}
	if fields := additionalFields(choice.Stop, choice.Ext); len(fields) > 0 {
		w.AdditionalFields = wire.Some(fields)
	}
	if resp.Tier != "" {
		w.ServiceTier = wire.Some(ServiceTier{Type: wire.Some(encodeTier(resp.Tier))})
	}
	body, err := wire.Marshal(&w)
	if err != nil { // only ids and names with invalid UTF-8 cannot be encoded
		return Codec{}.EncodeError(&llm.Error{Kind: llm.Upstream, Message: "the upstream's response cannot be encoded", Cause: err})
	}
	return body
}

// responseNames lists the members that the encoder writes itself. Their odd values are kept as
// unknown members and must not be written twice.
var responseNames = []string{"output", "stopReason", "usage", "metrics", "additionalModelResponseFields", "serviceTier"}

// noMetrics stands for the latency, which clients require and a codec does not know.
const noMetrics = `{"latencyMs":0}`

// encodeTier returns the protocol's name of a service tier.
func encodeTier(tier string) string {
	if tier == "" || slices.Contains(tiers, tier) {
		return tier
	}
	return "default"
}

// encodeUsage encodes token counts. Clients require three of them, so unknown counts are
// written as zero.
func encodeUsage(u *llm.Usage, ext llm.Ext) Usage {
	if u == nil {
		u = &llm.Usage{}
	}
	w := Usage{InputTokens: wire.Some(wire.Int(u.Input)), OutputTokens: wire.Some(wire.Int(u.TotalOutput())),
		TotalTokens: wire.Some(wire.Int(u.TotalInput() + u.TotalOutput())), Extra: kept.Rest(ext, "usage")}
	if u.CacheRead+u.CacheWrite > 0 {
		w.CacheReadInputTokens, w.CacheWriteInputTokens = wire.Some(wire.Int(u.CacheRead)), wire.Some(wire.Int(u.CacheWrite))
	}
	if n := *u.At(llm.CacheWrite1h); n > 0 {
		if _, ok := w.Extra.Get("cacheDetails"); !ok {
			var list wire.List[cacheDetail]
			list.Append(&cacheDetail{wire.Some(wire.Int(n)), wire.Some(hour)})
			if rest := u.CacheWrite - n; rest > 0 {
				list.Append(&cacheDetail{wire.Some(wire.Int(rest)), wire.Some(minutes)})
			}
			if raw, err := wire.Marshal(&list); err == nil {
				w.Extra.Set("cacheDetails", raw)
			}
		}
	}
	return w
}

// additionalFields returns the members in the model's own form.
func additionalFields(s llm.Stop, ext llm.Ext) wire.Object {
	fields := kept.Rest(ext, "additionalModelResponseFields").All()
	if s.Kind == llm.StopSequence && s.Matched != "" {
		fields = append(slices.Clone(fields), wire.Member{Name: "stop_sequence", Value: blockcodec.Quoted(s.Matched)})
	}
	return fields
}

// answerBlock encodes one block of a response, or returns nil if it is empty.
func answerBlock(b llm.Block, at string, report *llm.Report) wire.Raw {
	codec.DropExt(report, at, b.Common().Ext, protocol.Converse)
	var w *Block
	switch b := b.(type) {
	case *llm.Text:
		reportText(b, at, report)
		if b.Text == "" {
			return nil
		}
		if raws := blockcodec.OwnCitations(b.Citations, own); len(raws) > 0 {
			w = citedBlock(b, raws)
		} else {
			w = &Block{Text: wire.Some(wire.NewText(b.Text)), Extra: kept.Extra(withoutMarks(b.Ext))}
		}
	case *llm.Thought:
		seal := answerSeal(b.Seals)
		if seal.Data == "" && blockcodec.ThoughtText(b) == "" {
			return nil
		}
		if seal.Data == "" && b.Ext.Protocol != own {
			seal.Data = codec.Unsealed // so that the vendor does not get it back as its own
		}
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate(at, "reasoning.summary", "a summary stands where all of the reasoning would")
		}
		w = thoughtBlock(b, seal)
	case *llm.ToolCall:
		use := ToolUse{ToolUseID: wire.Some(answerCallID(b)), Name: wire.Some(b.Name), ExtraContent: wire.Raw(codec.Carry(b.Seals, protocol.Converse)), Extra: kept.Extra(b.Ext)}
		use.Input = blockcodec.Args(report, at, b)
		w = &Block{ToolUse: wire.Some(use)}
	case *llm.Media:
		if w = answerImage(b); w == nil {
			report.Approximate(at, "media.unsupported", "a response holds text and images only")
			w = &Block{Text: wire.Some(wire.NewText(blockcodec.Placeholder(b)))}
		}
	default:
		text, raw := blockcodec.AnswerText(b, at, report, own)
		if text == "" {
			return raw
		}
		w = &Block{Text: wire.Some(wire.NewText(text))}
	}
	raw, err := wire.Marshal(w)
	if err != nil { // a name has invalid UTF-8
		report.Drop(at, "block.invalid", err.Error())
		return nil
	}
	return raw
}

// answerSeal returns the seal that a client sends back with reasoning: the vendor's own, or
// those of other vendors in the place of a signature.
func answerSeal(seals []llm.Seal) llm.Seal {
	m := llm.Meta{Seals: seals}
	if seal, ok := m.SealFor(own); ok {
		return seal
	}
	return llm.Seal{Form: llm.Signature, Data: codec.Wrap(seals, protocol.Converse)}
}

// answerImage returns an image with its data, or nil for other media.
func answerImage(m *llm.Media) *Block {
	name := formatOf(m.Kind, m.MIME)
	if m.Kind != llm.Image || m.Data == "" || name == "" {
		return nil
	}
	return &Block{Image: wire.Some(Media{Format: wire.Some(name), Source: wire.Some(Source{Bytes: wire.Some(wire.NewText(m.Data))}), Extra: kept.Extra(withoutMarks(m.Ext))})}
}

// reportText reports what a text block cannot hold.
func reportText(t *llm.Text, at string, report *llm.Report) {
	for _, s := range t.Seals {
		if s.Origin != own {
			report.Drop(at+".seals", "seal.foreign", "a text cannot carry the signature of another vendor")
		}
	}
	blockcodec.ReportText(t, at, protocol.Converse, report)
}

// answerCallID returns a call's id in the form that clients may send back.
func answerCallID(c *llm.ToolCall) string { return codec.WrapID(c.CallID, maxID) }
