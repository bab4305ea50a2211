package openaichat

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// reading is one choice on its way in.
type reading struct {
	choice     int
	id         string // of the answer, for ids that must be made
	next       int    // the next block's index
	prose      int    // the open block of text, refusal or thought; -1 if none is
	kind       blockKind
	said       joiner // of the open block
	calls      toolCalls
	slots      map[*call]*slot
	legacy     call // the deprecated kind, of which there is one
	finish     FinishReason
	toolFinish bool
	refused    bool
}

// slot is a call that has a block, or waits for one until its name is settled.
type slot struct {
	index   int
	begun   bool
	waiting []string
	args    joiner
	seals   []llm.Seal
}

func (r *reading) add(d *lightDelta, logprobs jsontext.Value, to []llm.Event) []llm.Event {
	for _, raw := range []jsontext.Value{d.ReasoningContent, d.Reasoning, d.Thinking} {
		if raw.Kind() == '"' && len(raw) > 2 { // the same text may come under two names, CST-30
			to = r.say(thoughtBlock, raw, to)
			break
		}
	}
	to = r.seals(d, to)
	switch d.Content.Kind() {
	case '"':
		to = r.say(textBlock, d.Content, to)
	case '[':
		to = r.parts(d.Content, to)
	}
	if d.Refusal.Kind() == '"' && len(d.Refusal) > 2 {
		r.refused = true
		to = r.say(refusalBlock, d.Refusal, to)
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

// say appends to the open block of a kind, or opens one.
func (r *reading) say(kind blockKind, raw jsontext.Value, to []llm.Event) []llm.Event {
	if len(raw) <= len(`""`) {
		return to
	}
	to = r.openProse(kind, to)
	return r.prosaic(r.said.next(raw[1:len(raw)-1]), to)
}

// prosaic is a delta of the open block.
func (r *reading) prosaic(text string, to []llm.Event) []llm.Event {
	if text == "" {
		return to
	}
	d := llm.Delta{Choice: r.choice, Index: r.prose, Text: text}
	if r.kind == thoughtBlock {
		d.Form = llm.FullReasoning
	}
	return append(to, d)
}

func (r *reading) openProse(kind blockKind, to []llm.Event) []llm.Event {
	if r.prose >= 0 && r.kind == kind {
		return to
	}
	to = r.closeProse(to)
	r.prose, r.kind = r.next, kind
	r.next++
	var b llm.Block = &llm.Text{}
	switch kind {
	case thoughtBlock:
		b = &llm.Thought{}
	case refusalBlock:
		b = &llm.Refusal{}
	}
	return append(to, llm.BlockStart{Choice: r.choice, Index: r.prose, Block: b})
}

func (r *reading) closeProse(to []llm.Event) []llm.Event {
	if r.prose < 0 {
		return to
	}
	to = r.prosaic(r.said.rest(), to)
	to = append(to, llm.BlockEnd{Choice: r.choice, Index: r.prose})
	r.prose = -1
	return to
}

// parts reads content that comes as a list, as Mistral's does while it thinks.
func (r *reading) parts(raw jsontext.Value, to []llm.Event) []llm.Event {
	var parts []struct {
		Type     string         `json:"type"`
		Text     jsontext.Value `json:"text"`
		Thinking jsontext.Value `json:"thinking"`
	}
	if json.Unmarshal(raw, &parts, lenient) != nil {
		return to
	}
	for _, p := range parts {
		if p.Text.Kind() == '"' && p.Type == string(PartText) {
			to = r.say(textBlock, p.Text, to)
		}
		var thoughts []struct {
			Text jsontext.Value `json:"text"`
		}
		if p.Type == "thinking" && json.Unmarshal(p.Thinking, &thoughts, lenient) == nil {
			for _, th := range thoughts {
				if th.Text.Kind() == '"' {
					to = r.say(thoughtBlock, th.Text, to)
				}
			}
		}
	}
	return to
}

// seals gives a thought what proves it.
func (r *reading) seals(d *lightDelta, to []llm.Event) []llm.Event {
	seals := sealsOf(d.Details)
	if len(seals) > 0 {
		to = r.openProse(thoughtBlock, to)
	} else if len(d.Carrier) > 0 {
		if seals = protocol.Uncarry(llm.Raw(d.Carrier)); len(seals) > 0 {
			to = r.openProse(textBlock, to)
		}
	}
	for _, s := range seals {
		to = append(to, llm.SealDelta{Choice: r.choice, Index: r.prose, Seal: s})
	}
	return to
}

func (r *reading) annotate(raw, logprobs jsontext.Value, to []llm.Event) []llm.Event {
	if r.prose < 0 {
		return to
	}
	if raw.Kind() == '[' && r.kind == textBlock {
		var list []Annotation
		if json.Unmarshal(raw, &list, lenient) == nil {
			for _, c := range citationsOf(list) {
				to = append(to, llm.Cite{Choice: r.choice, Index: r.prose, Citation: c})
			}
		}
	}
	if logprobs.Kind() != '{' {
		return to
	}
	var l struct {
		Content jsontext.Value `json:"content"`
		Refusal jsontext.Value `json:"refusal"`
	}
	if json.Unmarshal(logprobs, &l, lenient) != nil {
		return to
	}
	list := l.Content
	if r.kind == refusalBlock {
		list = l.Refusal
	}
	if inner := bytes.TrimSpace(list); len(inner) > 2 && inner[0] == '[' && list.IsValid() { // a name twice is nothing to pass on
		to = append(to, llm.Logprobs{Choice: r.choice, Index: r.prose, Raw: llm.Raw(inner[1 : len(inner)-1])})
	}
	return to
}

// callDeltas finds the call of each fragment. Calls begin when their name is
// settled: at the first argument byte, at another call, or at the end.
func (r *reading) callDeltas(raw jsontext.Value, to []llm.Event) []llm.Event {
	var deltas []ToolCallDelta
	if json.Unmarshal(raw, &deltas, lenient) != nil {
		return to
	}
	for i := range deltas {
		d := &deltas[i]
		before := len(r.calls.all)
		c, _ := r.calls.add(d)
		if len(r.calls.all) > before && before > 0 {
			to = r.beginWaiting(c, to)
		}
		sl := r.slot(c)
		sl.seals = append(sl.seals, protocol.Uncarry(extraRaw(d.Extra, protocol.CarrierMember))...)
		to = r.addArgs(c, sl, fragmentOf(d).text, to)
	}
	return to
}

func (r *reading) slot(c *call) *slot {
	if r.slots[c] == nil {
		r.slots[c] = &slot{}
	}
	return r.slots[c]
}

func (r *reading) addArgs(c *call, sl *slot, fragment wire.Text, to []llm.Event) []llm.Event {
	if fragment.IsEmpty() {
		return to
	}
	text := sl.args.next(fragment.AppendBody(nil))
	if text == "" {
		return to
	}
	if !sl.begun && c.name == "" {
		sl.waiting = append(sl.waiting, text)
		return to
	}
	to = r.begin(c, sl, to)
	return append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: text})
}

// begin opens a call's block, and says what waited for that.
func (r *reading) begin(c *call, sl *slot, to []llm.Event) []llm.Event {
	if sl.begun {
		return to
	}
	to = r.closeProse(to)
	sl.begun, sl.index = true, r.next
	r.next++
	b := &llm.ToolCall{CallID: c.id, Kind: llm.FunctionTool, Name: c.name}
	if c.custom {
		b.Kind = llm.CustomTool
	}
	if b.CallID == "" {
		b.CallID, b.Synthetic = llm.MintID("call_", r.id, strconv.Itoa(r.choice), strconv.Itoa(sl.index), c.name), true
	}
	to = append(to, llm.BlockStart{Choice: r.choice, Index: sl.index, Block: b})
	for _, text := range sl.waiting {
		to = append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: text})
	}
	sl.waiting = nil
	return to
}

// beginWaiting opens the calls that another call has settled.
func (r *reading) beginWaiting(except *call, to []llm.Event) []llm.Event {
	for _, c := range r.calls.all {
		if c != except && !c.isStub() && c.name != "" {
			to = r.begin(c, r.slot(c), to)
		}
	}
	return to
}

func (r *reading) legacyDelta(raw jsontext.Value, to []llm.Event) []llm.Event {
	var f FunctionCall
	if functionCallShape.UnmarshalLenient(raw, &f) != nil {
		return to
	}
	r.legacy.addFunction(&f)
	if r.legacy.isStub() || r.legacy.name == "" {
		return to
	}
	sl := r.slot(&r.legacy)
	to = r.begin(&r.legacy, sl, to)
	if args, ok := f.Arguments.Get(); ok {
		to = r.addArgs(&r.legacy, sl, args.asText(), to)
	}
	return to
}

// close ends all blocks of the choice.
func (r *reading) close(to []llm.Event) []llm.Event {
	to = r.closeProse(to)
	for _, c := range append(slices.Clone(r.calls.all), &r.legacy) {
		if c.isStub() || c.name == "" {
			continue
		}
		sl := r.slot(c)
		to = r.begin(c, sl, to)
		if rest := sl.args.rest(); rest != "" {
			to = append(to, llm.Delta{Choice: r.choice, Index: sl.index, Text: rest})
		}
		for _, s := range sl.seals {
			to = append(to, llm.SealDelta{Choice: r.choice, Index: sl.index, Seal: s})
		}
		to = append(to, llm.BlockEnd{Choice: r.choice, Index: sl.index})
	}
	return to
}

// stop is why the choice ended. Only calls that were told count: one without a
// name cannot be run.
func (r *reading) stop() llm.Stop {
	called := false
	for _, sl := range r.slots {
		called = called || sl.begun
	}
	reason := r.finish
	switch {
	case reason == "" && called && (!r.calls.complete() || !r.legacy.isComplete()):
		// [DONE] came in the middle of a call: nobody may run it (CST-21, CST-39).
		return llm.Stop{Kind: llm.MaxTokens}
	case reason == "":
		stop := stopOf(FinishStop, called, r.refused)
		stop.Raw = ""
		return stop
	case r.toolFinish && finishToStop[reason] == llm.EndTurn && called:
		reason = FinishToolCalls // it came before a plain stop, CST-18
	}
	return stopOf(reason, called, r.refused)
}
