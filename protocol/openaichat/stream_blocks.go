package openaichat

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// choiceDecoder decodes the chunks of one choice.
type choiceDecoder struct {
	choice     int
	id         string // the response's id, for call ids that the gateway makes
	next       int    // the next block's index
	openIndex  int    // index of the open block of text, refusal or thought; -1 if none is open
	kind       blockKind
	partial    [otherBlock]wire.Joiner // incomplete characters, by the kind of block
	calls      toolCalls
	callStates map[*call]*callState
	legacy     call // the function_call, of which there is at most one
	finish     FinishReason
	toolFinish FinishReason // the last finish reason that means a tool call
	refused    bool
	seen       seen // members of the choice that were emitted
}

// reasoning returns a delta's reasoning texts by member name, in order of
// preference.
func (d *chunkDelta) reasoning() []struct {
	name string
	raw  jsontext.Value
} {
	return []struct {
		name string
		raw  jsontext.Value
	}{{"reasoning_content", d.ReasoningContent}, {"reasoning", d.Reasoning}, {"thinking", d.Thinking}}
}

// think decodes a delta's reasoning. The same text may come under two names,
// CST-30.
func (r *choiceDecoder) think(d *chunkDelta, to []llm.Event) []llm.Event {
	var said jsontext.Value
	var names []llm.Member
	for _, t := range d.reasoning() {
		if t.raw.Kind() == '"' && len(t.raw) > len(`""`) {
			if said == nil {
				said = t.raw
			}
			names = append(names, llm.Member{Value: llm.Raw(`["` + t.name + `"]`)})
		}
	}
	if said == nil {
		return to
	}
	opened := r.openIndex
	to = r.openText(thoughtBlock, to)
	if opened != r.openIndex && (len(names) > 1 || names[0].Value != `["reasoning_content"]`) {
		for _, n := range names {
			n.Name = reasoningMark
			to = append(to, llm.Members{Choice: r.choice, Index: r.openIndex, Ext: ext([]llm.Member{n}), Append: true})
		}
	}
	return r.appendText(thoughtBlock, said, to)
}

// members emits the members of a choice and its message that the neutral model
// has no field for.
func (r *choiceDecoder) members(c *chunkChoice, to []llm.Event) []llm.Event {
	d := &c.Delta
	m := r.seen.addOriginal("usage", c.Usage, nil)
	m = r.seen.addAll(c.Unknown, "", m)
	if role := wire.Scalar(d.Role); role != "" && role != string(RoleAssistant) {
		m = r.seen.add(messageMark+"role", messageMark+"role", d.Role, m)
	}
	for _, t := range d.reasoning() {
		if isNull(t.raw) || string(t.raw) == `""` {
			m = r.seen.add(messageMark+t.name, messageMark+t.name, t.raw, m)
		}
	}
	m = r.seen.add(messageMark+codec.CarrierMember, messageMark+codec.CarrierMember, d.Carrier, m)
	m = r.seen.addAll(d.Unknown, messageMark, m)
	if len(m) > 0 {
		to = append(to, llm.Members{Choice: r.choice, Index: llm.Whole, Ext: ext(m)})
	}
	if list := d.details(); list.Len() > 0 {
		to = r.list(messageMark+"reasoning_details", rawOf(list), to)
	}
	if d.Audio.Kind() == '{' {
		to = r.list(messageMark+"audio", llm.Raw("["+string(d.Audio)+"]"), to)
	}
	return to
}

// repeats reports whether the members of a choice that the neutral model has no
// field for say nothing new.
func (r *choiceDecoder) repeats(choice []byte) bool {
	s := wire.NewScanner(choice)
	for name := range s.Members() {
		switch string(name) {
		case "index", "delta", "finish_reason", "logprobs":
		default:
			if !r.seen.repeats(name, s.Value()) {
				return false
			}
		}
	}
	return true
}

// list emits a list that continues an earlier one.
func (r *choiceDecoder) list(name string, raw llm.Raw, to []llm.Event) []llm.Event {
	return append(to, llm.Members{Choice: r.choice, Index: llm.Whole, Ext: ext([]llm.Member{{Name: name, Value: raw}}), Append: true})
}

func (r *choiceDecoder) add(d *chunkDelta, logprobs jsontext.Value, to []llm.Event) []llm.Event {
	to = r.think(d, to)
	to = r.seals(d, to)
	switch d.Content.Kind() {
	case '"':
		to = r.appendText(textBlock, d.Content, to)
	case '[':
		to = r.parts(d.Content, to)
	}
	if d.Refusal.Kind() == '"' && len(d.Refusal) > 2 {
		r.refused = true
		to = r.appendText(refusalBlock, d.Refusal, to)
	}
	to = r.annotate(d.Annotations, logprobs, to)
	if d.ToolCalls.Kind() == '[' {
		to = r.callDeltas(d.ToolCalls, to)
	}
	if d.FunctionCall.Kind() == '{' {
		to = r.legacyDelta(d.FunctionCall, to)
	}
	return to
}

// appendText appends text to the open block of a kind, or opens one.
func (r *choiceDecoder) appendText(kind blockKind, raw jsontext.Value, to []llm.Event) []llm.Event {
	if len(raw) <= len(`""`) {
		return to
	}
	to = r.openText(kind, to)
	return r.emitText(r.partial[kind].Next(string(raw[1:len(raw)-1])), to)
}

// emitText emits a delta of the open block.
func (r *choiceDecoder) emitText(text string, to []llm.Event) []llm.Event {
	if text == "" {
		return to
	}
	d := llm.Delta{Choice: r.choice, Index: r.openIndex, Text: text}
	if r.kind == thoughtBlock {
		d.Form = llm.FullReasoning
	}
	return append(to, d)
}

func (r *choiceDecoder) openText(kind blockKind, to []llm.Event) []llm.Event {
	if r.openIndex >= 0 && r.kind == kind {
		return to
	}
	to = r.closeText(to)
	r.openIndex, r.kind = r.next, kind
	r.next++
	var b llm.Block = &llm.Text{}
	switch kind {
	case thoughtBlock:
		b = &llm.Thought{}
	case refusalBlock:
		b = &llm.Refusal{}
	}
	return append(to, llm.BlockStart{Choice: r.choice, Index: r.openIndex, Block: b})
}

func (r *choiceDecoder) closeText(to []llm.Event) []llm.Event {
	if r.openIndex < 0 {
		return to
	}
	to = append(to, llm.BlockEnd{Choice: r.choice, Index: r.openIndex})
	r.openIndex = -1
	return to
}

// parts decodes content that is a list. Mistral's models send one while they
// reason.
func (r *choiceDecoder) parts(raw jsontext.Value, to []llm.Event) []llm.Event {
	var list []jsontext.Value
	if json.Unmarshal(raw, &list, wire.Lenient) != nil {
		return to
	}
	for _, item := range list {
		if item.Kind() != '{' {
			continue
		}
		var p struct {
			Type     string         `json:"type"`
			Text     jsontext.Value `json:"text"`
			Thinking []struct {
				Text jsontext.Value `json:"text"`
			} `json:"thinking"`
		}
		err := json.Unmarshal(item, &p, wire.Lenient)
		switch {
		case err == nil && p.Type == string(PartText):
			if p.Text.Kind() == '"' {
				to = r.appendText(textBlock, p.Text, to)
			}
		case err == nil && p.Type == "thinking":
			to = r.openText(thoughtBlock, to)
			to = append(to, llm.Members{Choice: r.choice, Index: r.openIndex, Ext: ext([]llm.Member{{Name: partMark, Value: llm.Raw("[" + string(item) + "]")}}), Append: true})
			for _, t := range p.Thinking {
				if t.Text.Kind() == '"' {
					to = r.appendText(thoughtBlock, t.Text, to)
				}
			}
		default:
			to = r.closeText(to)
			to = append(to, llm.BlockStart{Choice: r.choice, Index: r.next, Block: &llm.Opaque{Protocol: own, Type: p.Type, Raw: llm.Raw(item)}},
				llm.BlockEnd{Choice: r.choice, Index: r.next})
			r.next++
		}
	}
	return to
}

// details returns the elements of reasoning_details.
func (d *chunkDelta) details() wire.List[wire.Raw] {
	var list wire.List[wire.Raw]
	if d.Details.Kind() == '[' {
		_ = wire.UnmarshalLenient(d.Details, &list) // an invalid list has no elements
	}
	return list
}

// seals attaches the seals of a delta to the block that they belong to.
func (r *choiceDecoder) seals(d *chunkDelta, to []llm.Event) []llm.Event {
	seals := sealsOf(readDetails(d.details()))
	if len(seals) > 0 {
		to = r.openText(thoughtBlock, to)
	} else if len(d.Carrier) > 0 {
		if seals = codec.Uncarry(llm.Raw(d.Carrier)); len(seals) > 0 {
			to = r.openText(textBlock, to)
		}
	}
	for _, s := range seals {
		to = append(to, llm.SealDelta{Choice: r.choice, Index: r.openIndex, Seal: s})
	}
	return to
}

// annotate decodes citations and log probabilities. They go to the open block if
// they fit it, and always to the choice's members.
func (r *choiceDecoder) annotate(raw, logprobs jsontext.Value, to []llm.Event) []llm.Event {
	if raw.Kind() == '[' {
		to = r.cite(raw, to)
	}
	if logprobs.Kind() != '{' {
		return to
	}
	var l struct {
		Content jsontext.Value `json:"content"`
		Refusal jsontext.Value `json:"refusal"`
		Unknown jsontext.Value `json:",embed"` //nolint:staticcheck // SA5008: an option of go-json-experiment
	}
	if json.Unmarshal(logprobs, &l, wire.Lenient) != nil {
		return to
	}
	m := r.seen.addAll(l.Unknown, logprobsMark, nil)
	for _, list := range []struct {
		name string
		raw  jsontext.Value
		kind blockKind
	}{{"content", l.Content, textBlock}, {"refusal", l.Refusal, refusalBlock}} {
		inner := bytes.TrimSpace(list.raw)
		if len(inner) < 2 || inner[0] != '[' || !list.raw.IsValid() { // JSON with a duplicate name is not passed on
			if isNull(inner) {
				m = r.seen.add(logprobsMark+list.name, logprobsMark+list.name, inner, m)
			}
			continue
		}
		to = r.list(logprobsMark+list.name, llm.Raw(inner), to)
		if len(inner) > len("[]") && r.openIndex >= 0 && r.kind == list.kind {
			to = append(to, llm.Logprobs{Choice: r.choice, Index: r.openIndex, Raw: llm.Raw(inner[1 : len(inner)-1])})
		}
	}
	if len(m) > 0 {
		to = append(to, llm.Members{Choice: r.choice, Index: llm.Whole, Ext: ext(m)})
	}
	return to
}

func (r *choiceDecoder) cite(raw jsontext.Value, to []llm.Event) []llm.Event {
	var list wire.List[Annotation]
	if wire.Unmarshal(raw, &list) != nil {
		return to
	}
	if r.openIndex < 0 || r.kind != textBlock || list.Len() == 0 {
		return r.list(messageMark+"annotations", llm.Raw(raw), to)
	}
	for _, c := range citationsOf(list) {
		to = append(to, llm.Cite{Choice: r.choice, Index: r.openIndex, Citation: c})
	}
	return to
}

// close ends all blocks of the choice.
func (r *choiceDecoder) close(to []llm.Event) []llm.Event {
	for kind := range r.partial {
		if half := r.partial[kind].Rest(); half != "" {
			to = r.emitText(half, r.openText(blockKind(kind), to))
		}
	}
	to = r.closeText(to)
	for _, c := range append(slices.Clone(r.calls.all), &r.legacy) {
		if c.isStub() || c.name == "" {
			continue
		}
		sl := r.callState(c)
		to = r.begin(c, sl, to)
		if rest := sl.args.Rest(); rest != "" {
			to = append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: rest})
		}
		for _, s := range sl.seals {
			to = append(to, llm.SealDelta{Choice: r.choice, Index: sl.index, Seal: s})
		}
		e := c.ext()
		if len(c.body) == 0 && isCut(r.finish) {
			addMember(&e, noArgsMark, "true")
		}
		if len(e.Members) > 0 {
			to = append(to, llm.Members{Choice: r.choice, Index: sl.index, Ext: e})
		}
		to = append(to, llm.BlockEnd{Choice: r.choice, Index: sl.index})
	}
	return to
}

// ext keeps the upstream's finish reason, corrected where it contradicts the
// calls: tool_calls without a call (CST-16), or stop after tool_calls (CST-18).
func (r *choiceDecoder) ext() llm.Ext {
	reason := r.finish
	switch called := r.called(); {
	case reason == FinishStop && called && r.toolFinish != "":
		reason = r.toolFinish
	case reason == r.toolFinish && !called:
		reason = FinishStop
	}
	var e llm.Ext
	keepFinish(&e, reason, r.stop(), r.refused, r.called(), r.callState(&r.legacy).begun)
	return e
}

// stop returns the neutral stop of the choice.
func (r *choiceDecoder) stop() llm.Stop {
	called, reason := r.called(), r.finish
	switch {
	case reason == "" && called && (!r.calls.complete() || !r.legacy.isComplete()):
		// [DONE] came in the middle of a call, which must not be run (CST-21,
		// CST-39).
		return llm.Stop{Kind: llm.MaxTokens}
	case reason == "":
		stop := stopOf(FinishStop, called, r.refused)
		stop.Raw = ""
		return stop
	case r.toolFinish != "" && isKind(reason, llm.EndTurn) && called:
		reason = FinishToolCalls // a plain stop followed it, CST-18
	}
	return stopOf(reason, called, r.refused)
}
