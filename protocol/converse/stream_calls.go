package converse

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// callStart returns the start of a call's block.
func callStart(b *blockcodec.OutBlock, call *llm.ToolCall) wire.Raw {
	w := ToolUse{ToolUseID: wire.Some(answerCallID(call)), Name: wire.Some(call.Name), ExtraContent: wire.Raw(codec.Carry(b.Seals, protocol.Converse)), Extra: kept.Extra(call.Ext)}
	raw, err := wire.Marshal(&w)
	if err != nil { // the name has invalid UTF-8
		w.Name, w.Extra = wire.Some(strings.ToValidUTF8(call.Name, "\uFFFD")), wire.Extra{}
		raw, _ = wire.Marshal(&w)
	}
	return blockcodec.Member("toolUse", wire.Compact(raw))
}

func (s *streamEncoder) closeCall(to []byte, b *blockcodec.OutBlock, call *llm.ToolCall) []byte {
	s.Called = true
	to = s.open(to, b)
	input, ok := b.RestOfInput(call)
	if !ok {
		return to
	}
	return s.delta(to, b, blockcodec.InputPart, string(input))
}
