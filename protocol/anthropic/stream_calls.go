package anthropic

import (
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
)

func (s *streamEncoder) closeCall(to []byte, b *blockcodec.OutBlock, call *llm.ToolCall) []byte {
	s.Called = true
	to = s.open(to, b)
	input, ok := b.RestOfInput(call)
	if !ok || string(input) == "{}" { // the start event says so already
		return to
	}
	return s.delta(to, b, blockcodec.InputPart, string(input))
}
