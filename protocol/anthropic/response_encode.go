package anthropic

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
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
	blockcodec.ReportEnvelope(resp, choice, encodeTier(resp.Tier), "default", protocol.Anthropic, report)
	for _, m := range kept.Extra(blockcodec.Without(choice.Ext, "usage", "stop_details")).All() { // members of message_delta
		w.Extra.Set(m.Name, m.Value)
	}
	content, called := blockcodec.EncodeContent(choice.Blocks, report, answerBlock)
	w.Content = wire.Some(content)
	reason := blockcodec.EncodeStop(stops, choice.Stop, called)
	blockcodec.ReportStop(stops, reason, choice.Stop, reason == refusal, report)
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

func encodeUsage(resp *llm.Response, end llm.Ext) Usage {
	var u Usage
	_ = wire.Unmarshal(appendUsage(nil, resp.Usage), &u) // cannot fail: it was encoded just now
	u.ServiceTier = wire.NonZero(encodeTier(resp.Tier))
	for _, ext := range []llm.Ext{resp.Ext, end} {
		for _, m := range kept.Rest(ext, "usage").All() {
			u.Extra.Set(m.Name, m.Value)
		}
	}
	u.Extra = wire.NewExtra(withCacheCreation(u.Extra.All(), resp.Usage))
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
	carrier := codec.Carry(b.Common().Seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: kept.Extra(b.Common().Ext)}
	codec.DropExt(report, at, b.Common().Ext, protocol.Anthropic)
	switch b := b.(type) {
	case *llm.Text:
		if b.Text == "" && carrier == "" {
			return nil
		}
		blockcodec.ReportText(b, at, protocol.Anthropic, report)
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(b.Text))
		if list := blockcodec.OwnCitations(b.Citations, own); list != nil {
			w.Citations = array(list)
		}
	case *llm.Thought:
		seal, sealed := b.SealFor(string(protocol.Anthropic))
		if !sealed {
			// Clients send a signature back, whoever made it.
			seal.Data = codec.Wrap(b.Seals, protocol.Anthropic)
		}
		if seal.Data == "" {
			if blockcodec.ThoughtText(b) == "" {
				return nil
			}
			seal.Data = codec.Unsealed // some clients ignore thinking without a signature
		}
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate(at, "reasoning.summary", "a summary stands where all of the reasoning would")
		}
		return thoughtBlock(b, seal)
	case *llm.ToolCall:
		w.Type, w.ID, w.Name = wire.Some("tool_use"), wire.Some(answerCallID(b)), wire.Some(b.Name)
		w.Input = blockcodec.Args(report, at, b)
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

// answerCallID returns a call's id in the form that clients may send back.
func answerCallID(c *llm.ToolCall) string { return codec.WrapID(c.CallID, maxName) }
