package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse reads an upstream's whole answer.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w Response
	if err := responseShape.UnmarshalLenient(body, &w); err != nil {
		return nil, badAnswer("the upstream's answer is not a complete JSON object", err)
	}
	if isError(w.Type.Value(), w.Error) { // ERR-05
		return nil, decodeErrorBody(0, body)
	}
	if !w.Content.IsSet() {
		return nil, badAnswer("the upstream's answer has no content", nil)
	}
	c := llm.Choice{}
	called := false
	for _, raw := range w.Content.Value() {
		b, err := decodeBlock(raw)
		if err != nil {
			return nil, badAnswer("the upstream's answer holds a block that cannot be read", err)
		}
		if call, ok := b.(*llm.ToolCall); ok {
			called = true
			if call.Args == "" {
				call.Args = "{}"
			}
		}
		c.Blocks = append(c.Blocks, b)
	}
	details := w.StopDetails.Value()
	c.Stop = decodeStop(w.StopReason.Value(), w.StopSequence.Value().String(), details, called)
	keepRest(&c.Ext, "stop_details", details.Extra)

	r := &llm.Response{ID: w.ID.Value(), Model: w.Model.Value(), Ext: extOf(w.Extra), Choices: []llm.Choice{c}}
	if u, ok := w.Usage.Get(); ok {
		var t tally
		t.add(&u)
		r.Usage, r.Tier = t.neutral(), t.tier
		keepRest(&r.Ext, "usage", t.rest)
	}
	return r, nil
}

// EncodeResponse writes a whole answer for the client that asked.
func (Codec) EncodeResponse(resp *llm.Response, ask *llm.Request, report *llm.Report) []byte {
	w := Response{
		ID:           wire.Some(messageID(resp.ID, resp.Model)),
		Type:         wire.Some("message"),
		Role:         wire.Some("assistant"),
		Model:        wire.Some(answeringModel(resp.Model, ask)),
		StopSequence: wire.Null[wire.Text](),
		Extra:        extraOf(without(resp.Ext, "usage")),
	}
	var choice llm.Choice
	if len(resp.Choices) > 0 {
		choice = resp.Choices[0]
	}
	reportEnvelope(resp, choice, report)
	for _, m := range extraOf(without(choice.Ext, "usage", "stop_details")).All() { // of a stream's end
		w.Extra.Set(m.Name, m.Value)
	}
	content := []wire.Raw{}
	called := false
	for i, b := range choice.Blocks {
		_, call := b.(*llm.ToolCall)
		called = called || call
		if raw := answerBlock(b, path("blocks", i), report); raw != nil {
			content = append(content, raw)
		}
	}
	w.Content = wire.Some(content)
	reason := encodeStop(choice.Stop, called)
	reportStop(reason, choice.Stop, report)
	w.StopReason, w.StopDetails = wire.Some(reason), stopDetails(reason, choice.Stop)
	if d := w.StopDetails.Ptr(); d != nil {
		d.Extra = restOf(choice.Ext, "stop_details")
	}
	if reason == "stop_sequence" && choice.Stop.Matched != "" {
		w.StopSequence = wire.Some(wire.NewText(choice.Stop.Matched))
	}
	w.Usage = wire.Some(encodeUsage(resp, choice.Ext))
	body, err := responseShape.Marshal(&w)
	if err != nil { // only ids and names that are not UTF-8 cannot be written
		return Codec{}.EncodeError(&llm.Error{Kind: llm.Upstream, Message: "the upstream's answer cannot be written", Cause: err})
	}
	return body
}

// reportEnvelope says what around an answer's blocks the client does not get.
func reportEnvelope(resp *llm.Response, choice llm.Choice, report *llm.Report) {
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "there is room for one answer; the first is given")
	}
	if tier := encodeTier(resp.Tier); tier != resp.Tier && resp.Tier != "default" {
		report.Approximate("tier", "tier.mapped", resp.Tier+" is written as "+tier)
	}
	if resp.Usage == nil {
		report.Approximate("usage", "usage.unknown", "nothing was counted; clients read zeros")
	}
	protocol.DropExt(report, "response", resp.Ext, protocol.Anthropic)
	protocol.DropExt(report, path("choices", choice.Index), choice.Ext, protocol.Anthropic)
}

func encodeUsage(resp *llm.Response, end llm.Ext) Usage {
	var u Usage
	_ = usageShape.Unmarshal(appendUsage(nil, resp.Usage), &u) // it has just been written
	u.ServiceTier = optString(encodeTier(resp.Tier))
	for _, ext := range []llm.Ext{resp.Ext, end} {
		for _, m := range restOf(ext, "usage").All() {
			u.Extra.Set(m.Name, m.Value)
		}
	}
	return u
}

// encodeTier is the protocol's name of the tier that has served an answer.
func encodeTier(tier string) string {
	switch tier {
	case "standard", "priority", "batch", "":
		return tier
	}
	return "standard"
}

// messageID is the answer's id; a client needs one.
func messageID(id, model string) string {
	if id == "" {
		return llm.MintID("msg_", model)
	}
	return id
}

func answeringModel(model string, ask *llm.Request) string {
	if model == "" && ask != nil {
		return ask.Model
	}
	return model
}

// answerBlock writes one block of an answer; nil if there is nothing to write.
func answerBlock(b llm.Block, at string, report *llm.Report) wire.Raw {
	carrier := protocol.Carry(b.Common().Seals, protocol.Anthropic)
	w := Block{ExtraContent: wire.Raw(carrier), Extra: extraOf(b.Common().Ext)}
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
			// The vendor's clients send a signature back, whoever made it.
			seal.Data = protocol.Wrap(b.Seals, protocol.Anthropic)
		}
		if seal.Data == "" {
			if thoughtText(b) == "" {
				return nil
			}
			seal.Data = protocol.Unsealed // thinking without a signature is no thinking to some
		}
		if b.Text(llm.SummaryReasoning) != "" {
			report.Approximate(at, "reasoning.summary", "a summary stands where all of the reasoning would")
		}
		return thoughtBlock(b, seal)
	case *llm.ToolCall:
		w.Type, w.ID, w.Name = wire.Some("tool_use"), wire.Some(answerCallID(b)), wire.Some(b.Name)
		if w.Input = member("input", quoted(b.Args)); b.Kind != llm.CustomTool {
			var wrapped bool
			if w.Input, wrapped = objectArgs(b.Args); wrapped {
				report.Approximate(at+".args", "args.wrapped", "arguments that are no object were put into one")
			}
		}
	default:
		text, raw := answerText(b, at, report)
		if text == "" {
			return raw
		}
		w.Type, w.Text = wire.Some("text"), wire.Some(wire.NewText(text))
	}
	raw, err := blockShape.Marshal(&w)
	if err != nil { // names that are not UTF-8
		report.Drop(at, "block.invalid", err.Error())
		return nil
	}
	return raw
}

// reportText says what of a text the client does not get.
func reportText(t *llm.Text, at string, report *llm.Report) {
	if t.Phase != "" {
		report.Drop(at+".phase", "text.phase", "the protocol does not tell commentary from answers")
	}
	reportLogprobs(t.Logprobs, at, report)
}

func reportLogprobs(list llm.Raw, at string, report *llm.Report) {
	if list != "" {
		report.Drop(at+".logprobs", "logprobs.unsupported", "the protocol has no log probabilities")
	}
}

// answerCallID is the id of a call as a client may send it back.
func answerCallID(c *llm.ToolCall) string { return llm.SafeName(c.CallID, maxName, llm.WordByte) }

// answerText is what stands in an answer for a block that the protocol has no
// block for, or the block as it was if it is the vendor's own.
func answerText(b llm.Block, at string, report *llm.Report) (string, wire.Raw) {
	switch b := b.(type) {
	case *llm.Refusal:
		report.Approximate(at, "refusal.as_text", "the protocol has no block for a refusal")
		reportLogprobs(b.Logprobs, at, report)
		return b.Text, nil
	case *llm.Media:
		report.Approximate(at, "media.unsupported", "an answer holds text only")
		return "[" + string(b.Kind) + " " + b.MIME + ": not shown, because the protocol has no place for it in an answer]", nil
	case *llm.ServerCall:
		if b.Protocol == own {
			return "", wire.Raw(b.Raw)
		}
		report.Drop(at, "server_tool.dropped", "a call of another vendor's tool")
	case *llm.Opaque:
		if b.Protocol == own {
			return "", wire.Raw(b.Raw)
		}
		report.Drop(at, "block.unknown", "a block of type "+b.Type)
	}
	return "", nil
}
