package anthropic

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// streamEvent is the data of one event of a stream. Nearly all events hold one
// token of text, so it is read by hand, and the one string that matters is the one
// that is copied.
type streamEvent struct {
	typ   string
	index int

	deltaType string
	body      string // of the text's literal, without its quotation marks
	escaped   bool   // body holds escapes

	// Rare members, as they came.
	delta, message, block, usage, err wire.Raw
}

// UnmarshalJSONFrom is called by the library.
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

// readDelta reads the delta of a block. What is not text, arguments or thinking is
// kept as it came.
func (e *streamEvent) readDelta(d *jsontext.Decoder) error {
	return members(d, func(name string) error {
		switch name {
		case "type":
			return readWord(d, deltaNames, &e.deltaType)
		case "text", "partial_json", "thinking", "signature":
			v, err := d.ReadValue()
			if err == nil && v.Kind() == '"' {
				e.body = string(v[1 : len(v)-1])
				e.escaped = bytes.IndexByte(v, '\\') >= 0
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

// lateDelta reads the delta of an event whose type was not known in time.
type lateDelta streamEvent

// UnmarshalJSONFrom is called by the library.
func (e *lateDelta) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	e.delta = nil
	return (*streamEvent)(e).readDelta(d)
}

// members reads an object, one member at a time.
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

// The words that spare a copy, by their literals.
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

// readWord reads a string that is one of few.
func readWord(d *jsontext.Decoder, known map[string]string, to *string) error {
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	word, ok := known[string(v)]
	if !ok {
		word = scalar(v)
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

// cutHalf splits off the first half of a surrogate pair at the end of a literal's
// body, whose other half comes with the next delta. JSN-07
func cutHalf(body string) (whole, half string) {
	const length = len(`\ud83d`)
	if len(body) < length {
		return body, ""
	}
	end := body[len(body)-length:]
	if end[0] != '\\' || end[1] != 'u' || end[2]|0x20 != 'd' || !bytes.ContainsRune([]byte("89abAB"), rune(end[3])) {
		return body, ""
	}
	slashes := 0
	for i := len(body) - length - 1; i >= 0 && body[i] == '\\'; i-- {
		slashes++
	}
	if slashes%2 == 1 {
		return body, "" // the backslash is itself escaped
	}
	return body[:len(body)-length], end
}

// unquote is the text of a literal's body.
func unquote(body string) string {
	lit := make([]byte, 0, len(body)+2)
	lit = append(append(append(lit, '"'), body...), '"')
	text, _ := jsontext.AppendUnquote(lit[:0:0], lit) // halves of pairs are replaced
	return string(text)
}
