package converse

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, _ *llm.Request, report *llm.Report) []byte {
	var choice llm.Choice
	if len(resp.Choices) > 0 {
		choice = resp.Choices[0]
	}
	reportEnvelope(resp, choice, report)
	var content wire.List[wire.Raw]
	called := false
	for i, b := range choice.Blocks {
		_, call := b.(*llm.ToolCall)
		called = called || call
		if raw := answerBlock(b, protocol.At("blocks", i), report); raw != nil {
			content.Append(&raw)
		}
	}
	reason := encodeStop(choice.Stop, called)
	reportStop(reason, choice.Stop, report)
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

// reportEnvelope reports what the response holds outside its blocks that the protocol has no
// field for.
func reportEnvelope(resp *llm.Response, choice llm.Choice, report *llm.Report) {
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "the protocol returns one choice; the others are dropped")
	}
	if tier := encodeTier(resp.Tier); tier != resp.Tier && resp.Tier != "standard" {
		report.Approximate("tier", "tier.mapped", resp.Tier+" is written as "+tier)
	}
	if resp.Usage == nil {
		report.Approximate("usage", "usage.unknown", "nothing was counted; clients read zeros")
	}
	protocol.DropExt(report, "response", resp.Ext, protocol.Converse)
	protocol.DropExt(report, protocol.At("choices", choice.Index), choice.Ext, protocol.Converse)
}

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
	protocol.DropExt(report, at, b.Common().Ext, protocol.Converse)
	var w *Block
	switch b := b.(type) {
	case *llm.Text:
		reportText(b, at, report)
		if b.Text == "" {
			return nil
		}
		if raws := ownCitations(b.Citations); len(raws) > 0 {
			w = citedBlock(b, raws)
		} else {
			w = &Block{Text: wire.Some(wire.NewText(b.Text)), Extra: kept.Extra(withoutMarks(b.Ext))}
		}
	case *llm.Thought:
		seal := answerSeal(b.Seals)
		if seal.Data == "" && thoughtText(b) == "" {
			return nil
		}
		if seal.Data == "" && b.Ext.Protocol != own {
			seal.Data = protocol.Unsealed // so that the vendor does not get it back as its own
		}
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate(at, "reasoning.summary", "a summary stands where all of the reasoning would")
		}
		w = thoughtBlock(b, seal)
	case *llm.ToolCall:
		use := ToolUse{ToolUseID: wire.Some(answerCallID(b)), Name: wire.Some(b.Name), ExtraContent: wire.Raw(protocol.Carry(b.Seals, protocol.Converse)), Extra: kept.Extra(b.Ext)}
		if use.Input = blockcodec.Member("input", blockcodec.Quoted(b.Args)); b.Kind != llm.CustomTool {
			var wrapped bool
			if use.Input, wrapped = blockcodec.ObjectArgs(b.Args); wrapped {
				report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
			}
		}
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
	return llm.Seal{Form: llm.Signature, Data: protocol.Wrap(seals, protocol.Converse)}
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
	if t.Phase != "" {
		report.Drop(at+".phase", "text.phase", "the protocol does not distinguish commentary from the final answer")
	}
	for _, s := range t.Seals {
		if s.Origin != own {
			report.Drop(at+".seals", "seal.foreign", "a text cannot carry the signature of another vendor")
		}
	}
	if len(ownCitations(t.Citations)) < len(t.Citations) {
		report.Drop(at+".citations", "citation.foreign", "citations of another vendor")
	}
	blockcodec.DropLogprobs(t.Logprobs, at, report)
}

// answerCallID returns a call's id in the form that clients may send back.
func answerCallID(c *llm.ToolCall) string { return protocol.WrapID(c.CallID, maxID) }

// encodeStop returns the stop reason of a neutral stop. A kind without a reason is sent in the
// source's own word, so that it does not look like a normal end; the vendor's SDKs accept
// unknown words.
func encodeStop(s llm.Stop, called bool) string {
	reason, ok := stopReasons[s.Kind]
	switch {
	case s.Kind == llm.ToolUse && !called:
		return "end_turn"
	case s.Kind == llm.EndTurn && called:
		return "tool_use"
	case ok && stopKinds[s.Raw] == s.Kind:
		return s.Raw // one of several reasons of the kind
	case ok:
		return reason
	}
	word := strings.ToLower(s.Raw)
	if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		word = "end_turn"
		if called {
			word = "tool_use"
		}
	}
	return word
}

// lossyStops lists the kinds that share another kind's reason or have none.
var lossyStops = []llm.StopKind{llm.PromptBlocked, llm.Refused, llm.Pause, llm.Other}

// reportStop reports what the stop reason cannot express.
func reportStop(reason string, s llm.Stop, report *llm.Report) {
	if slices.Contains(lossyStops, s.Kind) {
		report.Approximate("stop.kind", "stop_reason.lossy", string(s.Kind)+" is written as "+reason)
	}
	if s.Category+s.Explanation != "" {
		report.Drop("stop.explanation", "stop_reason.lossy", "the protocol does not explain a stop")
	}
}

// appendIndex appends the position of a block.
func appendIndex(to []byte, index int) []byte {
	return strconv.AppendInt(append(to, `"contentBlockIndex":`...), int64(index), 10)
}
