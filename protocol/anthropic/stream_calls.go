package anthropic

import (
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (s *streamEncoder) args(to []byte, b *outBlock, call *llm.ToolCall, text string) []byte {
	if text = b.args.Add(call, text); text == "" {
		return to
	}
	return s.partialJSON(to, b, text)
}

func (s *streamEncoder) partialJSON(to []byte, b *outBlock, text string) []byte {
	to = deltaHead(s.open(to, b), b, "input_json_delta", "partial_json")
	return deltaTail(wire.AppendQuote(to, text))
}

func (s *streamEncoder) closeCall(to []byte, b *outBlock, call *llm.ToolCall) []byte {
	s.called = true
	to = s.open(to, b)
	input, ok := b.args.Rest(call)
	if !ok || string(input) == "{}" { // the start event says so already
		return to
	}
	return s.partialJSON(to, b, string(input))
}
