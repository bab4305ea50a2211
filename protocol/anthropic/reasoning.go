package anthropic

import (
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// thinkingModes are the neutral modes of the types of thinking, and back.
var (
	thinkingModes = map[string]string{"enabled": "on", "adaptive": "auto", "disabled": "off", "between_tools": "between_tools"}
	thinkingTypes = map[string]string{"on": "enabled", "auto": "adaptive", "off": "disabled", "between_tools": "between_tools"}
)

// minBudget is the least that the vendor lets a model think.
const minBudget = 1024

// efforts are the levels of effort that the protocol has, in order.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// budgets are the tokens that stand for a level of effort on models that count
// them. from is where the level's band begins, so that a level survives the way to
// a budget and back.
var budgets = []struct {
	effort       string
	from, tokens int64
}{
	{"minimal", 0, 1024},
	{"low", 1024, 2048},
	{"medium", 4096, 8192},
	{"high", 12288, 16384},
	{"xhigh", 24576, 32768},
	{"max", 49152, 65536},
}

// displayMark is the note that says how a client of this protocol wants thinking
// shown.
const displayMark = protocol.MarkPrefix + "display"

func (d *requestDecoder) reasoning() {
	r := &d.req.Reasoning
	c := d.wire.OutputConfig.Value()
	r.Effort = c.Effort.Value()
	keepRest(&d.req.Ext, "output_config", c.Extra)
	w, ok := d.wire.Thinking.Get()
	if !ok {
		return
	}
	r.Ext = extOf(w.Extra)
	r.Ext.Protocol = own
	if r.Mode, ok = thinkingModes[w.Type.Value()]; !ok {
		d.fail("thinking.type", "want enabled, adaptive, disabled or between_tools")
		return
	}
	r.Budget = d.integer("thinking.budget_tokens", w.BudgetTokens)
	display, ok := w.Display.Get()
	if ok {
		note(&r.Ext, "display", quoted(display))
	}
	switch {
	case display == "omitted":
		r.Show = "none"
	case r.Mode != "off": // thinking is shown unless a client says otherwise
		r.Show = "auto"
	}
}

// reasoning writes thinking and effort. It needs max_tokens and the tool choice.
func (e *requestEncoder) reasoning() {
	r := e.req.Reasoning
	protocol.DropExt(e.report, "reasoning", r.Ext, protocol.Anthropic)
	off := r.Mode == "off" || r.Effort == "none" || r.Budget != nil && *r.Budget == 0
	shown := r.Show != "" && r.Show != "none"
	asked := r.Mode != "" || !e.home && (r.Effort != "" || r.Budget != nil || shown)
	gates := e.target.Gates
	switch {
	case off:
		if r.Effort != "none" { // effort is more than thinking
			e.effort(r.Effort)
		}
		e.thinking("disabled", 0)
		return
	case gates.Adaptive:
		e.adaptive(r, asked)
	case e.home && !gates.Budget:
		e.effort(r.Effort)
		if asked {
			e.thinking(thinkingTypes[r.Mode], value(r.Budget))
		}
	case asked || r.Effort != "":
		e.budget(r)
	}
	e.thinkingConflicts()
}

// adaptive writes thinking for models that decide themselves how much they think.
func (e *requestEncoder) adaptive(r llm.Reasoning, asked bool) {
	effort := r.Effort
	if n := value(r.Budget); effort == "" && n > 0 {
		effort = effortOf(n)
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

// budget writes thinking for models that count how much they think. CRQ-22
func (e *requestEncoder) budget(r llm.Reasoning) {
	want := value(r.Budget)
	exact := want > 0
	if !exact {
		want = budgetOf(r.Effort)
	}
	n := max(want, minBudget)
	limit := value(e.maxTokens)
	if e.defaulted && e.target.Gates.MaxOutput == 0 {
		limit += n // nobody has set a limit that thinking would have to fit into
		e.out.MaxTokens, e.maxTokens = wire.Some(wire.Int(limit)), &limit
	} else if !exact || n >= limit {
		n = max(minBudget, min(n, limit/2)) // the rest is for the answer
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

// budgetOf is the tokens that stand for a level of effort; medium where it is not
// known.
func budgetOf(effort string) int64 {
	medium := int64(0)
	for _, b := range budgets {
		switch b.effort {
		case effort:
			return b.tokens
		case "medium":
			medium = b.tokens
		}
	}
	return medium
}

// effortOf is the level whose band a budget falls into.
func effortOf(n int64) string {
	level := "low" // the least that the protocol has
	for _, b := range budgets {
		if n >= b.from && b.effort != "minimal" {
			level = b.effort
		}
	}
	return level
}

// effort writes a level of effort that the model knows.
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
	c.Effort = optString(fit)
}

// nearestEffort is the next lower level that is known, else the next higher one.
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
		t.Display = optString(strings.Trim(string(r.Ext.Get(displayMark)), `"`))
		t.Extra = extraOf(without(r.Ext, displayMark))
	} else if typ != "disabled" {
		t.Display = e.display(r.Show)
	}
	e.out.Thinking = wire.Some(t)
}

// display is what of its thinking a model shows.
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

// thinkingConflicts leaves thinking out where the vendor would refuse it.
func (e *requestEncoder) thinkingConflicts() {
	typ := e.out.Thinking.Value().Type.Value()
	switch {
	case typ == "":
	case e.forced: // CRQ-23
		e.report.Drop("reasoning", "reasoning.forced_tool", "a model that must call a tool cannot think first")
		e.out.Thinking = wire.Opt[Thinking]{}
	case typ == "enabled" && e.unsignedLoop():
		e.report.Drop("reasoning", "reasoning.unsigned_history", "the call that is being answered came without signed thinking")
		e.out.Thinking = wire.Opt[Thinking]{}
	}
}

// unsignedLoop reports whether the request answers calls of an assistant turn that
// has no thinking of this vendor, which the vendor refuses while thinking is on.
func (e *requestEncoder) unsignedLoop() bool {
	turns := e.req.Turns
	if len(turns) == 0 || turns[len(turns)-1].Role != llm.ToolRole {
		return false
	}
	for i := len(turns) - 1; i >= 0; i-- {
		if turns[i].Role != llm.Assistant {
			continue
		}
		return !slices.ContainsFunc(turns[i].Blocks, func(b llm.Block) bool {
			t, ok := b.(*llm.Thought)
			if !ok {
				return false
			}
			_, signed := t.SealFor(own)
			return signed
		})
	}
	return false
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
