package openairesponses

import (
	"strconv"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// writtenItem is an item of an answer that is being written.
type writtenItem struct {
	typ    string
	index  int
	id     string
	source string // the source's id for a message
	phase  string
	parts  []*writtenPart // of a message or a thought; of a call its arguments
	call   *llm.ToolCall
	own    bool // a thought of this protocol, whose forms are kept
	seals  []llm.Seal
	ext    wire.Object
	raw    llm.Raw // the whole item, where it is carried as it is
	done   llm.Raw // the item as it was written at its end
}

// writtenPart is a part of a message or a thought, or a call's arguments.
type writtenPart struct {
	typ       string // of the part on the wire; empty for arguments
	key       int    // of a thought's part in the neutral model
	at        string // members that say where the part is
	prefix    string // at, and the name of the delta
	deltaType string
	doneType  string
	doneName  string // of the member that has the whole text
	body      []byte // the text's JSON literal without its quotation marks
	runes     int
	cites     []llm.Citation
	notes     list // the citations as they were written
	logprobs  list
	seals     []llm.Seal
	ext       llm.Ext
	done      bool
}

// newItem is the item for a block that is not a message's part; nil where this
// protocol has none.
func newItem(b llm.Block) *writtenItem {
	ext := b.Common().Ext
	it := &writtenItem{}
	if isOwn(ext) {
		for _, m := range ext.Members {
			if name, ok := wireName(m.Name); ok {
				it.ext = append(it.ext, wire.Member{Name: name, Value: wire.Raw(m.Value)})
			}
		}
	}
	switch b := b.(type) {
	case *llm.Thought:
		it.typ, it.own = "reasoning", isOwn(ext)
		return it
	case *llm.ToolCall:
		it.typ, it.call = "function_call", b
		switch b.Kind {
		case llm.CustomTool:
			it.typ = "custom_tool_call"
		case llm.SearchTool:
			it.typ = searchCall
		default:
		}
		return it
	case *llm.ServerCall:
		it.typ, it.raw = b.Type, b.Raw
		return whole(it, b.Protocol)
	case *llm.Opaque:
		it.typ, it.raw = b.Type, b.Raw
		return whole(it, b.Protocol)
	case *llm.Media:
		if b.Kind == llm.Image && b.Data != "" {
			it.typ = "image_generation_call"
			it.ext = wire.Object{{Name: "result", Value: wire.Raw(quote(b.Data))}}
			return it
		}
	}
	return nil
}

func whole(it *writtenItem, from string) *writtenItem {
	if from != own {
		return nil
	}
	return it
}

// rename gives an item that is carried as it is another id.
func (it *writtenItem) rename() {
	o := object{}
	for _, m := range membersOf(it.raw).With("id", wire.Raw(quote(it.id))) {
		o.raw(m.Name, llm.Raw(m.Value))
	}
	it.raw = o.end()
}

func (it *writtenItem) isCall() bool { return it.call != nil }

func (it *writtenItem) prefix() string {
	switch it.typ {
	case "message":
		return messageID
	case "reasoning":
		return thoughtID
	case "function_call":
		return functionID
	case "custom_tool_call":
		return customID
	case searchCall:
		return searchID
	}
	if it.raw != "" {
		return "item_"
	}
	return "ig_"
}

// add begins a part of a message or a thought.
func (it *writtenItem) add(typ string) *writtenPart {
	n := 0
	for _, p := range it.parts {
		if (p.typ == "summary_text") == (typ == "summary_text") {
			n++
		}
	}
	p := &writtenPart{typ: typ}
	where := `,"content_index":`
	switch typ {
	case "output_text":
		p.deltaType, p.doneType, p.doneName = "response.output_text.delta", "response.output_text.done", "text"
	case "refusal":
		p.deltaType, p.doneType, p.doneName = "response.refusal.delta", "response.refusal.done", "refusal"
	case "summary_text":
		p.deltaType, p.doneType, p.doneName = "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done", "text"
		where = `,"summary_index":`
	default:
		p.deltaType, p.doneType, p.doneName = "response.reasoning_text.delta", "response.reasoning_text.done", "text"
	}
	p.locate(it, where+strconv.Itoa(n))
	it.parts = append(it.parts, p)
	return p
}

// arguments begins a call's arguments; nil for other items. Those of a search have no
// events of their own: they come with the item's end.
func (it *writtenItem) arguments() *writtenPart {
	if !it.isCall() {
		return nil
	}
	p := &writtenPart{deltaType: "response.function_call_arguments.delta", doneType: "response.function_call_arguments.done", doneName: "arguments"}
	switch it.call.Kind {
	case llm.CustomTool:
		p = &writtenPart{deltaType: "response.custom_tool_call_input.delta", doneType: "response.custom_tool_call_input.done", doneName: "input"}
	case llm.SearchTool:
		p = &writtenPart{}
	default:
	}
	p.locate(it, "")
	it.parts = []*writtenPart{p}
	return p
}

func (p *writtenPart) locate(it *writtenItem, where string) {
	p.at = `,"item_id":` + string(quote(it.id)) + `,"output_index":` + strconv.Itoa(it.index) + where
	p.prefix = p.at + `,"delta":`
}

func (p *writtenPart) text() llm.Raw { return llm.Raw(`"` + string(p.body) + `"`) }

// seal keeps a seal for the end of what it seals.
func (at place) seal(s llm.Seal) {
	switch {
	case at.item == nil:
	case at.item.typ == "message":
		at.part.seals = putSeal(at.part.seals, s)
	default:
		at.item.seals = putSeal(at.item.seals, s)
	}
}

func putSeal(seals []llm.Seal, s llm.Seal) []llm.Seal {
	for i := range seals {
		if seals[i].Form == s.Form && seals[i].Origin == s.Origin {
			seals[i] = s
			return seals
		}
	}
	return append(seals, s)
}

// empty is the part as it is at its beginning.
func (p *writtenPart) empty() llm.Raw {
	return (&writtenPart{typ: p.typ, ext: p.ext}).render()
}

// render writes a part of a message or a thought.
func (p *writtenPart) render() llm.Raw {
	o := object{}
	o.str("type", p.typ)
	switch p.typ {
	case "refusal":
		o.raw("refusal", p.text())
	case "output_text":
		o.raw("text", p.text())
		o.raw("annotations", p.notes.end())
		o.raw("logprobs", p.logprobs.end())
	default:
		o.raw("text", p.text())
	}
	o.raw(protocol.CarrierMember, protocol.Carry(p.seals, protocol.OpenAIResponses))
	o.ext(p.ext)
	return o.end()
}

// thoughtPart finds or begins the part of a thought that a delta is for. Another
// vendor's reasoning is shown as a summary, whatever it is: both OpenAI and Open
// Responses have events for that, and they differ in those for the full text.
func (s *streamEncoder) thoughtPart(it *writtenItem, e llm.Delta, to []byte) (*writtenPart, []byte) {
	for _, p := range it.parts {
		if p.key == e.Part {
			return p, to
		}
	}
	typ, added := "summary_text", "response.reasoning_summary_part.added"
	if it.own && e.Form != llm.SummaryReasoning {
		typ, added = "reasoning_text", "response.content_part.added"
	}
	p := it.add(typ)
	p.key = e.Part
	to = append(s.open(added, to), p.at...)
	to = append(append(to, `,"part":`...), p.empty()...)
	return p, closeEvent(to)
}

// endPart writes the last events of a part.
func (s *streamEncoder) endPart(it *writtenItem, p *writtenPart, to []byte) []byte {
	if p.done {
		return to
	}
	p.done = true
	if p.doneType == "" {
		return to
	}
	n := 0
	for _, c := range p.cites {
		raw, ok := encodeAnnotation(c, p.runes)
		if !ok {
			continue
		}
		p.notes.add(raw)
		to = append(s.open("response.output_text.annotation.added", to), p.at...)
		to = strconv.AppendInt(append(to, `,"annotation_index":`...), int64(n), 10)
		to = closeEvent(append(append(to, `,"annotation":`...), raw...))
		n++
	}
	to = append(s.open(p.doneType, to), p.at...)
	to = append(append(append(to, `,"`...), p.doneName...), `":"`...)
	to = append(append(to, p.body...), '"')
	if p.typ == "output_text" {
		to = append(append(to, `,"logprobs":`...), p.logprobs.end()...)
	}
	to = closeEvent(to)
	if it.isCall() {
		return to
	}
	done := "response.content_part.done"
	if p.typ == "summary_text" {
		done = "response.reasoning_summary_part.done"
	}
	to = append(s.open(done, to), p.at...)
	return closeEvent(append(append(to, `,"part":`...), p.render()...))
}

// render writes an item as it is now: fresh at its beginning, or with all that it
// has.
func (it *writtenItem) render(status string, fresh bool) llm.Raw {
	if it.raw != "" {
		return it.raw
	}
	o := object{}
	o.str("id", it.id)
	o.str("type", it.typ)
	switch {
	case it.typ == "message":
		o.str("status", status)
		o.str("role", "assistant")
		o.opt("phase", it.phase)
		o.raw("content", it.list(fresh, "output_text", "refusal"))
	case it.typ == "reasoning":
		o.raw("summary", it.list(fresh, "summary_text"))
		if full := it.list(fresh, "reasoning_text"); full != "[]" {
			o.raw("content", full)
		}
		for _, s := range it.seals {
			if s.Origin == own && !fresh {
				o.str("encrypted_content", s.Data)
			}
		}
	case it.isCall():
		o.str("status", status)
		it.renderCall(&o, fresh)
	default:
		o.str("status", status)
	}
	if !fresh {
		o.raw(protocol.CarrierMember, protocol.Carry(it.seals, protocol.OpenAIResponses))
	}
	for _, m := range it.ext {
		o.raw(m.Name, llm.Raw(m.Value))
	}
	return o.end()
}

func (it *writtenItem) renderCall(o *object, fresh bool) {
	o.str("call_id", it.call.CallID)
	if it.call.Kind == llm.SearchTool {
		o.str("execution", "client")
		o.raw("arguments", searchArguments(it.argumentText(fresh)))
		return
	}
	o.str("name", it.call.Name)
	o.opt("namespace", it.call.Namespace)
	if it.call.Kind == llm.CustomTool {
		o.raw("input", it.argumentText(fresh))
	} else {
		o.raw("arguments", it.argumentText(fresh))
	}
}

func (it *writtenItem) argumentText(fresh bool) llm.Raw {
	if fresh {
		return `""`
	}
	return it.parts[0].text()
}

// list writes the parts of some types.
func (it *writtenItem) list(fresh bool, types ...string) llm.Raw {
	var l list
	for _, p := range it.parts {
		for _, typ := range types {
			if p.typ == typ && !fresh {
				l.add(p.render())
			}
		}
	}
	return l.end()
}
