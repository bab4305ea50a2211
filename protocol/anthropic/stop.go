package anthropic

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// stopKinds are the neutral names of the stop reasons, and back. Several kinds
// share a reason, so the second map is not the first one turned round.
var (
	stopKinds = map[string]llm.StopKind{
		"end_turn":                      llm.EndTurn,
		"max_tokens":                    llm.MaxTokens,
		"stop_sequence":                 llm.StopSequence,
		"tool_use":                      llm.ToolUse,
		"pause_turn":                    llm.Pause,
		"refusal":                       llm.Refused,
		"model_context_window_exceeded": llm.ContextWindow,
	}
	stopReasons = map[llm.StopKind]string{
		llm.EndTurn:       "end_turn",
		llm.MaxTokens:     "max_tokens",
		llm.StopSequence:  "stop_sequence",
		llm.ToolUse:       "tool_use",
		llm.Pause:         "pause_turn",
		llm.Refused:       "refusal",
		llm.ContentFilter: "refusal",
		llm.PromptBlocked: "refusal",
		llm.ContextWindow: "model_context_window_exceeded",
	}
)

// decodeStop reads why an answer ended. An answer that came to its end without a
// reason ended its turn.
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

// encodeStop is the protocol's word for why an answer ended. A reason that it has
// no word for is given in the source's own, so that it does not look like a clean
// end; clients take words that they do not know. ANT-24
func encodeStop(s llm.Stop, called bool) string {
	reason, ok := stopReasons[s.Kind]
	switch {
	case s.Kind == llm.ToolUse && !called:
		return "end_turn"
	case s.Kind == llm.EndTurn && called:
		return "tool_use"
	case ok:
		return reason
	}
	word := strings.ToLower(s.Raw)
	if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "end_turn"
	}
	return word
}

// lossyStops are the kinds that share another kind's word, or have none.
var lossyStops = []llm.StopKind{llm.ContentFilter, llm.PromptBlocked, llm.Malformed, llm.Other}

// reportStop says what of a stop the client does not get.
func reportStop(reason string, s llm.Stop, report *llm.Report) {
	if slices.Contains(lossyStops, s.Kind) {
		report.Approximate("stop.kind", "stop_reason.lossy", string(s.Kind)+" is written as "+reason)
	}
	if reason != "refusal" && s.Category+s.Explanation != "" {
		report.Drop("stop.explanation", "stop_reason.lossy", "only a refusal is explained")
	}
}

// stopDetails says more about a refusal; other reasons have none.
func stopDetails(reason string, s llm.Stop) wire.Opt[StopDetails] {
	if reason != "refusal" {
		return wire.Opt[StopDetails]{}
	}
	d := StopDetails{Type: wire.Some("refusal"), Category: wire.Null[string](), Explanation: wire.Null[wire.Text]()}
	if s.Category != "" {
		d.Category = wire.Some(s.Category)
	}
	if s.Explanation != "" {
		d.Explanation = wire.Some(wire.NewText(s.Explanation))
	}
	return wire.Some(d)
}
