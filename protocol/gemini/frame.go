package gemini

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
)

// lenient is how an answer is read that is not our own: what is not needed may be
// as odd as it likes.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// frame is one event of a stream, or a whole answer: what matters of it, read
// token by token because most events hold a few characters and are many. It is
// used again for the next event.
type frame struct {
	data       []byte
	named      bool // id and model are known, and are not read again
	id, model  string
	created    string
	candidates []candidate
	blocked    string
	usage      usage
	hasUsage   bool
	err        jsontext.Value
}

// candidate is what an event adds to one choice.
type candidate struct {
	index     int
	parts     []part
	finish    string
	message   string
	grounding jsontext.Value
	citations jsontext.Value
}

// part is a part of an answer. One that is more than text has its JSON in raw.
type part struct {
	text      string
	hasText   bool
	thought   bool
	signature string
	raw       []byte
}

// read fills the frame. Its slices of bytes are valid as long as data is.
func (f *frame) read(data []byte) error {
	f.data = data
	f.candidates = f.candidates[:0]
	f.blocked, f.err = "", nil
	return json.Unmarshal(data, f, lenient)
}

// UnmarshalJSONFrom is called by the library, which has decoders to lend.
func (f *frame) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return errors.New("the answer is no object")
	}
	return object(d, func(name []byte) (err error) {
		switch string(name) {
		case `"candidates"`:
			return f.list(d, func(int) error { return f.candidate(d) })
		case `"promptFeedback"`:
			return object(d, func(name []byte) (err error) {
				if string(name) == `"blockReason"` {
					f.blocked, err = text(d)
					return err
				}
				return d.SkipValue()
			})
		case `"usageMetadata"`:
			f.hasUsage = f.hasUsage || d.PeekKind() == '{'
			return f.usage.read(d)
		case `"error"`:
			f.err, err = f.raw(d)
			return err
		}
		if f.named {
			return d.SkipValue()
		}
		switch string(name) {
		case `"responseId"`:
			f.id, err = text(d)
		case `"modelVersion"`:
			f.model, err = text(d)
		case `"createTime"`:
			f.created, err = text(d)
		default:
			err = d.SkipValue()
		}
		return err
	})
}

func (f *frame) candidate(d *jsontext.Decoder) error {
	// Slots are used again, with the memory that their parts have.
	if n := len(f.candidates); n < cap(f.candidates) {
		f.candidates = f.candidates[:n+1]
		f.candidates[n] = candidate{parts: f.candidates[n].parts[:0]}
	} else {
		f.candidates = append(f.candidates, candidate{})
	}
	c := &f.candidates[len(f.candidates)-1]
	return object(d, func(name []byte) (err error) {
		switch string(name) {
		case `"content"`:
			return object(d, func(name []byte) error {
				if string(name) == `"parts"` {
					return f.list(d, func(from int) error { return f.part(d, c, from) })
				}
				return d.SkipValue()
			})
		case `"index"`:
			var n int64
			n, err = count(d)
			c.index = int(min(n, maxChoice))
		case `"finishReason"`:
			c.finish, err = text(d)
		case `"finishMessage"`:
			c.message, err = text(d)
		case `"groundingMetadata"`:
			c.grounding, err = f.raw(d)
		case `"citationMetadata"`:
			c.citations, err = f.raw(d)
		default:
			err = d.SkipValue()
		}
		return err
	})
}

// maxChoice bounds the number of choices that an answer may talk of.
const maxChoice = 127

func (f *frame) part(d *jsontext.Decoder, c *candidate, from int) error {
	var p part
	complex := d.PeekKind() != '{'
	err := object(d, func(name []byte) (err error) {
		switch string(name) {
		case `"text"`:
			p.hasText = d.PeekKind() == '"'
			p.text, err = text(d)
		case `"thought"`:
			p.thought = d.PeekKind() == 't'
			err = d.SkipValue()
		case `"thoughtSignature"`:
			p.signature, err = text(d)
		default:
			complex = true
			err = d.SkipValue()
		}
		return err
	})
	if complex {
		p.raw = bytes.TrimLeft(f.data[from:d.InputOffset()], ", \t\r\n")
	}
	c.parts = append(c.parts, p)
	return err
}

// raw returns a value as a part of the frame's data.
func (f *frame) raw(d *jsontext.Decoder) (jsontext.Value, error) {
	v, err := d.ReadValue()
	end := int(d.InputOffset())
	if err != nil || v.Kind() == 'n' {
		return nil, err
	}
	return f.data[end-len(v) : end], nil
}

// object calls member for each member of the object that comes next. Anything
// else that comes next is passed over.
func object(d *jsontext.Decoder, member func(name []byte) error) error {
	if d.PeekKind() != '{' {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// list calls item for each item of the list that comes next, with the offset
// behind which it begins. One item without its list counts as a list.
func (f *frame) list(d *jsontext.Decoder, item func(from int) error) error {
	switch d.PeekKind() {
	case '{':
		return item(int(d.InputOffset()) + 1) // behind the colon
	case '[':
	default:
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := item(int(d.InputOffset())); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// text reads a string; anything else has no text.
func text(d *jsontext.Decoder) (string, error) {
	v, err := d.ReadValue()
	if err != nil || v.Kind() != '"' {
		return "", err
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), nil
	}
	s, _ := jsontext.AppendUnquote(nil, v) // half a surrogate pair becomes U+FFFD
	return string(s), nil
}

// count reads a whole number, which may stand between quotes (JSN-18). Anything
// else counts zero.
func count(d *jsontext.Decoder) (int64, error) {
	v, err := d.ReadValue()
	if err != nil {
		return 0, err
	}
	s := string(bytes.Trim(v, `"`))
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return max(n, 0), nil
	}
	if n, err := strconv.ParseFloat(s, 64); err == nil && n > 0 && n < 1<<62 {
		return int64(n), nil
	}
	return 0, nil
}

// usage are the counts as they are on the wire. Reading keeps what an event does
// not mention (USE-14).
type usage struct {
	prompt, cached, candidates, thoughts, tools int64
}

func (u *usage) read(d *jsontext.Decoder) error {
	return object(d, func(name []byte) (err error) {
		switch string(name) {
		case `"promptTokenCount"`:
			u.prompt, err = count(d)
		case `"cachedContentTokenCount"`:
			u.cached, err = count(d)
		case `"candidatesTokenCount"`:
			u.candidates, err = count(d)
		case `"thoughtsTokenCount"`:
			u.thoughts, err = count(d)
		case `"toolUsePromptTokenCount"`:
			u.tools, err = count(d)
		default:
			err = d.SkipValue()
		}
		return err
	})
}

// neutral sorts the counts into classes that do not overlap.
func (u *usage) neutral() *llm.Usage {
	return &llm.Usage{
		Input:     max(0, u.prompt-u.cached) + u.tools,
		CacheRead: u.cached,
		Output:    u.candidates,
		Reasoning: u.thoughts,
	}
}
