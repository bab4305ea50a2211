package converse

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamDecoder returns a decoder for one stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

type streamDecoder struct {
	started, stopped, over bool
	open                   []*openBlock
	next                   int  // index of the next block
	ended                  int  // positions before it belong to blocks that have ended
	called                 bool // a complete call came
	tally                  tally
}

// Decode decodes one event.
func (d *streamDecoder) Decode(_, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimSpace(data)
	switch {
	case d.over:
		return to
	case len(data) == 0, data[0] == ':':
		return append(to, llm.Ping{})
	}
	var e StreamEvent
	if err := wire.UnmarshalLenient(data, &e); err != nil {
		return d.fail(to, codec.InvalidResponse("the upstream sent an event that is not JSON", err))
	}
	if err := exception(&e, data); err != nil {
		return d.fail(to, err)
	}
	switch {
	case e.ContentBlockDelta.IsSet():
		return d.delta(to, e.ContentBlockDelta.Value())
	case e.MessageStart.IsSet():
		return d.start(to)
	case e.ContentBlockStart.IsSet():
		return d.blockStart(to, e.ContentBlockStart.Value())
	case e.ContentBlockStop.IsSet():
		return d.blockStop(to, position(e.ContentBlockStop.Value().Index))
	case e.MessageStop.IsSet():
		return d.messageStop(to, e.MessageStop.Ptr())
	case e.Metadata.IsSet():
		return d.metadata(to, e.Metadata.Ptr())
	}
	return to
}

// exception returns the error of an event that is an exception, or nil.
func exception(e *StreamEvent, data []byte) *llm.Error {
	for _, m := range e.Extra.All() {
		if strings.HasSuffix(m.Name, "Exception") {
			return decodeErrorBody(0, m.Name, m.Value)
		}
		if m.Name == "error" || m.Name == "message" || m.Name == "__type" {
			return decodeErrorBody(0, "", data)
		}
	}
	return nil
}

// Finish ends the stream. Only messageStop proves that the response is complete; the counts
// that follow may be missing.
func (d *streamDecoder) Finish(to []llm.Event) []llm.Event {
	switch {
	case d.over:
		return to
	case d.stopped:
		d.over = true
		return append(to, llm.End{})
	}
	return d.fail(to, codec.Truncated())
}

func (d *streamDecoder) fail(to []llm.Event, err *llm.Error) []llm.Event {
	d.over = true
	return append(to, llm.Failure{Err: err})
}

func (d *streamDecoder) start(to []llm.Event) []llm.Event {
	if d.started {
		return to
	}
	d.started = true
	return append(to, llm.Start{})
}

// position returns the position of a block.
func position(n wire.Opt[wire.Number]) int {
	i, err := n.Value().Int64()
	if err != nil || i < 0 {
		return 0
	}
	return int(i)
}

func (d *streamDecoder) blockStart(to []llm.Event, w BlockStart) []llm.Event {
	to = d.start(to)
	at := position(w.Index)
	if d.stopped || at < d.ended {
		return to
	}
	if d.find(at) != nil {
		to = d.blockStop(to, at)
	}
	if len(d.open) >= codec.MaxOpenBlocks {
		return d.fail(to, codec.TooManyBlocks())
	}
	o := &openBlock{wire: at}
	start := w.Start.Value()
	switch use, isCall := start.ToolUse.Get(); {
	case isCall && use.Type.Value() == "server_tool_use":
		o.held, o.use = true, use
	case isCall:
		o.block = &llm.ToolCall{Meta: llm.Meta{Ext: kept.Ext(use.Extra), Seals: codec.Uncarry(llm.Raw(use.ExtraContent))},
			CallID: codec.UnwrapID(use.ToolUseID.Value()), Kind: llm.FunctionTool, Name: use.Name.Value()}
	case start.ToolResult.IsSet():
		o.held, o.result = true, start.ToolResult.Value()
	case start.Image.IsSet():
		o.held, o.media = true, &llm.Media{Kind: llm.Image, MIME: mimeOf(llm.Image, start.Image.Value().Format.Value())}
	default:
		return to // the first delta says what it is
	}
	d.open = append(d.open, o)
	if !o.held {
		to = d.begin(to, o)
	}
	return to
}

// begin emits a block's start and gives it its index.
func (d *streamDecoder) begin(to []llm.Event, o *openBlock) []llm.Event {
	o.index = d.next
	d.next++
	return append(to, llm.BlockStart{Index: o.index, Block: o.block})
}

func (d *streamDecoder) find(at int) *openBlock {
	for _, o := range d.open {
		if o.wire == at {
			return o
		}
	}
	return nil
}

func (d *streamDecoder) delta(to []llm.Event, w BlockDelta) []llm.Event {
	to = d.start(to)
	at, delta := position(w.Index), w.Delta.Value()
	if d.stopped || at < d.ended {
		return to
	}
	o := d.find(at)
	if o == nil {
		if len(d.open) >= codec.MaxOpenBlocks {
			return d.fail(to, codec.TooManyBlocks())
		}
		o = &openBlock{wire: at}
		switch {
		case delta.Text.IsSet(), delta.Citation != nil:
			o.block = &llm.Text{}
		case delta.Reasoning.IsSet():
			o.block = &llm.Thought{Meta: llm.Meta{Ext: llm.Ext{Protocol: own}}}
		default:
			return to // a call without its start has no name
		}
		d.open = append(d.open, o)
		to = d.begin(to, o)
	}
	if o.held {
		o.gather(delta)
		return to
	}
	switch o.block.(type) {
	case *llm.Text:
		if delta.Citation.Kind() == '{' {
			return append(to, llm.Cite{Index: o.index, Citation: decodeCitation(delta.Citation)})
		}
		return emit(to, o, o.pieces.Next(delta.Text.Value().Body()), "")
	case *llm.Thought:
		r := delta.Reasoning.Value()
		o.signature.WriteString(r.Signature.Value())
		if data, err := base64.StdEncoding.DecodeString(codec.StandardBase64(r.RedactedContent.Value())); err == nil {
			o.redacted = append(o.redacted, data...)
		}
		return emit(to, o, o.pieces.Next(r.Text.Value().Body()), llm.FullReasoning)
	case *llm.ToolCall:
		return emit(to, o, o.pieces.Next(delta.ToolUse.Value().Input.Value().Body()), "")
	}
	return to
}

// emit emits a text delta unless it is empty.
func emit(to []llm.Event, o *openBlock, text, form string) []llm.Event {
	if text == "" {
		return to
	}
	o.got = true
	return append(to, llm.Delta{Index: o.index, Text: text, Form: form})
}

func (d *streamDecoder) blockStop(to []llm.Event, at int) []llm.Event {
	o := d.find(at)
	if o == nil {
		return to
	}
	d.open = slices.DeleteFunc(d.open, func(other *openBlock) bool { return other == o })
	if len(d.open) == 0 {
		d.ended = max(d.ended, at+1)
	}
	if o.held {
		o.block = o.whole()
		return append(d.begin(to, o), llm.BlockEnd{Index: o.index})
	}
	form := ""
	switch o.block.(type) {
	case *llm.ToolCall:
		d.called = true
	case *llm.Thought:
		form = llm.FullReasoning
	}
	to = emit(to, o, o.pieces.Rest(), form)
	if _, ok := o.block.(*llm.ToolCall); ok && !o.got {
		to = append(to, llm.Delta{Index: o.index, Text: "{}"})
	}
	if o.signature.Len() > 0 {
		for _, seal := range signatureSeals(o.signature.String()) {
			to = append(to, llm.SealDelta{Index: o.index, Seal: seal})
		}
	}
	if len(o.redacted) > 0 {
		to = append(to, llm.SealDelta{Index: o.index, Seal: llm.Seal{Form: llm.Redacted, Data: base64.StdEncoding.EncodeToString(o.redacted), Origin: own}})
	}
	return append(to, llm.BlockEnd{Index: o.index})
}

// signatureSeals returns the seals of a signature: the vendor's, or those that the gateway
// has wrapped.
func signatureSeals(s string) []llm.Seal {
	if foreign, ok := codec.Unwrap(s); ok {
		return foreign
	}
	return []llm.Seal{{Form: llm.Signature, Data: s, Origin: own}}
}

func (d *streamDecoder) messageStop(to []llm.Event, w *Response) []llm.Event {
	to = d.start(to)
	if d.stopped {
		return to
	}
	for len(d.open) > 0 {
		to = d.blockStop(to, d.open[0].wire)
	}
	d.stopped = true
	end := llm.ChoiceEnd{Stop: decodeStop(w, d.called), Ext: kept.Ext(withoutPadding(w.Extra))}
	keepAdditional(&end.Ext, w)
	return append(to, end)
}

// metadata ends the stream with the counts.
func (d *streamDecoder) metadata(to []llm.Event, w *Response) []llm.Event {
	d.tally.add(w)
	if d.tally.usage != nil {
		to = append(d.start(to), llm.UsageUpdate{Usage: *d.tally.usage, Tier: d.tally.tier})
	}
	if !d.stopped {
		return to
	}
	if ext := kept.Ext(withoutPadding(w.Extra)); len(ext.Members) > 0 {
		to = append(to, llm.Members{Choice: llm.Whole, Index: llm.Whole, Ext: ext})
	}
	d.over = true
	return append(to, llm.End{})
}

// withoutPadding returns unknown members without the padding that the vendor adds to
// events, so that their sizes do not tell their texts.
func withoutPadding(extra wire.Extra) wire.Extra {
	extra.Delete("p")
	return extra
}
