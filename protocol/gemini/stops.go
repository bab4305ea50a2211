package gemini

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// stops are the finish reasons. Several kinds share a reason, and several reasons a kind. An unknown reason is Other, not
// a normal end (GEM-14).
var stops = codec.Stops{
	{Reason: "STOP", Kind: llm.EndTurn},
	{Reason: "STOP", Kind: llm.StopSequence},
	{Reason: "STOP", Kind: llm.ToolUse},
	{Reason: "MAX_TOKENS", Kind: llm.MaxTokens},
	{Reason: "MAX_TOKENS", Kind: llm.ContextWindow},
	{Reason: "SAFETY", Kind: llm.ContentFilter},
	{Reason: "SAFETY", Kind: llm.Refused},
	{Reason: "SAFETY", Kind: llm.PromptBlocked},
	{Reason: "RECITATION", Kind: llm.ContentFilter},
	{Reason: "LANGUAGE", Kind: llm.ContentFilter},
	{Reason: "BLOCKLIST", Kind: llm.ContentFilter},
	{Reason: "PROHIBITED_CONTENT", Kind: llm.ContentFilter},
	{Reason: "SPII", Kind: llm.ContentFilter},
	{Reason: "IMAGE_SAFETY", Kind: llm.ContentFilter},
	{Reason: "IMAGE_PROHIBITED_CONTENT", Kind: llm.ContentFilter},
	{Reason: "IMAGE_RECITATION", Kind: llm.ContentFilter},
	{Reason: "MODEL_ARMOR", Kind: llm.ContentFilter},
	{Reason: "ESCALATION", Kind: llm.ContentFilter},
	{Reason: "PUP_LIMITED_DISABLED", Kind: llm.ContentFilter},
	{Reason: "MALFORMED_FUNCTION_CALL", Kind: llm.Malformed},
	{Reason: "UNEXPECTED_TOOL_CALL", Kind: llm.Malformed},
	{Reason: "TOO_MANY_TOOL_CALLS", Kind: llm.Malformed},
	{Reason: "MALFORMED_RESPONSE", Kind: llm.Malformed},
	{Reason: "OTHER", Kind: llm.Other},
	{Reason: "OTHER", Kind: llm.Pause},
	{Reason: "CONTINUATION", Kind: llm.Pause},
	{Reason: "IMAGE_OTHER", Kind: llm.Other},
	{Reason: "NO_IMAGE", Kind: llm.Other},
}

// missingSignature is the finish reason of a request without a thought signature that the model requires.
const missingSignature = "MISSING_THOUGHT_SIGNATURE"

// stop returns the neutral stop of a choice.
func (c *choice) stop() llm.Stop {
	s := llm.Stop{Raw: c.finish, Explanation: c.message}
	if c.blocked {
		s.Kind, s.Category = llm.PromptBlocked, c.finish
		return s
	}
	s.Kind, _ = stops.Kind(c.finish)
	if s.Kind == llm.EndTurn && c.calls > 0 {
		s.Kind = llm.ToolUse // calls end with STOP too, perhaps in a later event (GEM-15)
	}
	return s
}

// reportStop reports what the finish reason cannot express.
func reportStop(c *llm.Choice, report *llm.Report) {
	s, path := c.Stop, codec.At("choices", c.Index)+".stop"
	kind, mine := stops.Kind(s.Raw)
	lossy := stops.IsLossy(s.Kind) && s.Kind != llm.ToolUse || s.Kind == llm.Other && s.Raw != ""
	if lossy && (!mine || kind != s.Kind) {
		report.Approximate(path+".kind", "stop_reason.lossy", string(s.Kind)+" is written as "+finishReason(s))
	}
	if s.Category != "" {
		report.Drop(path+".category", "stop_reason.lossy", "a refusal has no category here")
	}
}

// blockReasons lists the reasons for which a prompt is blocked.
var blockReasons = map[string]bool{
	"SAFETY": true, "OTHER": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "IMAGE_SAFETY": true,
	"MODEL_ARMOR": true, "JAILBREAK": true,
}

// finishReason returns the finish reason of a neutral stop.
func finishReason(s llm.Stop) string {
	if k, ok := stops.Kind(s.Raw); ok && (k == s.Kind || k == llm.EndTurn && s.Kind == llm.ToolUse) {
		return s.Raw // it came from this protocol
	}
	if f, ok := stops.Reason(s.Kind); ok {
		return f
	}
	return "OTHER"
}

func blockReason(s llm.Stop) string {
	if blockReasons[s.Raw] {
		return s.Raw
	}
	return "OTHER"
}
