package anthropic

import (
	"bytes"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func (s *streamEncoder) args(to []byte, b *outBlock, call *llm.ToolCall, text string) []byte {
	if b.direct {
		return s.partialJSON(to, b, text)
	}
	b.held = append(b.held, text...)
	if call.Kind == llm.CustomTool || call.Synthetic { // emitted complete at the end; a generated id means that the call came complete
		return to
	}
	if start := bytes.TrimLeft(b.held, " \t\r\n"); len(start) > 0 && start[0] == '{' {
		b.direct = true
		text, b.held = string(b.held), nil
		return s.partialJSON(to, b, text)
	}
	return to
}

func (s *streamEncoder) partialJSON(to []byte, b *outBlock, text string) []byte {
	to = deltaHead(s.open(to, b), b, "input_json_delta", "partial_json")
	return deltaTail(wire.AppendQuote(to, text))
}

func (s *streamEncoder) closeCall(to []byte, b *outBlock, call *llm.ToolCall) []byte {
	s.called = true
	to = s.open(to, b)
	if b.direct {
		return to
	}
	input := blockcodec.Member("input", blockcodec.Quoted(string(b.held)))
	if call.Kind != llm.CustomTool {
		input, _ = blockcodec.ObjectArgs(string(b.held))
	}
	if string(input) == "{}" { // the start event says so already
		return to
	}
	return s.partialJSON(to, b, string(input))
}
