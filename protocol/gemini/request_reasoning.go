package gemini

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// budgets maps efforts to thinking budgets. Converting back and forth gives the
// same effort.
var budgets = map[string]int64{
	"minimal": 512, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 65536,
}

// thinkingLevels maps efforts to thinking levels. Only some models have one above high.
var thinkingLevels = map[string]string{
	"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH",
}

// thinking encodes the amount of thinking: as a level from the third model
// generation on, as a budget before.
func (e *requestEncoder) thinking() wire.Opt[ThinkingConfig] {
	g := &e.req.Reasoning
	t := ThinkingConfig{Extra: extra(g.Ext, "")}
	codec.DropExt(e.report, "reasoning", g.Ext, protocol.Gemini)
	if g.Mode == "between_tools" {
		e.report.Approximate("reasoning.mode", "reasoning.default", "the model decides when it thinks")
	}
	if g.Show == "full" {
		e.report.Approximate("reasoning.show", "reasoning.summary", "a summary is the most that is shown")
	}
	switch {
	case g.Ext.Protocol == own:
		if g.Budget != nil {
			t.ThinkingBudget = wire.Some(wire.Int(*g.Budget))
		}
		if g.Effort != "" {
			t.ThinkingLevel = wire.Some(strings.ToUpper(g.Effort))
		}
	case e.byBudget():
		e.budget(&t)
	default:
		e.level(&t)
	}
	switch {
	case g.Show == "none":
		t.IncludeThoughts = wire.Some(false)
	case g.Show != "", e.thinks():
		t.IncludeThoughts = wire.Some(true)
	}
	if g.Ext.Protocol == own && g.Show == "" {
		t.IncludeThoughts = wire.Opt[bool]{}
	}
	if body, _ := wire.Marshal(&t); string(body) == "{}" {
		return wire.Opt[ThinkingConfig]{}
	}
	return wire.Some(t)
}

func (e *requestEncoder) byBudget() bool {
	n := generation(e.target.Model)
	return e.target.Gates.Budget || n > 0 && n < 3
}

// thinks reports whether the client requested thinking. Other protocols then show
// thoughts by default.
func (e *requestEncoder) thinks() bool {
	g := &e.req.Reasoning
	switch {
	case g.Mode == "off", g.Effort == "none":
		return false
	case g.Budget != nil:
		return *g.Budget != 0
	}
	return g.Mode != "" || g.Effort != ""
}

// off reports whether thinking is switched off.
func off(g *llm.Reasoning) bool {
	return g.Mode == "off" || g.Effort == "none" || g.Budget != nil && *g.Budget == 0
}

func (e *requestEncoder) budget(t *ThinkingConfig) {
	g := &e.req.Reasoning
	pro := strings.Contains(e.target.Model, "pro")
	lowest, highest := int64(0), int64(24576)
	if pro {
		lowest, highest = 128, 32768
	}
	var want int64
	switch {
	case off(g):
		want = 0
	case g.Budget != nil && *g.Budget < 0:
		t.ThinkingBudget = wire.Some(wire.Int(-1))
		return
	case g.Budget != nil:
		want = *g.Budget
	case g.Effort != "":
		want = budgets[g.Effort]
		if want == 0 {
			e.report.Drop("reasoning.effort", "effort.unknown", "there is no effort called "+g.Effort)
			return
		}
		e.report.Approximate("reasoning.effort", "effort.to_budget", "the model takes a number of tokens")
	default:
		return
	}
	if sent := min(max(want, lowest), highest); sent != want {
		e.report.Approximate("reasoning", "budget.clamped", "the model thinks between "+string(wire.Int(lowest))+" and "+string(wire.Int(highest))+" tokens")
		want = sent
	}
	t.ThinkingBudget = wire.Some(wire.Int(want))
}

func (e *requestEncoder) level(t *ThinkingConfig) {
	g := &e.req.Reasoning
	effort := g.Effort
	switch {
	case off(g):
		effort = "minimal"
		e.report.Approximate("reasoning", "effort.cannot_be_off", "the model always reasons; the lowest level is requested")
	case effort == "" && g.Budget != nil && *g.Budget > 0:
		effort = codec.EffortOfBudget(min(*g.Budget, budgets["high"])) // there is no level above high
		e.report.Approximate("reasoning.budget", "effort.from_budget", "the model takes a level and no number of tokens")
	case effort == "":
		return
	}
	level, ok := thinkingLevels[effort]
	if !ok {
		e.report.Drop("reasoning.effort", "effort.unknown", "there is no effort called "+effort)
		return
	}
	// Not every model accepts these two; all accept low and high.
	if known := e.target.Gates.Efforts; effort == "minimal" && !slices.Contains(known, effort) {
		level = "LOW"
	} else if effort == "medium" && len(known) > 0 && !slices.Contains(known, effort) {
		level = "HIGH"
	} else if (effort == "xhigh" || effort == "max") && slices.Contains(known, "xhigh") {
		level = "XHIGH"
	}
	if !strings.EqualFold(level, effort) && !off(g) {
		e.report.Approximate("reasoning.effort", "effort.nearest", "the nearest level is "+level)
	}
	t.ThinkingLevel = wire.Some(level)
}
