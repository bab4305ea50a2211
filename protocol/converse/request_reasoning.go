package converse

import (
	"cmp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// family is a group of models that take the same additionalModelRequestFields.
type family int

// The families. The id of a profile or of a deployment may not tell the family; its model
// is then other.
const (
	other family = iota
	claude
	nova
	gptOSS
)

// maker returns the protocol of a model's vendor. The signatures of Claude are those of
// Anthropic's own protocol.
func maker(model string) protocol.Name {
	if isClaude(strings.ToLower(model)) {
		return protocol.Anthropic
	}
	return ""
}

// isClaude reports whether an id in lower case is that of a Claude model.
func isClaude(model string) bool {
	return strings.Contains(model, "anthropic.") || strings.Contains(model, "claude")
}

// familyOf returns the family of a model by its id.
func (e *requestEncoder) familyOf(model string) family {
	model = strings.ToLower(model)
	switch g := e.Target.Gates; {
	case g.Adaptive, g.Budget, isClaude(model):
		return claude
	case strings.Contains(model, "amazon.nova"):
		return nova
	case strings.Contains(model, "openai.gpt-oss"):
		return gptOSS
	}
	return other
}

// efforts lists the effort levels of outputConfig, and fewEfforts those of models that have
// a member of their own for it.
var (
	efforts    = []string{"low", "medium", "high", "xhigh", "max"}
	fewEfforts = []string{"low", "medium", "high"}
)

// reasoning encodes how much the model reasons. It needs the tool choice.
func (e *requestEncoder) reasoning() {
	r := e.Req.Reasoning
	codec.DropExt(e.Report, "reasoning", r.Ext, protocol.Converse)
	if e.Home && r.Ext.Protocol == own || e.Home && r.Mode == "" && r.Budget == nil {
		e.homeReasoning(r)
		return
	}
	off := blockcodec.ThinkingOff(r)
	shown := r.Show != "" && r.Show != "none"
	asked := r.Mode != "" || r.Effort != "" || r.Budget != nil || shown
	if !asked {
		return
	}
	if r.Effort != "" && !slices.Contains(codec.Efforts(), r.Effort) {
		e.Report.Drop("reasoning.effort", "effort.unknown", "there is no effort "+r.Effort)
		return
	}
	switch {
	case off:
		e.reasoningOff()
	case e.family == claude:
		e.thinking(r)
		e.display(r.Show)
	default:
		e.effort(r)
		e.DropIf(r.Show == "none", "reasoning.show", "reasoning.show_unsupported")
	}
}

// display encodes how much of its thinking Claude shows. It shows a summary by default.
func (e *requestEncoder) display(show string) {
	t := e.out.AdditionalFields.Ptr()
	if t == nil || !t.Thinking.IsSet() {
		return
	}
	switch show {
	case "none":
		t.Thinking.Ptr().Extra.Set("display", blockcodec.Quoted("omitted"))
	case "full":
		e.Report.Approximate("reasoning.show", "reasoning.summary", "a summary is the most that is shown")
	}
}

// homeReasoning writes the settings of a client of this protocol.
func (e *requestEncoder) homeReasoning(r llm.Reasoning) {
	if r.Mode != "" {
		t := Thinking{Type: wire.Some(blockcodec.ThinkingTypes[r.Mode]), BudgetTokens: wire.IntFromPtr(r.Budget), Extra: kept.Extra(r.Ext)}
		e.additional().Thinking = wire.Some(t)
	}
	if r.Effort != "" {
		e.outputConfig().Effort = wire.Some(r.Effort)
	}
}

// reasoningOff switches reasoning off where the model has a switch.
func (e *requestEncoder) reasoningOff() {
	least := e.Target.Gates.LeastReasoning
	switch {
	case least == "between_tools":
		e.Report.Approximate("reasoning", "effort.cannot_be_off", "the model always thinks; between_tools is sent")
		e.additional().Thinking = wire.Some(Thinking{Type: wire.Some(least)})
	case least != "":
		e.Report.Approximate("reasoning", "effort.cannot_be_off", "the model always thinks; "+least+" is sent")
		e.outputConfig().Effort = wire.Some(least)
	case e.family == claude:
		e.additional().Thinking = wire.Some(Thinking{Type: wire.Some("disabled")})
	case e.family == nova:
		e.additional().Extra.Set("reasoningConfig", wire.Raw(`{"type":"disabled"}`))
	case e.family == gptOSS:
		e.Report.Approximate("reasoning", "effort.cannot_be_off", "the model always thinks; low is sent")
		e.additional().Extra.Set("reasoning_effort", blockcodec.Quoted("low"))
	default:
		e.Report.Drop("reasoning", "reasoning.default", "nothing is known that switches the model's reasoning off")
	}
}

// thinking encodes the thinking of Claude.
func (e *requestEncoder) thinking(r llm.Reasoning) {
	if !e.CanThink(!e.Target.Gates.Adaptive) {
		return
	}
	if e.Target.Gates.Adaptive {
		typ := "adaptive"
		if r.Mode == "between_tools" {
			typ = r.Mode
		}
		e.additional().Thinking = wire.Some(Thinking{Type: wire.Some(typ)})
		e.level(r, e.Target.Gates.Efforts)
		return
	}
	limit := e.Req.Output.MaxTokens
	if blockcodec.Value(limit) == 0 {
		limit = nil
	}
	n, ok := e.Budget(r, limit, "maxTokens")
	if !ok {
		return
	}
	e.additional().Thinking = wire.Some(Thinking{Type: wire.Some("enabled"), BudgetTokens: wire.Some(wire.Int(n))})
}

// level writes the effort level of outputConfig.
func (e *requestEncoder) level(r llm.Reasoning, known []string) {
	if len(known) == 0 {
		known = efforts
	}
	if level := e.nearest(r, known); level != "" {
		e.outputConfig().Effort = wire.Some(level)
	}
}

// effort encodes an effort level for models other than Claude.
func (e *requestEncoder) effort(r llm.Reasoning) {
	switch e.family {
	case nova:
		level := cmp.Or(e.nearest(r, fewEfforts), "medium")
		e.additional().Extra.Set("reasoningConfig", wire.Raw(`{"type":"enabled","maxReasoningEffort":"`+level+`"}`))
	case gptOSS:
		if level := e.nearest(r, fewEfforts); level != "" {
			e.additional().Extra.Set("reasoning_effort", blockcodec.Quoted(level))
		}
	default:
		e.level(r, e.Target.Gates.Efforts)
		if e.out.OutputConfig.Value().Effort.Value() == "" && r.Mode != "" {
			e.Report.Drop("reasoning", "reasoning.default", "nothing is known that switches the model's reasoning on")
		}
	}
}

// nearest returns the level that a request asks for, or the nearest one that is known. It
// returns "" if the request has neither a level nor a budget.
func (e *requestEncoder) nearest(r llm.Reasoning, known []string) string {
	level := r.Effort
	if n := blockcodec.Value(r.Budget); level == "" && n > 0 {
		level = codec.EffortOfBudget(max(n, blockcodec.MinBudget)) // low is the lowest level
		e.Report.Approximate("reasoning.budget", "effort.from_budget", "the model takes a level of effort: "+level)
	}
	fit := level
	if level != "" && !slices.Contains(known, level) {
		fit = codec.NearestEffort(level, known)
		e.Report.Approximate("reasoning.effort", "effort.nearest", level+" is sent as "+fit)
	}
	return fit
}
