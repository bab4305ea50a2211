package anthropic

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

var errNoObject = errors.New("anthropic: an event's data is no object")

// NewStreamDecoder reads an upstream's stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

type streamDecoder struct {
	event         streamEvent
	started, over bool
	open          []*openBlock
	begun         int  // how many blocks the upstream has begun
	next          int  // number of the next block
	called        bool // a call has come whole
	tally         tally
	ext           llm.Ext // members of the answer's end that no field stands for

	reason, sequence string
	details          StopDetails
}

// openBlock is a block that has not ended.
type openBlock struct {
	wire, index int
	block       llm.Block
	held        bool     // the block is shown when it is whole
	raw         wire.Raw // of a held block
	input       []byte   // of a held block
	args        string   // of a call, from its beginning
	got         bool     // a delta has come
	half        string   // of a surrogate pair
}

// Decode reads one event.
func (d *streamDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimSpace(data)
	switch {
	case d.over || string(data) == "[DONE]":
		return to
	case len(data) == 0, data[0] == ':': // a heartbeat dressed as data, SSE-08
		return append(to, llm.Ping{})
	}
	if err := json.Unmarshal(data, &d.event, lenient); err != nil {
		return d.fail(to, badAnswer("the upstream sent an event that is not JSON", err))
	}
	e := &d.event
	if e.typ == "" {
		e.typ = string(name)
	}
	if e.typ == "content_block_delta" && e.deltaType == "" && e.delta != nil { // its type came after it
		if err := json.Unmarshal(e.delta, (*lateDelta)(e), lenient); err != nil {
			return d.fail(to, badAnswer("the upstream sent a delta that cannot be read", err))
		}
	}
	switch {
	case isError(e.typ, e.err):
		return d.fail(to, decodeErrorBody(0, data))
	case e.typ == "content_block_delta":
		return d.delta(to)
	case e.typ == "ping":
		return append(to, llm.Ping{})
	case e.typ == "message_start":
		return d.messageStart(to)
	case e.typ == "content_block_start":
		return d.blockStart(to)
	case e.typ == "content_block_stop":
		return d.blockStop(to, e.index)
	case e.typ == "message_delta":
		return d.messageDelta(to)
	case e.typ == "message_stop":
		return d.messageStop(to)
	}
	return to // ANT-30
}

// Finish is called at the end of the stream. Only message_stop proves the end.
func (d *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if d.over {
		return to
	}
	return d.fail(to, &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated",
		Message: "the upstream's stream ended without the rest of the answer"})
}

func (d *streamDecoder) fail(to []llm.Event, err *llm.Error) []llm.Event {
	d.over = true
	return append(to, llm.Failure{Err: err})
}

// start begins the answer, also where a server has left its beginning out.
func (d *streamDecoder) start(to []llm.Event, w *Response) []llm.Event {
	if d.started {
		return to
	}
	d.started = true
	ext := extOf(w.Extra)
	keepRest(&ext, "usage", d.tally.rest)
	d.tally.rest = wire.Extra{}
	return append(to, llm.Start{ID: w.ID.Value(), Model: w.Model.Value(), Usage: d.tally.neutral(), Tier: d.tally.tier, Ext: ext})
}

func (d *streamDecoder) messageStart(to []llm.Event) []llm.Event {
	var w Response
	if err := responseShape.UnmarshalLenient(d.event.message, &w); err != nil {
		return d.fail(to, badAnswer("the upstream's message_start cannot be read", err))
	}
	if u, ok := w.Usage.Get(); ok {
		d.tally.add(&u)
	}
	return d.start(to, &w)
}

func (d *streamDecoder) blockStart(to []llm.Event) []llm.Event {
	to = d.start(to, &Response{})
	e := &d.event
	if d.find(e.index) != nil {
		to = d.blockStop(to, e.index)
	}
	b, err := decodeBlock(e.block)
	if err != nil {
		return d.fail(to, badAnswer("the upstream began a block that cannot be read", err))
	}
	o := d.opened(b)
	o.raw = e.block
	switch b := b.(type) {
	case *llm.Text:
		text, cited := b.Text, b.Citations
		b.Text, b.Citations = "", nil
		to = d.say(d.begin(to, o), o, text)
		for _, c := range cited {
			to = append(to, llm.Cite{Index: o.index, Citation: c})
		}
	case *llm.Thought:
		text := thoughtText(b)
		b.Parts = nil
		to = d.say(d.begin(to, o), o, text)
	case *llm.ToolCall:
		o.args, b.Args = b.Args, ""
		to = d.begin(to, o)
	default:
		o.held = true
	}
	return to
}

// opened notes that the event's block is open.
func (d *streamDecoder) opened(b llm.Block) *openBlock {
	o := &openBlock{wire: d.event.index, block: b}
	d.open = append(d.open, o)
	d.begun = max(d.begun, o.wire+1)
	return o
}

// begin shows a block and gives it its number.
func (d *streamDecoder) begin(to []llm.Event, o *openBlock) []llm.Event {
	o.index = d.next
	d.next++
	return append(to, llm.BlockStart{Index: o.index, Block: o.block})
}

// say appends text to a block. Empty text says nothing.
func (d *streamDecoder) say(to []llm.Event, o *openBlock, text string) []llm.Event {
	if text == "" {
		return to
	}
	o.got = true
	form := ""
	if _, ok := o.block.(*llm.Thought); ok {
		form = llm.FullReasoning
	}
	return append(to, llm.Delta{Index: o.index, Text: text, Form: form})
}

func (d *streamDecoder) find(index int) *openBlock {
	for _, o := range d.open {
		if o.wire == index {
			return o
		}
	}
	return nil
}

func (d *streamDecoder) delta(to []llm.Event) []llm.Event {
	e := &d.event
	o := d.find(e.index)
	if o == nil {
		if o, to = d.missing(to); o == nil {
			return to
		}
	}
	if o.held {
		o.gather(e)
		return to
	}
	switch o.block.(type) {
	case *llm.Text:
		switch e.deltaType {
		case "text_delta":
			return d.say(to, o, o.text(e))
		case "citations_delta": // ANT-27
			var w wire.Object
			if w.UnmarshalJSON(e.delta) == nil {
				if c, ok := w.Get("citation"); ok && c.Kind() == '{' {
					return append(to, llm.Cite{Index: o.index, Citation: decodeCitation(c)})
				}
			}
		}
	case *llm.Thought:
		switch e.deltaType {
		case "thinking_delta":
			return d.say(to, o, o.text(e))
		case "signature_delta":
			if s := o.text(e); s != "" {
				return append(to, llm.SealDelta{Index: o.index, Seal: llm.Seal{Form: llm.Signature, Data: s, Origin: own}})
			}
		}
	case *llm.ToolCall:
		if e.deltaType == "input_json_delta" {
			return d.say(to, o, o.text(e))
		}
	}
	return to
}

// missing opens the block of a delta where a server has left its beginning out. A
// delta for a block that has ended has none.
func (d *streamDecoder) missing(to []llm.Event) (*openBlock, []llm.Event) {
	var b llm.Block
	switch d.event.deltaType {
	case "text_delta":
		b = &llm.Text{}
	case "thinking_delta":
		b = &llm.Thought{}
	}
	if b == nil || d.event.index < d.begun {
		return nil, to
	}
	o := d.opened(b)
	return o, d.begin(d.start(to, &Response{}), o)
}

// text is the text of a delta, with what the delta before it has left over.
func (o *openBlock) text(e *streamEvent) string {
	body := o.half + e.body
	if !e.escaped && o.half == "" {
		return body
	}
	body, o.half = cutHalf(body)
	return unquote(body)
}

// gather takes a delta of a block that is shown when it is whole. ANT-26
func (o *openBlock) gather(e *streamEvent) {
	o.got = true
	if e.deltaType == "input_json_delta" {
		o.input = append(o.input, o.text(e)...)
		return
	}
	var block, delta wire.Object
	if len(e.delta) == 0 || block.UnmarshalJSON(o.raw) != nil || delta.UnmarshalJSON(e.delta) != nil {
		return
	}
	for _, m := range delta {
		block = block.With(m.Name, m.Value)
	}
	if raw, err := block.MarshalJSON(); err == nil {
		o.raw = raw
	}
}

// whole is a held block with everything that its deltas brought.
func (o *openBlock) whole() llm.Block {
	raw := o.raw
	var block wire.Object
	if in := wire.Raw(o.input); len(in) > 0 && in.IsValid(lenient) && block.UnmarshalJSON(raw) == nil {
		if b, err := block.With("input", in).MarshalJSON(); err == nil {
			raw = b
		}
	}
	if b, err := decodeBlock(raw); err == nil {
		return b
	}
	return o.block
}

func (d *streamDecoder) blockStop(to []llm.Event, index int) []llm.Event {
	o := d.find(index)
	if o == nil {
		return to
	}
	d.open = slices.DeleteFunc(d.open, func(other *openBlock) bool { return other == o })
	if o.held {
		o.block = o.whole()
		to = d.begin(to, o)
		return append(to, llm.BlockEnd{Index: o.index})
	}
	if o.half != "" {
		to = d.say(to, o, unquote(o.half))
	}
	if _, ok := o.block.(*llm.ToolCall); ok {
		d.called = true
		if !o.got { // ANT-03
			if o.args == "" || o.args == "null" {
				o.args = "{}"
			}
			to = d.say(to, o, o.args)
		}
	}
	return append(to, llm.BlockEnd{Index: o.index})
}

func (d *streamDecoder) messageDelta(to []llm.Event) []llm.Event {
	to = d.start(to, &Response{})
	var w Response // the delta has the stop members of an answer
	if len(d.event.delta) > 0 && responseShape.UnmarshalLenient(d.event.delta, &w) == nil {
		if s, ok := w.StopReason.Get(); ok {
			d.reason = s
		}
		if s, ok := w.StopSequence.Get(); ok {
			d.sequence = s.String()
		}
		if s, ok := w.StopDetails.Get(); ok {
			d.details = s
		}
		for _, m := range w.Extra.All() {
			d.ext = without(d.ext, m.Name)
			keep(&d.ext, m.Name, m.Value)
		}
	}
	var u Usage
	if len(d.event.usage) == 0 || usageShape.UnmarshalLenient(d.event.usage, &u) != nil {
		return to
	}
	d.tally.add(&u)
	return append(to, llm.UsageUpdate{Usage: *d.tally.neutral()})
}

func (d *streamDecoder) messageStop(to []llm.Event) []llm.Event {
	to = d.start(to, &Response{})
	for len(d.open) > 0 {
		to = d.blockStop(to, d.open[0].wire)
	}
	d.over = true
	keepRest(&d.ext, "stop_details", d.details.Extra)
	keepRest(&d.ext, "usage", d.tally.rest)
	stop := decodeStop(d.reason, d.sequence, d.details, d.called)
	return append(to, llm.ChoiceEnd{Stop: stop, Ext: d.ext}, llm.End{})
}
