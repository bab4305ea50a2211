package anthropic

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

func decodeThinking(meta llm.Meta, w *Block) *llm.Thought {
	t := &llm.Thought{Meta: meta}
	if text := w.Thinking.Value().String(); text != "" {
		t.Parts = []llm.ThoughtPart{{Form: llm.FullReasoning, Text: text}}
	}
	if s := w.Signature.Value(); s != "" {
		if foreign, ok := codec.Unwrap(s); ok {
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
		e.Report.Drop(at, "reasoning.foreign", "only reasoning that Anthropic has signed can be sent back to it")
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
		w.Type, w.Thinking, w.Signature = wire.Some("thinking"), wire.Some(wire.NewText(blockcodec.ThoughtText(t))), wire.Some(seal.Data)
	}
	raw, err := wire.Marshal(&w)
	if err != nil { // Anthropic's signatures are valid text, so this is not one
		w.Signature, w.Data = wire.Some(""), wire.Some("")
		raw, _ = wire.Marshal(&w)
	}
	return raw
}

// efforts lists the effort levels of the protocol in ascending order.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// displayMark keeps how a client of this protocol wants thinking to be shown.
const displayMark = codec.MarkPrefix + "display"

func (d *requestDecoder) reasoning() {
	r := &d.Req.Reasoning
	c := d.wire.OutputConfig.Value()
	r.Effort = c.Effort.Value()
	kept.KeepRest(&d.Req.Ext, "output_config", c.Extra)
	w, ok := d.wire.Thinking.Get()
	if !ok {
		return
	}
	r.Ext = kept.Ext(w.Extra)
	r.Ext.Protocol = own
	if r.Mode, ok = blockcodec.ThinkingModes[w.Type.Value()]; !ok {
		d.Fail("thinking.type", "want enabled, adaptive, disabled or between_tools")
		return
	}
	r.Budget = d.Integer("thinking.budget_tokens", w.BudgetTokens)
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
	r := e.Req.Reasoning
	codec.DropExt(e.Report, "reasoning", r.Ext, protocol.Anthropic)
	off := blockcodec.ThinkingOff(r)
	shown := r.Show != "" && r.Show != "none"
	asked := r.Mode != "" || !e.Home && (r.Effort != "" || r.Budget != nil || shown)
	gates := e.Target.Gates
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
	case e.Home && !gates.Budget:
		e.effort(r.Effort)
		if asked {
			e.thinking(blockcodec.ThinkingTypes[r.Mode], blockcodec.Value(r.Budget))
		}
	case asked || r.Effort != "":
		e.budget(r)
	}
	e.thinkingConflicts()
}

// leastReasoning encodes what comes closest to no thinking on a model that always thinks.
func (e *requestEncoder) leastReasoning(effort string) {
	least := e.Target.Gates.LeastReasoning
	e.Report.Approximate("reasoning", "effort.cannot_be_off", "the model always thinks; "+least+" is sent")
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
		effort = codec.EffortOfBudget(max(n, blockcodec.MinBudget)) // low is the lowest level
		e.Report.Approximate("reasoning.budget", "effort.from_budget", "the model takes a level of effort: "+effort)
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
	limit := e.maxTokens
	open := e.defaulted && e.Target.Gates.MaxOutput == 0 // the client set no limit that includes thinking
	if open {
		limit = nil
	}
	n, ok := e.Budget(r, limit, "max_tokens")
	if !ok {
		return
	}
	if open {
		*e.maxTokens += n
		e.out.MaxTokens = wire.Some(wire.Int(*e.maxTokens))
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
	if known := e.Target.Gates.Efforts; len(known) > 0 && !slices.Contains(known, fit) {
		fit = nearestEffort(fit, known)
	}
	if fit != level {
		e.Report.Approximate("reasoning.effort", "effort.nearest", level+" is sent as "+fit)
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
	r := e.Req.Reasoning
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
		e.Report.Approximate("reasoning.show", "reasoning.summary", "a summary is the most that is shown")
	}
	return wire.Some("summarized")
}

// thinkingConflicts removes thinking where the API would reject it.
func (e *requestEncoder) thinkingConflicts() {
	typ := e.out.Thinking.Value().Type.Value()
	switch typ {
	case "":
	case "disabled":
		if e.Forced {
			e.CanThink(false)
			e.out.Thinking = wire.Opt[Thinking]{}
		}
	default:
		if !e.CanThink(typ == "enabled") {
			e.out.Thinking = wire.Opt[Thinking]{}
		}
	}
}
