package openaichat

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// FinishReason says why a choice ended. It is an open set.
type FinishReason string

// The finish reasons. FinishFunctionCall is deprecated.
const (
	FinishStop          FinishReason = "stop"
	FinishLength        FinishReason = "length"
	FinishToolCalls     FinishReason = "tool_calls"
	FinishContentFilter FinishReason = "content_filter"
	FinishFunctionCall  FinishReason = "function_call"
)

// stops are the finish reasons. Several kinds share a reason, and several reasons a kind.
var stops = codec.Stops{
	{Reason: string(FinishStop), Kind: llm.EndTurn},
	{Reason: string(FinishStop), Kind: llm.StopSequence},
	{Reason: string(FinishStop), Kind: llm.Malformed}, // a gateway's client gets an error instead
	{Reason: string(FinishLength), Kind: llm.MaxTokens},
	{Reason: string(FinishLength), Kind: llm.ContextWindow},
	{Reason: string(FinishLength), Kind: llm.Pause},
	{Reason: string(FinishToolCalls), Kind: llm.ToolUse},
	{Reason: string(FinishFunctionCall), Kind: llm.ToolUse},
	{Reason: string(FinishContentFilter), Kind: llm.ContentFilter},
	{Reason: string(FinishContentFilter), Kind: llm.Refused},
	{Reason: string(FinishContentFilter), Kind: llm.PromptBlocked},

	// Words of other servers (CST-22).
	{Reason: "end_turn", Kind: llm.EndTurn},
	{Reason: "eos", Kind: llm.EndTurn},
	{Reason: "stop_sequence", Kind: llm.EndTurn},
	{Reason: "max_tokens", Kind: llm.MaxTokens},
	{Reason: "incomplete", Kind: llm.MaxTokens},
	{Reason: "tool_use", Kind: llm.ToolUse},
	{Reason: "safety", Kind: llm.ContentFilter},
	{Reason: "malformed_function_call", Kind: llm.Malformed},
	{Reason: "malformed_tool_call", Kind: llm.Malformed},
	{Reason: "malformed_response", Kind: llm.Malformed},
	{Reason: "unexpected_tool_call", Kind: llm.Malformed},
	{Reason: "too_many_tool_calls", Kind: llm.Malformed},
}

// isKind reports whether a finish reason is of a kind.
func isKind(f FinishReason, kind llm.StopKind) bool {
	k, ok := stops.Kind(string(f))
	return ok && k == kind
}

// isCut reports whether a finish reason means that the response was cut off.
// Missing arguments are then unknown, not empty (CST-39).
func isCut(f FinishReason) bool { return f == FinishLength || f == FinishContentFilter }

// stopOf decodes a finish reason. A plain stop behind a tool call becomes
// ToolUse; ToolUse without a call becomes EndTurn (INV-12).
func stopOf(reason FinishReason, called, refused bool) llm.Stop {
	kind, ok := stops.Kind(string(reason))
	if !ok {
		kind, _ = stops.Kind(strings.ToLower(string(reason)))
	}
	switch {
	case (kind == llm.EndTurn || kind == llm.Other) && called:
		kind = llm.ToolUse
	case kind == llm.ToolUse && !called:
		kind = llm.EndTurn
	case kind == llm.EndTurn && refused:
		kind = llm.Refused
	}
	return llm.Stop{Kind: kind, Raw: string(reason)}
}

// finishOf encodes a stop. A refusal that has text is a plain stop, because the
// text has its own member. Behind a call a plain stop becomes tool_calls, and
// without one tool_calls becomes stop (INV-12).
func finishOf(s llm.Stop, refused, called, legacy bool) FinishReason {
	reason, ok := stops.Reason(s.Kind)
	f := FinishReason(reason)
	switch {
	case s.Kind == llm.Refused && refused:
		f = FinishStop
	case !ok && s.Raw != "":
		f = FinishReason(strings.ToLower(s.Raw)) // an unknown reason must not look like a normal end
	case !ok:
		f = FinishStop
	}
	switch {
	case (f == FinishStop || f == FinishToolCalls) && called && legacy:
		return FinishFunctionCall
	case f == FinishStop && called:
		return FinishToolCalls
	case f == FinishToolCalls && !called:
		return FinishStop
	}
	return f
}
