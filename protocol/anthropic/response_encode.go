package anthropic

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// EncodeResponse encodes a non-streaming response.
func (Codec) EncodeResponse(resp *llm.Response, req *llm.Request, report *llm.Report) []byte {
	w := Response{
		ID:           wire.Some(messageID(resp.ID, resp.Model)),
		Type:         wire.Some("message"),
		Role:         wire.Some("assistant"),
		Model:        wire.Some(answeringModel(resp.Model, req)),
		StopSequence: wire.Null[wire.Text](),
		Extra:        kept.Extra(blockcodec.Without(resp.Ext, "usage")),
	}
	var choice llm.Choice
	if len(resp.Choices) > 0 {
		choice = resp.Choices[0]
	}
	reportEnvelope(resp, choice, report)
	for _, m := range kept.Extra(blockcodec.Without(choice.Ext, "usage", "stop_details")).All() { // members of message_delta
		w.Extra.Set(m.Name, m.Value)
	}
	var content wire.List[wire.Raw]
	called := false
	for i, b := range choice.Blocks {
		_, call := b.(*llm.ToolCall)
		called = called || call
		if raw := answerBlock(b, protocol.At("blocks", i), report); raw != nil {
			content.Append(&raw)
		}
	}
	w.Content = wire.Some(content)
	reason := encodeStop(choice.Stop, called)
	reportStop(reason, choice.Stop, report)
	w.StopReason, w.StopDetails = wire.Some(reason), stopDetails(reason, choice.Stop)
	if d := w.StopDetails.Ptr(); d != nil {
		d.Extra = kept.Rest(choice.Ext, "stop_details")
	}
	if reason == "stop_sequence" && choice.Stop.Matched != "" {
		w.StopSequence = wire.Some(wire.NewText(choice.Stop.Matched))
	}
	w.Usage = wire.Some(encodeUsage(resp, choice.Ext))
	body, err := wire.Marshal(&w)
	if err != nil { // only ids and names with invalid UTF-8 cannot be encoded
		return Codec{}.EncodeError(&llm.Error{Kind: llm.Upstream, Message: "the upstream's response cannot be encoded", Cause: err})
	}
	return body
}

// reportEnvelope reports what the response holds outside its blocks that the
// protocol has no field for.
func reportEnvelope(resp *llm.Response, choice llm.Choice, report *llm.Report) {
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "the protocol returns one choice; the others are dropped")
	}
	if tier := encodeTier(resp.Tier); tier != resp.Tier && resp.Tier != "default" {
		report.Approximate("tier", "tier.mapped", resp.Tier+" is written as "+tier)
	}
	if resp.Usage == nil {
		report.Approximate("usage", "usage.unknown", "nothing was counted; clients read zeros")
	}
	protocol.DropExt(report, "response", resp.Ext, protocol.Anthropic)
	protocol.DropExt(report, protocol.At("choices", choice.Index), choice.Ext, protocol.Anthropic)
}

func encodeUsage(resp *llm.Response, end llm.Ext) Usage {
	var u Usage
	_ = wire.Unmarshal(appendUsage(nil, resp.Usage), &u) // cannot fail: it was encoded just now
	u.ServiceTier = wire.NonZero(encodeTier(resp.Tier))
	for _, ext := range []llm.Ext{resp.Ext, end} {
		for _, m := range kept.Rest(ext, "usage").All() {
			u.Extra.Set(m.Name, m.Value)
		}
	}
	return u
}

// encodeTier returns the protocol's name of a service tier.
func encodeTier(tier string) string {
	switch tier {
	case "standard", "priority", "batch", "":
		return tier
	}
	return "standard"
}

// messageID returns the response's id, or a new one, because clients require one.
func messageID(id, model string) string {
	if id == "" {
		return llm.MintID("msg_", model)
	}
	return id
}

func answeringModel(model string, req *llm.Request) string {
	if model == "" && req != nil {
		return req.Model
	}
	return model
}

// answerBlock encodes one block of a response, or returns nil if it is empty.
func answerBlock(b llm.Block, at string, report *llm.Report) wire.Raw {
	carrier := protocol.Carry(b.Common().Seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: kept.Extra(b.Common().Ext)}
	protocol.DropExt(report, at, b.Common().Ext, protocol.Anthropic)
	switch b := b.(type) {
	case *llm.Text:
		if b.Text == "" && carrier == "" {
			return nil
		}
		reportText(b, at, report)
		own := ownCitations(b.Citations)
		if len(own) < len(b.Citations) {
			report.Drop(at+".citations", "citation.foreign", "citations of another vendor")
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Text))
		if own != nil {
			w.Citations = array(own)
		}
	case *llm.Thought:
		seal, sealed := b.SealFor(string(protocol.Anthropic))
		if !sealed {
			// Clients send a signature back, whoever made it.
			seal.Data = protocol.Wrap(b.Seals, protocol.Anthropic)
		}
		if seal.Data == "" {
			if thoughtText(b) == "" {
				return nil
			}
			seal.Data = protocol.Unsealed // some clients ignore thinking without a signature
		}
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate(at, "reasoning.summary", "a summary stands where all of the reasoning would")
		}
		return thoughtBlock(b, seal)
	case *llm.ToolCall:
		w.Type, w.ID, w.Name = wire.Some("tool_use"), wire.Some(answerCallID(b)), wire.Some(b.Name)
		if w.Input = blockcodec.Member("input", blockcodec.Quoted(b.Args)); b.Kind != llm.CustomTool {
			var wrapped bool
			if w.Input, wrapped = blockcodec.ObjectArgs(b.Args); wrapped {
				report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
			}
		}
	default:
		text, raw := blockcodec.AnswerText(b, at, report, own)
		if text == "" {
			return raw
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(text))
	}
	raw, err := wire.Marshal(&w)
	if err != nil { // the name has invalid UTF-8
		report.Drop(at, "block.invalid", err.Error())
		return nil
	}
	return raw
}

// reportText reports what a text block cannot hold.
func reportText(t *llm.Text, at string, report *llm.Report) {
	if t.Phase != "" {
		report.Drop(at+".phase", "text.phase", "the protocol does not distinguish commentary from the final answer")
	}
	blockcodec.DropLogprobs(t.Logprobs, at, report)
}

// answerCallID returns a call's id in the form that clients may send back.
func answerCallID(c *llm.ToolCall) string { return protocol.WrapID(c.CallID, maxName) }

// stopKinds maps stop reasons to neutral kinds, and stopReasons is the reverse.
// Several kinds share a reason.
var (
	stopKinds = map[string]llm.StopKind{
		"end_turn":                      llm.EndTurn,
		"max_tokens":                    llm.MaxTokens,
		"stop_sequence":                 llm.StopSequence,
		"tool_use":                      llm.ToolUse,
		"pause_turn":                    llm.Pause,
		"refusal":                       llm.Refused,
		"model_context_window_exceeded": llm.ContextWindow,
	}
	stopReasons = map[llm.StopKind]string{
		llm.EndTurn:       "end_turn",
		llm.MaxTokens:     "max_tokens",
		llm.StopSequence:  "stop_sequence",
		llm.ToolUse:       "tool_use",
		llm.Pause:         "pause_turn",
		llm.Refused:       "refusal",
		llm.ContentFilter: "refusal",
		llm.PromptBlocked: "refusal",
		llm.ContextWindow: "model_context_window_exceeded",
	}
)

// encodeStop returns the stop reason of a neutral stop. A kind without a reason
// is sent in the source's own word, so that it does not look like a normal end;
// clients accept unknown words. ANT-24
func encodeStop(s llm.Stop, called bool) string {
	reason, ok := stopReasons[s.Kind]
	switch {
	case s.Kind == llm.ToolUse && !called:
		return "end_turn"
	case s.Kind == llm.EndTurn && called:
		return "tool_use"
	case ok:
		return reason
	}
	word := strings.ToLower(s.Raw)
	if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "end_turn"
	}
	return word
}

// lossyStops lists the kinds that share another kind's reason or have none.
var lossyStops = []llm.StopKind{llm.ContentFilter, llm.PromptBlocked, llm.Malformed, llm.Other}

// reportStop reports what the stop reason cannot express.
func reportStop(reason string, s llm.Stop, report *llm.Report) {
	if slices.Contains(lossyStops, s.Kind) {
		report.Approximate("stop.kind", "stop_reason.lossy", string(s.Kind)+" is written as "+reason)
	}
	if reason != "refusal" && s.Category+s.Explanation != "" {
		report.Drop("stop.explanation", "stop_reason.lossy", "only a refusal is explained")
	}
}

// stopDetails encodes the details of a refusal. Other reasons have none.
func stopDetails(reason string, s llm.Stop) wire.Opt[StopDetails] {
	if reason != "refusal" {
		return wire.Opt[StopDetails]{}
	}
	d := StopDetails{Type: wire.Some("refusal"), Category: wire.Null[string](), Explanation: wire.Null[wire.Text]()}
	if s.Category != "" {
		d.Category = wire.Some(s.Category)
	}
	if s.Explanation != "" {
		d.Explanation = wire.Some(wire.NewText(s.Explanation))
	}
	return wire.Some(d)
}
