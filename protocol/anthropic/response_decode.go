package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// DecodeResponse decodes a non-streaming response.
func (Codec) DecodeResponse(body []byte) (*llm.Response, *llm.Error) {
	var w Response
	if err := wire.UnmarshalLenient(body, &w); err != nil {
		return nil, protocol.InvalidResponse("the upstream's response is not a complete JSON object", err)
	}
	if isError(w.Type.Value(), w.Error) { // ERR-05
		return nil, decodeErrorBody(0, body)
	}
	if !w.Content.IsSet() {
		return nil, protocol.InvalidResponse("the upstream's response has no content", nil)
	}
	c := llm.Choice{}
	called := false
	for _, raw := range w.Content.Value().All() {
		b, err := decodeBlock(*raw)
		if err != nil {
			return nil, protocol.InvalidResponse("the upstream's response holds a content block that cannot be decoded", err)
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
	kept.KeepRest(&c.Ext, "stop_details", details.Extra)

	r := &llm.Response{ID: w.ID.Value(), Model: w.Model.Value(), Ext: kept.Ext(w.Extra), Choices: []llm.Choice{c}}
	if u, ok := w.Usage.Get(); ok {
		var t tally
		t.add(&u)
		r.Usage, r.Tier = t.neutral(), t.tier
		kept.KeepRest(&r.Ext, "usage", t.rest)
	}
	return r, nil
}

// decodeStop decodes the stop reason. A complete response without a reason is
// EndTurn.
func decodeStop(reason, sequence string, details StopDetails, called bool) llm.Stop {
	s := llm.Stop{Raw: reason, Matched: sequence, Category: details.Category.Value(), Explanation: details.Explanation.Value().String()}
	s.Kind = llm.Other
	if kind, ok := stopKinds[reason]; ok {
		s.Kind = kind
	}
	switch {
	case called && (reason == "" || s.Kind == llm.EndTurn):
		s.Kind = llm.ToolUse
	case reason == "", s.Kind == llm.ToolUse && !called:
		s.Kind = llm.EndTurn
	}
	return s
}
