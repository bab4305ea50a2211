package openairesponses

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// reportLosses reports what a response cannot hold.
func reportLosses(resp *llm.Response, report *llm.Report) {
	codec.DropExt(report, "response", resp.Ext, protocol.OpenAIResponses)
	_ = openai.Tier(resp.Tier, report)
	if len(resp.Choices) > 1 {
		report.Drop("choices", "choices.dropped", "a response has one choice; the others are dropped")
	}
	for i := range resp.Choices[:min(1, len(resp.Choices))] {
		c := &resp.Choices[i]
		codec.DropExt(report, "choices", c.Ext, protocol.OpenAIResponses)
		refused := false
		for _, b := range c.Blocks {
			_, words := b.(*llm.Refusal)
			refused = refused || words
			reportBlock(b, report)
		}
		openai.ReportStop(stops, c.Stop, refused, report)
	}
}

func reportBlock(b llm.Block, report *llm.Report) {
	const path = "choices.blocks"
	switch b := b.(type) {
	case *llm.Text:
		for _, cite := range b.Citations {
			if _, ok := encodeAnnotation(cite, 0); !ok {
				report.Drop(path+".citations", "citation.no_url", "a citation without an address has no place in a response")
			}
		}
	case *llm.Refusal:
		if b.Logprobs != "" {
			report.Drop(path+".logprobs", "logprobs.unsupported", "a refusal has no log probabilities in a response")
		}
	case *llm.Media:
		if newItem(b) == nil {
			report.Drop(path, "media.unsupported", "a response can hold images only, and only as data")
			return
		}
	case *llm.ServerCall:
		if b.Protocol != own {
			report.Drop(path, "server_tool.dropped", "the item "+b.Type+" of another vendor is left out")
			return
		}
	case *llm.Opaque:
		if b.Protocol != own {
			report.Drop(path, "block.unknown", "the block "+b.Type+" of another vendor is left out")
			return
		}
	}
	codec.DropExt(report, path, b.Common().Ext, protocol.OpenAIResponses)
}

// modelled lists the members of a response that the neutral model has fields for.
var modelled = map[string]bool{
	"id": true, "object": true, "created_at": true, "status": true, "error": true, "incomplete_details": true,
	"model": true, "output": true, "usage": true, "service_tier": true,
}

// EncodeResponse encodes a response as the snapshot that would end its stream.
func (Codec) EncodeResponse(resp *llm.Response, req *llm.Request, report *llm.Report) []byte {
	s := newStreamEncoder(req)
	s.whole = true
	reportLosses(resp, report)
	var scratch []byte
	for _, e := range llm.Explode(resp) {
		scratch = s.Encode(e, scratch[:0])
	}
	return s.last
}

// writtenItem is an item of a response that is being written.
type writtenItem struct {
	typ    string
	index  int
	id     string
	source string // the source's id of a message
	phase  string
	parts  []*writtenPart // of a message or a thought; a call's arguments
	ended  int            // parts that are done
	call   *llm.ToolCall
	own    bool // a thought of this protocol, whose forms are kept

	summaries int // parts of a thought that are of its summary
	seals     []llm.Seal
	ext       wire.Object
	raw       llm.Raw // the complete item, if it is sent unchanged
	done      llm.Raw // the item as its last event had it
}

// writtenPart is a part of a message or a thought, or a call's arguments.
type writtenPart struct {
	typ       string // type on the wire; empty for arguments
	key       int    // index of a thought's part in the neutral model
	at        string // members that locate the part
	prefix    string // at, and the name of the delta
	deltaType string
	doneType  string
	doneName  string // name of the member with the complete text
	body      []byte // the JSON literal of the text without quotes
	runes     int
	cites     []llm.Citation
	notes     list // the citations as they were written
	logprobs  list
	seals     []llm.Seal
	ext       llm.Ext
	done      bool
}

// newItem returns the item of a block that is not part of a message; nil if this
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

// rename gives an item that is sent unchanged another id.
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
	n := len(it.parts) - it.summaries
	if typ == "summary_text" {
		n = it.summaries
		it.summaries++
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

// arguments begins a call's arguments; nil for other items. The arguments of a
// tool search have no events of their own.
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

// seal keeps a seal until the end of its block.
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

// empty returns the part as its first event has it.
func (p *writtenPart) empty() []byte {
	return (&writtenPart{typ: p.typ, ext: p.ext}).render()
}

// render encodes a part of a message or a thought.
func (p *writtenPart) render() []byte {
	o := object{text: make([]byte, 0, len(p.body)+256)}
	o.str("type", p.typ)
	switch p.typ {
	case "refusal":
		o.literal("refusal", p.body)
	case "output_text":
		o.literal("text", p.body)
		o.raw("annotations", p.notes.end())
		o.raw("logprobs", p.logprobs.end())
	default:
		o.literal("text", p.body)
	}
	o.raw(codec.CarrierMember, codec.Carry(p.seals, protocol.OpenAIResponses))
	o.ext(p.ext)
	return o.close()
}

// thoughtPart finds or begins the part of a thought that a delta belongs to.
// Reasoning of another vendor is sent as a summary: OpenAI and Open Responses
// share those events, but differ in those for the full text.
func (s *streamEncoder) thoughtPart(it *writtenItem, e llm.Delta, to []byte) (*writtenPart, []byte) {
	for _, p := range slices.Backward(it.parts) { // mostly the last one
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
	it.ended++
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
	if s.whole {
		return to
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

// render encodes an item: without its content if fresh, otherwise complete.
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
		o.bytes("content", it.list(fresh, "output_text", "refusal"))
	case it.typ == "reasoning":
		o.bytes("summary", it.list(fresh, "summary_text"))
		if full := it.list(fresh, "reasoning_text"); len(full) > len("[]") {
			o.bytes("content", full)
		}
		if !fresh {
			o.opt("encrypted_content", it.sealed())
		}
	case it.isCall():
		o.str("status", status)
		it.renderCall(&o, fresh)
	default:
		o.str("status", status)
	}
	if seal, _ := (&llm.Meta{Seals: it.seals}).SealFor(own); !fresh && (it.typ != "reasoning" || seal.Data != "") {
		o.raw(codec.CarrierMember, codec.Carry(it.seals, protocol.OpenAIResponses))
	}
	for _, m := range it.ext {
		o.raw(m.Name, llm.Raw(m.Value))
	}
	return o.end()
}

// sealed returns the encrypted content of a reasoning item. That of another vendor's reasoning is a text of the gateway:
// clients send it back and drop unknown members, and it shows that OpenAI cannot read the item.
func (it *writtenItem) sealed() string {
	if seal, ok := (&llm.Meta{Seals: it.seals}).SealFor(own); ok {
		return seal.Data
	}
	if it.own {
		return ""
	}
	return cmp.Or(codec.Wrap(it.seals, protocol.OpenAIResponses), codec.Unsealed)
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

// list encodes the parts of some types.
func (it *writtenItem) list(fresh bool, types ...string) []byte {
	var l list
	for _, p := range it.parts {
		for _, typ := range types {
			if p.typ == typ && !fresh {
				l.next()
				l = append(l, p.render()...)
			}
		}
	}
	return l.close()
}

// unknownTier is what OpenAI sends while the tier is unknown. The member is
// required.
const unknownTier = "auto"

// appendUsage encodes the token counts with all their details (RSP-37), or null
// while they are unknown.
func appendUsage(to []byte, u *llm.Usage, status string) []byte {
	if u == nil || status == "in_progress" {
		return append(to, "null"...)
	}
	to = strconv.AppendInt(append(to, `{"input_tokens":`...), u.TotalInput(), 10)
	to = strconv.AppendInt(append(to, `,"input_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	to = strconv.AppendInt(append(to, `,"cache_write_tokens":`...), u.CacheWrite, 10)
	to = strconv.AppendInt(append(to, `},"output_tokens":`...), u.TotalOutput(), 10)
	to = strconv.AppendInt(append(to, `,"output_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	to = strconv.AppendInt(append(to, `},"total_tokens":`...), u.TotalInput()+u.TotalOutput(), 10)
	return append(to, '}')
}

// defaults are the values of required members of a response that the request does
// not set. Nothing is stored in OpenAI's way (RSP-19).
var defaults = []llm.Member{
	{Name: "completed_at", Value: "null"}, {Name: "instructions", Value: "null"}, {Name: "max_output_tokens", Value: "null"},
	{Name: "max_tool_calls", Value: "null"}, {Name: "parallel_tool_calls", Value: "true"}, {Name: "previous_response_id", Value: "null"},
	{Name: "reasoning", Value: `{"effort":null,"summary":null}`}, {Name: "store", Value: "false"}, {Name: "background", Value: "false"},
	{Name: "temperature", Value: "1.0"}, {Name: "top_p", Value: "1.0"}, {Name: "presence_penalty", Value: "0"},
	{Name: "frequency_penalty", Value: "0"}, {Name: "top_logprobs", Value: "0"}, {Name: "text", Value: `{"format":{"type":"text"}}`},
	{Name: "tool_choice", Value: `"auto"`}, {Name: "tools", Value: "[]"}, {Name: "truncation", Value: `"disabled"`},
	{Name: "user", Value: "null"}, {Name: "safety_identifier", Value: "null"}, {Name: "prompt_cache_key", Value: "null"},
	{Name: "metadata", Value: "{}"},
}
