package anthropic

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// streamEvent is the data of one event. Nearly all events hold one token of text,
// so it is decoded by hand, and only that text is copied.
type streamEvent struct {
	typ   string
	index int

	deltaType string
	body      string // the JSON literal of the text without quotes

	// Rare members, undecoded.
	delta, message, block, usage, err wire.Raw
}

// UnmarshalJSONFrom implements the JSON library's interface.
func (e *streamEvent) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*e = streamEvent{}
	return members(d, func(name string) error {
		switch name {
		case "type":
			return readWord(d, eventNames, &e.typ)
		case "index":
			v, err := d.ReadValue()
			if n, bad := strconv.Atoi(string(v)); bad == nil {
				e.index = n
			}
			return err
		case "delta":
			if e.typ == "content_block_delta" && d.PeekKind() == '{' {
				return e.readDelta(d)
			}
			return readRaw(d, &e.delta)
		case "message":
			return readRaw(d, &e.message)
		case "content_block":
			return readRaw(d, &e.block)
		case "usage":
			return readRaw(d, &e.usage)
		case "error":
			return readRaw(d, &e.err)
		}
		return d.SkipValue()
	})
}

// readDelta reads the delta of a block. It keeps members other than text, arguments
// and thinking undecoded.
func (e *streamEvent) readDelta(d *jsontext.Decoder) error {
	return members(d, func(name string) error {
		switch name {
		case "type":
			return readWord(d, deltaNames, &e.deltaType)
		case "text", "partial_json", "thinking", "signature":
			v, err := d.ReadValue()
			if err == nil && v.Kind() == '"' {
				e.body = string(v[1 : len(v)-1])
			}
			return err
		}
		var rest wire.Raw
		if err := readRaw(d, &rest); err != nil {
			return err
		}
		o := wire.Object{}
		if e.delta != nil {
			_ = o.UnmarshalJSON(e.delta) // it was written a moment ago
		}
		e.delta, _ = o.With(name, rest).MarshalJSON()
		return nil
	})
}

// lateDelta reads the delta of an event whose type comes after the delta.
type lateDelta streamEvent

// UnmarshalJSONFrom implements the JSON library's interface.
func (e *lateDelta) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	e.delta = nil
	return (*streamEvent)(e).readDelta(d)
}

// members calls read for each member of an object.
func members(d *jsontext.Decoder, read func(name string) error) error {
	if d.PeekKind() != '{' {
		return errNoObject
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		name, known := memberNames[string(v)]
		if !known {
			name = string(v[1 : len(v)-1])
		}
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// The names that need no copy, by their JSON text.
var (
	memberNames = literals("type", "index", "delta", "message", "content_block", "usage", "error",
		"text", "partial_json", "thinking", "signature", "citation")
	eventNames = literals("message_start", "content_block_start", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop", "ping", "error")
	deltaNames = literals("text_delta", "input_json_delta", "thinking_delta", "signature_delta", "citations_delta", "compaction_delta")
)

func literals(words ...string) map[string]string {
	m := make(map[string]string, len(words))
	for _, w := range words {
		m[`"`+w+`"`] = w
	}
	return m
}

// readWord reads a string. It does not copy one that is known.
func readWord(d *jsontext.Decoder, known map[string]string, to *string) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	word, ok := known[string(v)]
	if !ok {
		word = wire.Scalar(v)
	}
	*to = word
	return nil
}

func readRaw(d *jsontext.Decoder, to *wire.Raw) error {
	v, err := d.ReadValue()
	if err == nil && v.Kind() != 'n' {
		*to = v.Clone()
	}
	return err
}

// array returns a JSON array of values.
func array(values []wire.Raw) wire.Raw {
	return append(append([]byte{'['}, bytes.Join(rawBytes(values), []byte{','})...), ']')
}

func rawBytes(values []wire.Raw) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}
