package converse

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// stops are the stop reasons. Several kinds share a reason, and several reasons a kind.
var stops = codec.Stops{
	{Reason: "end_turn", Kind: llm.EndTurn},
	{Reason: "tool_use", Kind: llm.ToolUse},
	{Reason: "max_tokens", Kind: llm.MaxTokens},
	{Reason: "stop_sequence", Kind: llm.StopSequence},
	{Reason: "content_filtered", Kind: llm.ContentFilter},
	{Reason: "content_filtered", Kind: llm.PromptBlocked},
	{Reason: "content_filtered", Kind: llm.Refused},
	{Reason: "guardrail_intervened", Kind: llm.ContentFilter},
	{Reason: "malformed_tool_use", Kind: llm.Malformed},
	{Reason: "malformed_model_output", Kind: llm.Malformed},
	{Reason: "model_context_window_exceeded", Kind: llm.ContextWindow},
}

// decodeStop decodes the members of a response that say why it ended.
func decodeStop(w *Response, called bool) llm.Stop {
	s := blockcodec.DecodeStop(stops, w.StopReason.Value(), called)
	if raw, ok := w.AdditionalFields.Value().Get("stop_sequence"); ok && s.Kind == llm.StopSequence {
		s.Matched = wire.Unquote(raw)
	}
	return s
}
