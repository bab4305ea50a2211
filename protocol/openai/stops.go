package openai

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
)

// ReportStop reports what a stop cannot express. refused says that the response has the text of its refusal.
func ReportStop(stops codec.Stops, s llm.Stop, refused bool, report *llm.Report) {
	complete := s.Kind == llm.EndTurn || s.Kind == llm.ToolUse || s.Kind == llm.Refused && refused
	if !complete && stops.IsLossy(s.Kind) {
		report.Approximate("choices.stop", "stop_reason.lossy", "the reason "+string(s.Kind)+" has no word of its own here")
	}
	if s.Category != "" {
		report.Drop("choices.stop.category", "stop_reason.lossy", "the category of a refusal has no field")
	}
	if s.Explanation != "" {
		report.Drop("choices.stop.explanation", "stop_reason.lossy", "the explanation of a refusal has no field")
	}
}

// Effort returns the level of reasoning that a request asks for among those that the model knows, or "".
func Effort(r *llm.Reasoning, known []string, report *llm.Report) string {
	effort := r.Effort
	switch {
	case effort != "":
	case r.Mode == "off":
		effort = "none"
	case r.Budget != nil && *r.Budget >= 0:
		effort = codec.EffortOfBudget(*r.Budget)
		report.Approximate("reasoning.budget", "effort.from_budget", "a budget of "+strconv.FormatInt(*r.Budget, 10)+" tokens became the effort "+effort)
	case r.Mode != "" || r.Budget != nil:
		report.Approximate("reasoning.mode", "reasoning.default", "how much to think is left to the model")
	}
	nearest := codec.NearestEffort(effort, known)
	if nearest != effort {
		report.Approximate("reasoning.effort", "effort.nearest", "the model does not know the effort "+effort+"; "+nearest+" was sent")
	}
	return nearest
}
