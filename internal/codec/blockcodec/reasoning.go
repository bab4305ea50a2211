package blockcodec

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/llm"
)

// MinBudget is the smallest thinking budget that Claude accepts.
const MinBudget = 1024

// budgets maps effort levels to budgets for models that take a budget. Each lies within the range of
// [codec.EffortOfBudget], so that converting back and forth changes nothing.
var budgets = map[string]int64{
	"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 65536,
}

// ThinkingModes maps types of thinking to neutral modes, and ThinkingTypes is the reverse.
var (
	ThinkingModes = map[string]string{"enabled": "on", "adaptive": "auto", "disabled": "off", "between_tools": "between_tools"}
	ThinkingTypes = map[string]string{"on": "enabled", "auto": "adaptive", "off": "disabled", "between_tools": "between_tools"}
)

// ThinkingOff reports whether the request switches reasoning off.
func ThinkingOff(r llm.Reasoning) bool {
	return r.Mode == "off" || r.Effort == "none" || r.Budget != nil && *r.Budget == 0
}

// Budget returns the thinking budget for a model that takes one, or false if the output limit leaves no room for it.
// limit is nil if there is none, and name is its name in the protocol. CRQ-22
func (e *RequestEncoder) Budget(r llm.Reasoning, limit *int64, name string) (n int64, ok bool) {
	want := Value(r.Budget)
	exact := want > 0
	if !exact {
		want = cmp.Or(budgets[r.Effort], budgets["medium"])
	}
	n = max(want, MinBudget)
	if limit != nil && (!exact || n >= *limit) {
		n = max(MinBudget, min(n, *limit/2)) // the rest is for the output
	}
	switch {
	case limit != nil && n >= *limit:
		e.Report.Drop("reasoning", "reasoning.no_room", name+" leaves no room for thinking")
		return 0, false
	case !exact:
		e.Report.Approximate("reasoning.effort", "effort.to_budget", "the model takes a budget of tokens")
	case n != want:
		e.Report.Approximate("reasoning.budget", "budget.clamped", "a budget is at least 1024 tokens and less than "+name)
	}
	return n, true
}

// CanThink reports whether a model can think before its response. unsigned says that it rejects earlier calls without
// signed thinking.
func (e *RequestEncoder) CanThink(unsigned bool) bool {
	switch {
	case e.Forced: // CRQ-23
		e.Report.Drop("reasoning", "reasoning.forced_tool", "a model that must call a tool cannot think first")
	case Prefilled(e.Req.Turns):
		e.Report.Drop("reasoning", "reasoning.prefill", "a model that continues an assistant turn cannot think first")
	case unsigned && UnsignedLoop(e.Req.Turns, string(e.Own)):
		e.Report.Drop("reasoning", "reasoning.unsigned_history", "the call of this tool result came without signed thinking")
	default:
		return true
	}
	return false
}
