package anthropic

import (
	"cmp"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/blockcodec"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func decodeThinking(meta llm.Meta, w *Block) *llm.Thought {
	t := &llm.Thought{Meta: meta}
	if text := w.Thinking.Value().String(); text != "" {
		t.Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}
	}
	if s := w.Signature.Value(); s != "" {
		if foreign, ok := protocol.Unwrap(s); ok {
			t.Seals = append(t.Seals, foreign...)
			return t
		}
		t.Seals = append(t.Seals, llm.Seal{Form: llm.Signature, Data: s, Origin: own})
	}
	return t
}

// thought encodes reasoning that Anthropic has signed. The API rejects any other.
// ANT-04, ANT-05, ANT-07
func (e *requestEncoder) thought(at string, t *llm.Thought) []wire.Raw {
	seal, ok := t.SealFor(own)
	if !ok {
		e.report.Drop(at, "reasoning.foreign", "only reasoning that Anthropic has signed can be sent back to it")
		return nil
	}
	return []wire.Raw{thoughtBlock(t, seal)}
}

// thoughtBlock encodes reasoning with Anthropic's seal, or without one.
func thoughtBlock(t *llm.Thought, seal llm.Seal) wire.Raw {
	w := Block{Extra: kept.Extra(t.Ext)}
	if seal.Form == llm.Redacted {
		w.Type, w.Data = wire.Some("redacted_thinking"), wire.Some(seal.Data)
	} else {
		w.Type, w.Thinking, w.Signature = wire.Some("thinking"), wire.Some(wire.NewText(thoughtText(t))), wire.Some(seal.Data)
	}
	raw, err := wire.Marshal(&w)
	if err != nil { // Anthropic's signatures are valid text, so this is not one
		w.Signature, w.Data = wire.Some(""), wire.Some("")
		raw, _ = wire.Marshal(&w)
	}
	return raw
}

func thoughtText(t *llm.Thought) string {
	parts := make([]string, 0, len(t.Parts))
	for _, p := range t.Parts {
		parts = append(parts, p.Text)
	}
	return strings.Join(parts, partBreak)
}

// thinkingModes maps types of thinking to neutral modes; thinkingTypes is
// the reverse.
var (
	thinkingModes = map[string]string{"enabled": "on", "adaptive": "auto", "disabled": "off", "between_tools": "between_tools"}
	thinkingTypes = map[string]string{"on": "enabled", "auto": "adaptive", "off": "disabled", "between_tools": "between_tools"}
)

// minBudget is the smallest thinking budget that the API accepts.
const minBudget = 1024

// efforts lists the effort levels of the protocol in ascending order.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// budgets maps effort levels to budgets for models that take a budget. Each lies within
// the range of [protocol.EffortOfBudget], so that converting back and forth changes
// nothing.
var budgets = map[string]int64{
	"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 65536,
}

// displayMark keeps how a client of this protocol wants thinking to be shown.
const displayMark = protocol.MarkPrefix + "display"

func (d *requestDecoder) reasoning() {
	r := &d.req.Reasoning
	c := d.wire.OutputConfig.Value()
	r.Effort = c.Effort.Value()
	kept.KeepRest(&d.req.Ext, "output_config", c.Extra)
	w, ok := d.wire.Thinking.Get()
	if !ok {
		return
	}
	r.Ext = kept.Ext(w.Extra)
	r.Ext.Protocol = own
	if r.Mode, ok = thinkingModes[w.Type.Value()]; !ok {
		d.fail("thinking.type", "want enabled, adaptive, disabled or between_tools")
		return
	}
	r.Budget = d.integer("thinking.budget_tokens", w.BudgetTokens)
	display, ok := w.Display.Get()
	if ok {
		kept.Mark(&r.Ext, "display", blockcodec.Quoted(display))
	}
	switch {
	case display == "omitted":
		r.Show = "none"
	case r.Mode != "off": // thinking is shown by default
		r.Show = "auto"
	}
}

// reasoning encodes thinking and effort. It needs max_tokens and the tool choice.
func (e *requestEncoder) reasoning() {
	r := e.req.Reasoning
	protocol.DropExt(e.report, "reasoning", r.Ext, protocol.Anthropic)
	off := r.Mode == "off" || r.Effort == "none" || r.Budget != nil && *r.Budget == 0
	shown := r.Show != "" && r.Show != "none"
	asked := r.Mode != "" || !e.home && (r.Effort != "" || r.Budget != nil || shown)
	gates := e.target.Gates
	switch {
	case off && gates.LeastReasoning != "":
		e.leastReasoning(r.Effort)
	case off:
		if r.Effort != "none" { // effort affects more than thinking
			e.effort(r.Effort)
		}
		e.thinking("disabled", 0)
		return
	case gates.Adaptive:
		e.adaptive(r, asked)
	case e.home && !gates.Budget:
		e.effort(r.Effort)
		if asked {
			e.thinking(thinkingTypes[r.Mode], blockcodec.Value(r.Budget))
		}
	case asked || r.Effort != "":
		e.budget(r)
	}
	e.thinkingConflicts()
}

// leastReasoning encodes what comes closest to no thinking on a model that always thinks.
func (e *requestEncoder) leastReasoning(effort string) {
	least := e.target.Gates.LeastReasoning
	e.report.Approximate("reasoning", "effort.cannot_be_off", "the model always thinks; "+least+" is sent")
	if least != "between_tools" {
		e.effort(least)
		return
	}
	if effort != "none" {
		e.effort(effort)
	}
	e.thinking(least, 0)
}

// adaptive encodes thinking for models that choose the amount themselves.
func (e *requestEncoder) adaptive(r llm.Reasoning, asked bool) {
	effort := r.Effort
	if n := blockcodec.Value(r.Budget); effort == "" && n > 0 {
		effort = protocol.EffortOfBudget(max(n, minBudget)) // low is the lowest level
		e.report.Approximate("reasoning.budget", "effort.from_budget", "the model takes a level of effort: "+effort)
	}
	e.effort(effort)
	switch {
	case r.Mode == "between_tools":
		e.thinking("between_tools", 0)
	case asked:
		e.thinking("adaptive", 0)
	}
}

// budget encodes thinking for models that take a budget. CRQ-22
func (e *requestEncoder) budget(r llm.Reasoning) {
	want := blockcodec.Value(r.Budget)
	exact := want > 0
	if !exact {
		want = cmp.Or(budgets[r.Effort], budgets["medium"])
	}
	n := max(want, minBudget)
	limit := blockcodec.Value(e.maxTokens)
	if e.defaulted && e.target.Gates.MaxOutput == 0 {
		limit += n // the client set no limit that includes thinking
		e.out.MaxTokens, e.maxTokens = wire.Some(wire.Int(limit)), &limit
	} else if !exact || n >= limit {
		n = max(minBudget, min(n, limit/2)) // the rest is for the output
	}
	switch {
	case n >= limit:
		e.report.Drop("reasoning", "reasoning.no_room", "max_tokens leaves no room for thinking")
		return
	case !exact:
		e.report.Approximate("reasoning.effort", "effort.to_budget", "the model takes a budget of tokens")
	case n != want:
		e.report.Approximate("reasoning.budget", "budget.clamped", "a budget is at least 1024 tokens and less than max_tokens")
	}
	e.thinking("enabled", n)
}

// effort encodes an effort level that the model accepts.
func (e *requestEncoder) effort(level string) {
	if level == "" {
		return
	}
	fit := level
	if fit == "minimal" {
		fit = "low"
	}
	if known := e.target.Gates.Efforts; len(known) > 0 && !slices.Contains(known, fit) {
		fit = nearestEffort(fit, known)
	}
	if fit != level {
		e.report.Approximate("reasoning.effort", "effort.nearest", level+" is sent as "+fit)
	}
	c := e.outputConfig()
	c.Effort = wire.NonZero(fit)
}

// nearestEffort returns the next lower level that is accepted, otherwise the next
// higher one.
func nearestEffort(level string, known []string) string {
	at := slices.Index(efforts, level)
	for i := at; i >= 0; i-- {
		if slices.Contains(known, efforts[i]) {
			return efforts[i]
		}
	}
	for i := max(at, 0); i < len(efforts); i++ {
		if slices.Contains(known, efforts[i]) {
			return efforts[i]
		}
	}
	return ""
}

func (e *requestEncoder) thinking(typ string, budget int64) {
	r := e.req.Reasoning
	t := Thinking{Type: wire.Some(typ)}
	if budget > 0 {
		t.BudgetTokens = wire.Some(wire.Int(budget))
	}
	if r.Ext.Protocol == own {
		t.Display = wire.NonZero(strings.Trim(string(r.Ext.Get(displayMark)), `"`))
		t.Extra = kept.Extra(blockcodec.Without(r.Ext, displayMark))
	} else if typ != "disabled" {
		t.Display = e.display(r.Show)
	}
	e.out.Thinking = wire.Some(t)
}

// display returns how much of its thinking the model shows.
func (e *requestEncoder) display(show string) wire.Opt[string] {
	switch show {
	case "":
		return wire.Opt[string]{}
	case "none":
		return wire.Some("omitted")
	case "full":
		e.report.Approximate("reasoning.show", "reasoning.summary", "a summary is the most that is shown")
	}
	return wire.Some("summarized")
}

// thinkingConflicts removes thinking where the API would reject it.
func (e *requestEncoder) thinkingConflicts() {
	typ := e.out.Thinking.Value().Type.Value()
	switch {
	case typ == "":
	case e.forced: // CRQ-23
		e.report.Drop("reasoning", "reasoning.forced_tool", "a model that must call a tool cannot think first")
		e.out.Thinking = wire.Opt[Thinking]{}
	case typ != "disabled" && blockcodec.Prefilled(e.req.Turns):
		e.report.Drop("reasoning", "reasoning.prefill", "a model that continues an assistant turn cannot think first")
		e.out.Thinking = wire.Opt[Thinking]{}
	case typ == "enabled" && blockcodec.UnsignedLoop(e.req.Turns, own):
		e.report.Drop("reasoning", "reasoning.unsigned_history", "the call of this tool result came without signed thinking")
		e.out.Thinking = wire.Opt[Thinking]{}
	}
}
