package conform

import (
	"slices"
	"strings"
)

const (
	sideRequest  = "request"
	sideResponse = "response"
)

// loss is a difference that the loss tables of docs/protocols allow. The codes are those
// that the gateway reports; a difference without codes is another spelling.
type loss struct {
	side     string
	features []string
	cells    cellSet
	codes    []string
	row      string // the row of the loss table
}

// losses is the only list of differences that random dialogues may have.
var losses = []loss{
	{sideRequest, []string{"stop"}, "*>responses", []string{"stop.unsupported"}, "output.stops"},
	{sideRequest, []string{"stop"}, "*>anthropic,*>converse", []string{"stop.blank"}, "output.stops: white space only"},
	{sideRequest, []string{"serial"}, "*>gemini,*>converse", []string{"parallel.unsupported"}, "parallel: false"},
	{sideRequest, []string{"top_k"}, "*>chat,*>responses", []string{"top_k.unsupported"}, "sampling.top_k"},
	{sideRequest, []string{"top_k"}, "*>converse", []string{"top_k.unsupported_by_model"}, "sampling.top_k: on a model of an unknown maker"},
	{sideRequest, []string{"top_k"}, "*>anthropic", []string{"top_k.with_thinking"}, "sampling.top_k: while the model thinks"},
	{sideRequest, []string{"seed"}, "*>responses,*>anthropic,*>converse", []string{"seed.unsupported"}, "sampling.seed"},
	{sideRequest, []string{"seed"}, "*>gemini", []string{"seed.folded"}, "sampling.seed: larger"},
	{sideRequest, []string{"frequency_penalty"}, "*>responses,*>anthropic,*>converse", []string{"frequency_penalty.unsupported"}, "sampling.frequency_penalty"},
	{sideRequest, []string{"presence_penalty"}, "*>responses,*>anthropic,*>converse", []string{"presence_penalty.unsupported"}, "sampling.presence_penalty"},
	{sideRequest, []string{"temperature"}, "*>anthropic,*>converse", []string{"temperature.clamped", "temperature.with_thinking"}, "sampling.temperature: over 1, or while the model thinks"},
	{sideRequest, []string{"top_p"}, "*>anthropic", []string{"top_p.with_thinking", "top_p.with_temperature"}, "sampling.top_p: while the model thinks, or with a temperature"},
	{sideRequest, []string{"reasoning"}, "*>anthropic", []string{"reasoning.forced_tool", "reasoning.no_room", "reasoning.unsigned_history"}, "reasoning.effort: where the vendor rejects it"},
	{sideRequest, []string{"effort"}, "*>anthropic", []string{"effort.to_budget", "effort.nearest"}, "reasoning.effort"},
	{sideRequest, []string{"effort"}, "*>converse", []string{"effort.nearest"}, "reasoning.effort: minimal"},
	{sideRequest, []string{"effort"}, "*>gemini", []string{"effort.nearest", "effort.to_budget"}, "reasoning.effort: minimal, xhigh or max"},
	{sideRequest, []string{"format-strict"}, "*>anthropic,*>converse", []string{"format.strict"}, "output.format.strict: false"},
	{sideRequest, []string{"format-strict"}, "*>chat,*>responses", []string{"strict.optional_properties"}, "output.format.strict: true, with an optional property"},
	{sideRequest, []string{"format"}, "*>anthropic", []string{"schema.keyword_moved", "format.strict"}, "output.format.schema: keywords beyond the vendor's"},
	{sideRequest, []string{"strict"}, "*>chat,*>responses", []string{"strict.optional_properties"}, "tools.strict: true, with an optional property"},
	{sideRequest, []string{"strict"}, "*>gemini", []string{"strict.best_effort"}, "tools.strict: true"},
	{sideRequest, []string{"cache"}, "*>chat,*>responses,*>gemini", []string{"cache.mark"}, "block.cache, tools.cache"},
	{sideRequest, []string{"result-error"}, "*>chat,*>responses", []string{"tool_result.error_as_text"}, "tool_result.failed"},
	{sideRequest, []string{"result-image"}, "*>chat", []string{"tool_result.media_split"}, "tool_result.blocks: media"},
	{sideRequest, []string{"choice", "system"}, "*>converse", []string{"tool_choice.none"}, "tool_choice.mode: none, with calls in the history"},
	{sideRequest, []string{"choice"}, "*>anthropic", []string{"reasoning.forced_tool"}, "tool_choice.mode"},
	{sideRequest, []string{"format"}, "*>gemini", []string{"schema.keyword_moved"}, "output.format.schema: keywords beyond the vendor's"},
	{sideRequest, []string{"user"}, "*>chat,*>responses", []string{"user.shortened"}, "identity.user: of more than 64 characters"},
	{sideRequest, []string{"user"}, "*>gemini,*>converse", []string{"user.dropped"}, "identity.user"},
	{sideRequest, []string{"blank"}, "*>anthropic,*>converse", []string{"turn.empty"}, "turns: white space only"},
	{sideRequest, []string{"developer"}, "*>anthropic,*>gemini,*>converse", []string{"turn.developer", "system.mid_folded"}, "turns.role: developer"},
	{sideRequest, []string{"mid-system"}, "*>anthropic,*>gemini,*>converse", []string{"system.mid_folded"}, "turns.role: system, in mid-conversation"},
	{sideRequest, []string{"refusal"}, "*>anthropic,*>gemini,*>converse", []string{"refusal.as_text"}, "refusal.text"},
	{sideResponse, []string{"refusal"}, "anthropic>*,gemini>*,converse>*", []string{"refusal.as_text"}, "refusal.text"},
	{sideRequest, []string{"max-added"}, "*>anthropic", []string{"max_tokens.defaulted"}, "output.max_tokens: unset"},
	{sideRequest, []string{"format-name"}, "*>anthropic,*>gemini", []string{"format.name"}, "output.format.name"},
	{sideRequest, []string{"history-think"}, "cross", []string{"reasoning.foreign", "seal.foreign"}, "thought: of another protocol"},
	{sideRequest, []string{"document-name"}, "*>gemini", []string{"media.name"}, "media.name"},
	{sideRequest, []string{"schema"}, "*>anthropic", []string{"schema.keyword_moved"}, "tools.strict: true, with keywords beyond the vendor's"},
	{sideRequest, []string{"schema"}, "*>gemini", []string{"schema.keyword_moved"}, "tools.schema: keywords beyond the vendor's"},
	{sideRequest, []string{"document-name", "user-document"}, "*>chat", []string{"document.as_text"}, "media.text"},
	{sideRequest, []string{"half"}, "anthropic>*,gemini>*,converse>*,*>anthropic,*>gemini,*>converse", nil, "none: U+FFFD for half a surrogate pair, which the vendors reject (JSN-06)"},
	{sideResponse, []string{"half"}, "anthropic>*,gemini>*,converse>*,*>anthropic,*>gemini,*>converse", nil, "none: the same"},
	{sideResponse, []string{"match"}, "anthropic>*", []string{"stop_reason.lossy"}, "choices.stop.matched"},
	{sideResponse, []string{"written"}, "gemini>*", []string{"usage.cache_write"}, "usage.cache_write"},
	{sideResponse, []string{"match"}, "chat>anthropic,responses>anthropic,gemini>anthropic,chat>converse,responses>converse,gemini>converse", []string{"stop_reason.lossy"}, "choices.stop.kind: stop_sequence"},
	{sideResponse, []string{"signature"}, "converse>gemini", []string{"seal.foreign"}, "text: block.seals: of Gemini"},
	{sideRequest, []string{"signature"}, "converse>gemini", nil, "the same, in the rounds after it: the client did not get the seal"},
}

// note is a code that is reported for good reason although everything arrives, in another form.
type note struct {
	codes []string
	is    func(asked Request, answer Response) bool
}

// notes is the list of such codes.
var notes = []note{
	{[]string{"reasoning.foreign", "seal.foreign"}, func(a Request, _ Response) bool {
		return hasPiece(a, func(p Piece) bool { return p.Kind == kindThink || p.Sig != "" })
	}},
	{[]string{"seal.foreign"}, func(_ Request, r Response) bool { // one of several signatures: Gemini has it on the text after the thought
		return len(sigs(r.Pieces)) > 1
	}},
	{[]string{"reasoning.show_unsupported", "effort.to_budget", "effort.nearest"}, func(a Request, _ Response) bool { return a.Reasoning != "" }},
	{[]string{"reasoning.summary"}, func(a Request, r Response) bool { return a.Reasoning != "" || r.has(kindThink) }},
	{[]string{"document.as_file"}, func(a Request, _ Response) bool {
		return hasPiece(a, func(p Piece) bool { return p.Image.Type == textFile })
	}},
	{[]string{"document.name", "document.text_added"}, func(a Request, _ Response) bool {
		return hasPiece(a, func(p Piece) bool { return p.Kind == kindDocument })
	}},
	{[]string{"tool_choice.none"}, func(a Request, _ Response) bool { return a.Choice == "none" }},
	{[]string{"format.strict"}, func(a Request, _ Response) bool { return a.Format != nil }},
	{[]string{"strict.best_effort", "tool_choice.validated"}, func(a Request, _ Response) bool {
		return a.Format != nil || slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.Strict })
	}},
	{[]string{"tool_result.error_as_text"}, func(a Request, _ Response) bool { return hasPiece(a, func(p Piece) bool { return p.Failed }) }},
	{[]string{"tool_result.media_split"}, func(a Request, _ Response) bool { return hasPiece(a, func(p Piece) bool { return p.Images != nil }) }},
	{[]string{"stop_reason.lossy"}, func(_ Request, r Response) bool { return r.Stop != "end" && r.Stop != "tool" || r.has(kindRefusal) }},
	{[]string{"refusal.as_text"}, func(a Request, r Response) bool {
		return r.has(kindRefusal) || hasPiece(a, func(p Piece) bool { return p.Kind == kindRefusal })
	}},
}

func hasPiece(r Request, is func(Piece) bool) bool {
	return slices.ContainsFunc(r.Turns, func(t Turn) bool { return slices.ContainsFunc(t.Pieces, is) })
}

// lossesOf returns the rows about a feature.
func lossesOf(side, feature string, c Cell) []loss {
	var out []loss
	for _, l := range losses {
		if l.side == side && slices.Contains(l.features, feature) && l.cells.has(c) {
			out = append(out, l)
		}
	}
	return out
}

// refusal is a request that the loss tables refuse.
type refusal struct {
	code  string
	cells cellSet
	word  string // that the error names
	is    func(Request) bool
	row   string
}

// refusals is the only list of refusals that random dialogues may get.
var refusals = []refusal{
	{"media.url", "*>gemini,*>converse", "media.url", func(r Request) bool { return hasURL(r, kindImage) || hasURL(r, kindDocument) }, "media.url: of an image, of a document"},
	{"media.url", "*>chat", "media.url", func(r Request) bool { return hasURL(r, kindDocument) }, "media.url: of a document"},
	{"n.unsupported", "*>responses,*>anthropic,*>converse", "n", func(r Request) bool { return r.Choices != "" }, "output.choices: 2 to 8"},
}

// hasURL reports whether a request has media of a kind by address.
func hasURL(r Request, kind string) bool {
	return hasPiece(r, func(p Piece) bool { return p.Kind == kind && p.Image.Type == "" })
}

// gap is a known failure of the gateway. It is counted and does not fail a run.
type gap struct {
	kind  string // a * at the end stands for anything
	cells cellSet
	about string
}

// gaps is the list of known failures. It is empty when all are fixed.
var gaps = []gap{}

// knownGap returns why a failure is known, or "".
func knownGap(kind string, c Cell) string {
	for _, g := range gaps {
		prefix, open := strings.CutSuffix(g.kind, "*")
		if (g.kind == kind || open && strings.HasPrefix(kind, prefix)) && g.cells.has(c) {
			return g.about
		}
	}
	return ""
}
