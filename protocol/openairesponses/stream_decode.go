package openairesponses

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// streamDecoder decodes one stream. Items are identified by output_index; their
// ids may differ between events (RSP-09).
type streamDecoder struct {
	started bool
	over    bool
	id      string // of the response
	items   []*readItem
	byIndex map[int64][]*readItem
	byID    map[string][]*readItem
	blocks  int  // number of blocks that have begun
	called  bool // a tool was called
	crowded bool // several items had the same index
	refused bool

	piece piece // kept to spare an allocation per event
}

// piece is an event that adds to an item.
type piece struct {
	Item    jsontext.Value `json:"item_id"`
	Output  int64          `json:"output_index"`
	Content int64          `json:"content_index"`
	Summary int64          `json:"summary_index"`

	Delta      jsontext.Value `json:"delta"`
	Logprobs   jsontext.Value `json:"logprobs"`
	Text       jsontext.Value `json:"text"`      // of output_text.done and its like
	Refusal    jsontext.Value `json:"refusal"`   // of refusal.done
	Arguments  jsontext.Value `json:"arguments"` // of function_call_arguments.done
	Input      jsontext.Value `json:"input"`     // of custom_tool_call_input.done
	Part       jsontext.Value `json:"part"`
	Annotation jsontext.Value `json:"annotation"`
}

func (p *piece) read(data []byte) error {
	*p = piece{Item: p.Item[:0], Output: -1, Delta: p.Delta[:0], Logprobs: p.Logprobs[:0]}
	return json.Unmarshal(data, p, wire.Lenient)
}

// Decode decodes one event.
func (d *streamDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimLeft(data, " \t")
	if d.over || len(data) == 0 || data[0] == ':' || data[0] == '[' { // [DONE] does not prove the end here
		return to
	}
	typ := eventType(name, data)
	switch {
	case bytes.HasSuffix(typ, []byte(".delta")):
		return d.delta(typ, data, to)
	case string(typ) == "error":
		return d.fail(inBand(data), to)
	}
	if err := wire.CheckElements(data); err != nil {
		return d.fail(unreadable(err), to)
	}
	return d.event(string(typ), data, to)
}

// eventType returns the type in the data, or the event's name if the data does
// not begin with its type.
func eventType(name, data []byte) []byte {
	const head = `{"type":"`
	if len(data) > len(head) && string(data[:len(head)]) == head {
		if typ, _, ok := bytes.Cut(data[len(head):], []byte{'"'}); ok {
			return typ
		}
	}
	var e tapped
	if e.pick(data) == nil {
		if typ := wire.Scalar(e.Type); typ != "" {
			return []byte(typ)
		}
		if openai.HasValue(e.Error) {
			return []byte("error")
		}
	}
	return name
}

// delta decodes an event with a piece of text.
func (d *streamDecoder) delta(typ, data []byte, to []llm.Event) []llm.Event {
	e := &d.piece
	if err := e.read(data); err != nil {
		return d.fail(unreadable(err), to)
	}
	switch string(typ) {
	case "response.output_text.delta", "response.refusal.delta":
		refusal := typ[len("response.")] == 'r'
		it := d.item(e, "message", &to)
		if it == nil {
			return to
		}
		p := it.part(e.Content, refusal)
		text := p.join(e.Delta)
		if text == "" {
			return to
		}
		to = append(d.beginPart(it, p, to), llm.Delta{Index: p.block, Text: text})
		return d.logprobs(p, e.Logprobs, to)
	case "response.reasoning_summary_text.delta", "response.reasoning_summary.delta":
		return d.thinking(e, llm.SummaryReasoning, e.Summary, to)
	case "response.reasoning_text.delta", "response.reasoning.delta":
		return d.thinking(e, llm.FullReasoning, e.Content, to)
	case "response.function_call_arguments.delta":
		return d.arguments(d.item(e, "function_call", &to), e.Delta, to)
	case "response.custom_tool_call_input.delta":
		return d.arguments(d.item(e, "custom_tool_call", &to), e.Delta, to)
	}
	return to
}

func (d *streamDecoder) logprobs(p *readPart, raw jsontext.Value, to []llm.Event) []llm.Event {
	if raw.Kind() != '[' {
		return to
	}
	inner := bytes.TrimSpace(raw[1 : len(raw)-1])
	if len(inner) == 0 || !raw.IsValid() {
		return to
	}
	p.logprobs = true
	return append(to, llm.Logprobs{Index: p.block, Raw: llm.Raw(inner)})
}

func (d *streamDecoder) thinking(e *piece, form string, key int64, to []llm.Event) []llm.Event {
	it := d.item(e, "reasoning", &to)
	if it == nil {
		return to
	}
	n, p := it.thought(form, key)
	text := p.join(e.Delta)
	if text == "" {
		return to
	}
	to = d.beginThought(it, to)
	return append(to, llm.Delta{Index: it.block, Text: text, Part: n, Form: form})
}

// event decodes any other event.
func (d *streamDecoder) event(typ string, data []byte, to []llm.Event) []llm.Event {
	switch typ {
	case "response.output_item.added", "response.output_item.done":
		var e struct {
			Output *int64         `json:"output_index"`
			Item   jsontext.Value `json:"item"`
		}
		if err := json.Unmarshal(data, &e, wire.Lenient); err != nil {
			return d.fail(unreadable(err), to)
		}
		if e.Item.Kind() != '{' {
			return to
		}
		index := int64(-1)
		if e.Output != nil {
			index = *e.Output
		}
		if strings.HasSuffix(typ, ".done") {
			return d.itemDone(index, e.Item, to)
		}
		return d.itemAdded(index, e.Item, to)
	case "response.content_part.added", "response.output_text.done", "response.refusal.done", "response.output_text.annotation.added",
		"response.function_call_arguments.done", "response.custom_tool_call_input.done":
		if err := d.piece.read(data); err != nil {
			return d.fail(unreadable(err), to)
		}
		return d.partEvent(typ, &d.piece, to)
	}
	var e tapped
	if err := e.pick(data); err != nil {
		return d.fail(unreadable(err), to)
	}
	if e.Response.Kind() == '{' {
		return d.snapshot(typ, e.Response, to)
	}
	return to
}

// partEvent decodes an event about a part that is not a delta.
func (d *streamDecoder) partEvent(typ string, e *piece, to []llm.Event) []llm.Event {
	kind := "message"
	switch typ {
	case "response.function_call_arguments.done":
		kind = "function_call"
	case "response.custom_tool_call_input.done":
		kind = "custom_tool_call"
	case "response.content_part.added":
		var w Part
		if wire.UnmarshalLenient(e.Part, &w) != nil || !isText(w.Type.Value()) {
			return to // a part of reasoning, or of an unknown type
		}
		if it := d.item(e, kind, &to); it != nil {
			it.addPart(e.Content, w.Type.Value() == "refusal").ext = extOf(w.Extra)
		}
		return to
	}
	it := d.item(e, kind, &to)
	switch {
	case it == nil:
	case typ == "response.output_text.done":
		return d.fill(it, it.part(e.Content, false), wire.Scalar(e.Text), to)
	case typ == "response.refusal.done":
		return d.fill(it, it.part(e.Content, true), wire.Scalar(e.Refusal), to)
	case kind == "function_call":
		return d.fillArguments(it, wire.Scalar(e.Arguments), to)
	case kind == "custom_tool_call":
		return d.fillArguments(it, wire.Scalar(e.Input), to)
	default: // response.output_text.annotation.added
		// Before any text there is no block yet; the item's last event repeats
		// the annotation.
		if p := it.part(e.Content, false); p.block >= 0 && e.Annotation.Kind() == '{' {
			p.cites++
			return append(to, llm.Cite{Index: p.block, Citation: decodeAnnotation(llm.Raw(e.Annotation))})
		}
	}
	return to
}

func isText(typ string) bool { return typ == "output_text" || typ == "refusal" || typ == "text" }

// snapshot decodes a response object: the first one starts the stream, one with a
// final status ends it.
func (d *streamDecoder) snapshot(typ string, raw jsontext.Value, to []llm.Event) []llm.Event {
	var s snapshot
	if err := json.Unmarshal(raw, &s, wire.Lenient); err != nil {
		return d.fail(unreadable(err), to)
	}
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		// The event name says it too, and some servers omit the status.
		s.Status = jsontext.Value(quote(strings.TrimPrefix(typ, "response.")))
	case "response.done":
	default:
		if !openai.HasValue(s.Error) {
			return d.begin(&s, to)
		}
	}
	if err := s.failure(); err != nil && !d.started {
		return d.fail(err, to)
	}
	return d.end(&s, d.members(raw, d.begin(&s, to)))
}

// members decodes the members of the last snapshot that the neutral model has no fields for. Those that
// repeat the request are left out.
func (d *streamDecoder) members(raw jsontext.Value, to []llm.Event) []llm.Event {
	ext := llm.Ext{Protocol: own}
	for _, m := range membersOf(llm.Raw(raw)) {
		if !modelled[m.Name] && !isEcho(m.Name) {
			ext.Members = append(ext.Members, llm.Member{Name: m.Name, Value: llm.Raw(m.Value)})
		}
	}
	if len(ext.Members) == 0 {
		return to
	}
	return append(to, llm.Members{Choice: llm.Whole, Index: llm.Whole, Ext: ext})
}

func (d *streamDecoder) begin(s *snapshot, to []llm.Event) []llm.Event {
	if d.started {
		return to
	}
	d.started, d.id = true, wire.Scalar(s.ID)
	return append(to, llm.Start{ID: d.id, Model: wire.Scalar(s.Model), Created: int64(s.Created), Tier: s.tier()})
}

// end decodes the final response. It emits the output that the events did not
// bring (RSP-05).
func (d *streamDecoder) end(s *snapshot, to []llm.Event) []llm.Event {
	u := s.tokens()
	if u != nil {
		to = append(to, llm.UsageUpdate{Usage: *u}) // also for a response that failed, USE-18
	}
	if err := s.failure(); err != nil && wire.Scalar(s.Status) != "completed" && wire.Scalar(s.Status) != "incomplete" {
		return d.fail(err, to)
	}
	var output []jsontext.Value
	_ = json.Unmarshal(s.Output, &output, wire.Lenient) // null or a missing list has no items
	for i, raw := range output {
		to = d.itemFinal(int64(i), raw, to)
	}
	for _, it := range d.items {
		to = d.closeItem(it, to)
	}
	d.over = true
	return append(to, llm.ChoiceEnd{Stop: d.stop(s)}, llm.End{})
}

func (d *streamDecoder) fail(e *llm.Error, to []llm.Event) []llm.Event {
	d.over = true
	return append(to, llm.Failure{Err: e})
}

// Finish ends the stream.
func (d *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if d.over {
		return to
	}
	return d.fail(codec.Truncated(), to)
}
