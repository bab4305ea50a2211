package openairesponses

import (
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// stops are the reasons of an incomplete response. The protocol has no finish reason for a complete one.
var stops = codec.Stops{
	{Reason: "max_output_tokens", Kind: llm.MaxTokens},
	{Reason: "max_output_tokens", Kind: llm.ContextWindow},
	{Reason: "max_output_tokens", Kind: llm.Pause},
	{Reason: "content_filter", Kind: llm.ContentFilter},
	{Reason: "content_filter", Kind: llm.PromptBlocked},
	{Reason: "content_filter", Kind: llm.Refused},
}

// stop derives the stop reason from status, details and items, because the
// protocol has no finish reason.
func (d *streamDecoder) stop(s *snapshot) llm.Stop {
	status, reason := wire.Scalar(s.Status), s.reason()
	switch {
	case status == "incomplete" && reason == "": // RSP-25
		return llm.Stop{Kind: llm.MaxTokens, Raw: status}
	case status == "incomplete":
		kind, _ := stops.Kind(reason)
		return llm.Stop{Kind: kind, Raw: reason}
	case d.called:
		return llm.Stop{Kind: llm.ToolUse, Raw: status}
	case d.refused:
		return llm.Stop{Kind: llm.Refused, Raw: status}
	}
	return llm.Stop{Kind: llm.EndTurn, Raw: status}
}

// outcome is the status of a response.
type outcome struct {
	status string
	reason string // why it is incomplete
	err    *llm.Error
}

// outcome derives the status from the stop reason. There is no status for a stop
// sequence or a pause.
func (s *streamEncoder) outcome() outcome {
	if reason, ok := stops.Reason(s.stop.Kind); ok && (s.stop.Kind != llm.Refused || !s.refused()) {
		return outcome{status: "incomplete", reason: reason}
	}
	switch s.stop.Kind {
	case llm.Malformed:
		return outcome{status: "failed", err: &llm.Error{Kind: llm.Upstream, Code: "server_error",
			Message: "the model has called a tool in a form that cannot be read (" + s.stop.Raw + ")"}}
	case llm.Other:
		if s.stop.Raw != "" { // an unknown reason must not look like a normal end, GEM-14
			return outcome{status: "failed", err: &llm.Error{Kind: llm.Upstream, Code: "server_error",
				Message: "the model stopped for a reason that has no word here (" + s.stop.Raw + ")"}}
		}
	default:
	}
	return outcome{status: "completed"}
}

// refused reports whether the response is a refusal with text.
func (s *streamEncoder) refused() bool {
	for _, it := range s.items {
		for _, p := range it.parts {
			if p.typ == "refusal" {
				return true
			}
		}
	}
	return false
}
