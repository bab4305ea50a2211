package blockcodec

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// DecodeStop decodes a stop reason. A complete response without a reason is EndTurn.
func DecodeStop(table codec.Stops, reason string, called bool) llm.Stop {
	kind, _ := table.Kind(reason)
	switch {
	case called && (reason == "" || kind == llm.EndTurn):
		kind = llm.ToolUse
	case reason == "", kind == llm.ToolUse && !called:
		kind = llm.EndTurn
	}
	return llm.Stop{Kind: kind, Raw: reason}
}

// EncodeStop returns the stop reason of a neutral stop. A kind without a reason is sent in the source's own word, so
// that it does not look like a normal end; clients accept unknown words. ANT-24
func EncodeStop(table codec.Stops, s llm.Stop, called bool) string {
	end := llm.EndTurn
	if called {
		end = llm.ToolUse
	}
	if s.Kind == llm.EndTurn || s.Kind == llm.ToolUse {
		s = llm.Stop{Kind: end}
	}
	if kind, ok := table.Kind(s.Raw); ok && kind == s.Kind {
		return s.Raw // one of several reasons of the kind
	}
	if reason, ok := table.Reason(s.Kind); ok {
		return reason
	}
	word := strings.ToLower(s.Raw)
	if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") != "" {
		word, _ = table.Reason(end)
	}
	return word
}

// ReportStop reports what a stop reason cannot express. explained says that it has an explanation.
func ReportStop(table codec.Stops, reason string, s llm.Stop, explained bool, report *llm.Report) {
	if table.IsLossy(s.Kind) {
		report.Approximate("stop.kind", "stop_reason.lossy", string(s.Kind)+" is written as "+reason)
	}
	if !explained && s.Category+s.Explanation != "" {
		report.Drop("stop.explanation", "stop_reason.lossy", "the stop reason has no explanation")
	}
}
