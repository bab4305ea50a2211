package anthropic

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

var errNoObject = errors.New("anthropic: an event's data is no object")

// NewStreamDecoder returns a decoder for one stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

type streamDecoder struct {
	event         streamEvent
	started, over bool
	open          []*openBlock
	begun         int  // number of blocks that the upstream has begun
	next          int  // index of the next block
	called        bool // a complete call came
	tally         tally
	ext           llm.Ext // unknown members of message_delta

	reason, sequence string
	details          StopDetails
}

// Decode decodes one event.
func (d *streamDecoder) Decode(name, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimSpace(data)
	switch {
	case d.over || string(data) == "[DONE]":
		return to
	case len(data) == 0, data[0] == ':': // a heartbeat sent as data, SSE-08
		return append(to, llm.Ping{})
	}
	if err := json.Unmarshal(data, &d.event, wire.Lenient); err != nil {
		return d.fail(to, codec.InvalidResponse("the upstream sent an event that is not JSON", err))
	}
	e := &d.event
	if e.typ == "" {
		e.typ = string(name)
	}
	if e.typ == "content_block_delta" && e.deltaType == "" && e.delta != nil { // its type came after it
		if err := json.Unmarshal(e.delta, (*lateDelta)(e), wire.Lenient); err != nil {
			return d.fail(to, codec.InvalidResponse("the upstream sent a delta that cannot be read", err))
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

// Finish ends the stream. Only message_stop proves that the response is complete.
func (d *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if d.over {
		return to
	}
	return d.fail(to, codec.Truncated())
}

func (d *streamDecoder) fail(to []llm.Event, err *llm.Error) []llm.Event {
	d.over = true
	return append(to, llm.Failure{Err: err})
}

// start emits Start, also if a server omits message_start.
func (d *streamDecoder) start(to []llm.Event, w *Response) []llm.Event {
	if d.started {
		return to
	}
	d.started = true
	ext := kept.Ext(w.Extra)
	kept.KeepRest(&ext, "usage", d.tally.rest)
	d.tally.rest = wire.Extra{}
	return append(to, llm.Start{ID: w.ID.Value(), Model: w.Model.Value(), Usage: d.tally.neutral(), Tier: d.tally.tier, Ext: ext})
}

func (d *streamDecoder) messageStart(to []llm.Event) []llm.Event {
	var w Response
	if err := wire.UnmarshalLenient(d.event.message, &w); err != nil {
		return d.fail(to, codec.InvalidResponse("the upstream's message_start cannot be read", err))
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
	if len(d.open) >= codec.MaxOpenBlocks {
		return d.fail(to, codec.TooManyBlocks())
	}
	b, err := decodeBlock(e.block)
	if err != nil {
		return d.fail(to, codec.InvalidResponse("the upstream began a block that cannot be read", err))
	}
	o := d.opened(b)
	o.raw = e.block
	switch b := b.(type) {
	case *llm.Text:
		text, cited := b.Text, b.Citations
		b.Text, b.Citations = "", nil
		to = d.emitText(d.begin(to, o), o, text)
		for _, c := range cited {
			to = append(to, llm.Cite{Index: o.index, Citation: c})
		}
	case *llm.Thought:
		text := blockcodec.ThoughtText(b)
		b.Parts = nil
		to = d.emitText(d.begin(to, o), o, text)
	case *llm.ToolCall:
		o.args, b.Args = b.Args, ""
		to = d.begin(to, o)
	default:
		o.held = true
	}
	return to
}

// opened records that the event's block is open.
func (d *streamDecoder) opened(b llm.Block) *openBlock {
	o := &openBlock{wire: d.event.index, block: b}
	d.open = append(d.open, o)
	d.begun = max(d.begun, o.wire+1)
	return o
}

// begin emits a block's start and gives it its index.
func (d *streamDecoder) begin(to []llm.Event, o *openBlock) []llm.Event {
	o.index = d.next
	d.next++
	return append(to, llm.BlockStart{Index: o.index, Block: o.block})
}

// emitText emits a text delta unless it is empty.
func (d *streamDecoder) emitText(to []llm.Event, o *openBlock, text string) []llm.Event {
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
			return d.emitText(to, o, o.text(e))
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
			return d.emitText(to, o, o.text(e))
		case "signature_delta":
			if s := o.text(e); s != "" {
				return append(to, llm.SealDelta{Index: o.index, Seal: llm.Seal{Form: llm.Signature, Data: s, Origin: own}})
			}
		}
	case *llm.ToolCall:
		if e.deltaType == "input_json_delta" {
			return d.emitText(to, o, o.text(e))
		}
	}
	return to
}

// missing opens the block of a delta whose content_block_start a server omitted.
// It returns nil for a block that has ended.
func (d *streamDecoder) missing(to []llm.Event) (*openBlock, []llm.Event) {
	var b llm.Block
	switch d.event.deltaType {
	case "text_delta":
		b = &llm.Text{}
	case "thinking_delta":
		b = &llm.Thought{}
	}
	if b == nil || d.event.index < d.begun || len(d.open) >= codec.MaxOpenBlocks {
		return nil, to
	}
	o := d.opened(b)
	return o, d.begin(d.start(to, &Response{}), o)
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
	to = d.emitText(to, o, o.pieces.Rest())
	if _, ok := o.block.(*llm.ToolCall); ok {
		d.called = true
		if !o.got { // ANT-03
			if o.args == "" || o.args == "null" {
				o.args = "{}"
			}
			to = d.emitText(to, o, o.args)
		}
	}
	return append(to, llm.BlockEnd{Index: o.index})
}

func (d *streamDecoder) messageDelta(to []llm.Event) []llm.Event {
	to = d.start(to, &Response{})
	var w Response // message_delta has the stop members of a response
	if len(d.event.delta) > 0 && wire.UnmarshalLenient(d.event.delta, &w) == nil {
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
			if d.ext = blockcodec.Without(d.ext, m.Name); len(d.ext.Members) >= maxKept {
				continue
			}
			kept.Keep(&d.ext, m.Name, m.Value)
		}
	}
	var u Usage
	if len(d.event.usage) == 0 || wire.UnmarshalLenient(d.event.usage, &u) != nil {
		return to
	}
	d.tally.add(&u)
	if counts := d.tally.neutral(); counts != nil {
		to = append(to, llm.UsageUpdate{Usage: *counts})
	}
	return to
}

// maxKept limits how many unknown members of events are kept, because the upstream chooses their
// names.
const maxKept = 64

func (d *streamDecoder) messageStop(to []llm.Event) []llm.Event {
	to = d.start(to, &Response{})
	for len(d.open) > 0 {
		to = d.blockStop(to, d.open[0].wire)
	}
	d.over = true
	kept.KeepRest(&d.ext, "stop_details", d.details.Extra)
	kept.KeepRest(&d.ext, "usage", d.tally.rest)
	stop := decodeStop(d.reason, d.sequence, d.details, d.called)
	return append(to, llm.ChoiceEnd{Stop: stop, Ext: d.ext}, llm.End{})
}
