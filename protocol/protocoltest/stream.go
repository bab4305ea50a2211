package protocoltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// ReadStream decodes a stream as the gateway does: each event, then the last event if it
// is complete except for its blank line, then Finish. It overwrites each event's bytes
// after decoding, so that a decoder which keeps them fails its test.
func ReadStream(c protocol.Translator, r io.Reader) ([]llm.Event, error) {
	d := c.NewStreamDecoder()
	in := sse.NewReader(r, sse.Options{})
	var events []llm.Event
	for {
		e, err := in.Next()
		if err == nil {
			if e.HasData {
				events = decodeOnce(d, e, events)
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return nil, err
		}
		if last, ok := in.Last(); ok && isWhole(last.Data) {
			events = decodeOnce(d, last, events)
		}
		return d.Finish(events), nil
	}
}

func decodeOnce(d protocol.StreamDecoder, e sse.Event, events []llm.Event) []llm.Event {
	data := bytes.Clone(e.Data)
	events = d.Decode(bytes.Clone(e.Name), data, events)
	for i := range data {
		data[i] = 'x'
	}
	return events
}

func isWhole(data []byte) bool {
	data = bytes.TrimSpace(data)
	return string(data) == "[DONE]" || jsontext.Value(data).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// WriteStream encodes events for the client that sent ask.
func WriteStream(c protocol.Translator, ask *llm.Request, events []llm.Event) []byte {
	e := c.NewStreamEncoder(ask)
	var out []byte
	for _, event := range events {
		out = e.Encode(event, out)
	}
	return out
}

// Collect returns the complete response of a stream.
func Collect(events []llm.Event) (*llm.Response, error) {
	var c llm.Collector
	for _, e := range events {
		if err := c.Add(e); err != nil {
			return nil, err
		}
	}
	return c.Response()
}

// ValidateEvents checks that a stream follows the rules that encoders rely on.
func ValidateEvents(events []llm.Event) error {
	var v validator
	for i, e := range events {
		if err := v.Add(e); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return v.Finish()
}

// Bare returns a response without the parts that may differ between a stream and a
// non-streaming response: unknown members, the source's stop reason, the form of a
// function's arguments, and the mark for a generated id.
func Bare(r *llm.Response) *llm.Response {
	c := *r
	c.Ext = llm.Ext{}
	c.Choices = make([]llm.Choice, len(r.Choices))
	for i, choice := range r.Choices {
		choice.Ext, choice.Stop.Raw = llm.Ext{}, ""
		blocks := make([]llm.Block, len(choice.Blocks))
		for j, b := range choice.Blocks {
			blocks[j] = llm.CopyBlock(b)
			blocks[j].Common().Ext = llm.Ext{}
			bareCall(blocks[j])
		}
		choice.Blocks = blocks
		c.Choices[i] = choice
	}
	return &c
}

func bareCall(b llm.Block) {
	call, ok := b.(*llm.ToolCall)
	if !ok {
		return
	}
	call.Synthetic = false
	if call.Kind != llm.CustomTool {
		call.Args = argsFact(call.Args)
	}
}
