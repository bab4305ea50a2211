package anthropic

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// stops are the stop reasons. Several kinds share a reason.
var stops = codec.Stops{
	{Reason: "end_turn", Kind: llm.EndTurn},
	{Reason: "max_tokens", Kind: llm.MaxTokens},
	{Reason: "stop_sequence", Kind: llm.StopSequence},
	{Reason: "tool_use", Kind: llm.ToolUse},
	{Reason: "pause_turn", Kind: llm.Pause},
	{Reason: refusal, Kind: llm.Refused},
	{Reason: refusal, Kind: llm.ContentFilter},
	{Reason: refusal, Kind: llm.PromptBlocked},
	{Reason: "model_context_window_exceeded", Kind: llm.ContextWindow},
}

// refusal is the only reason that is explained.
const refusal = "refusal"

// decodeStop decodes the members of a response that say why it ended.
func decodeStop(reason, sequence string, details StopDetails, called bool) llm.Stop {
	s := blockcodec.DecodeStop(stops, reason, called)
	s.Matched, s.Category, s.Explanation = sequence, details.Category.Value(), details.Explanation.Value().String()
	return s
}

// stopDetails encodes the details of a refusal. Other reasons have none.
func stopDetails(reason string, s llm.Stop) wire.Opt[StopDetails] {
	if reason != refusal {
		return wire.Opt[StopDetails]{}
	}
	d := StopDetails{Type: wire.Some(refusal), Category: wire.Null[string](), Explanation: wire.Null[wire.Text]()}
	if s.Category != "" {
		d.Category = wire.Some(s.Category)
	}
	if s.Explanation != "" {
		d.Explanation = wire.Some(wire.NewText(s.Explanation))
	}
	return wire.Some(d)
}
