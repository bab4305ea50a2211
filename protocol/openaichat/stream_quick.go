package openaichat

import (
	"strconv"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// quick reads the chunks that most of a stream consists of, one token of text or of
// arguments, without decoding the rest of them. It reports false and changes nothing
// where a chunk is anything else.
func (d *streamDecoder) quick(data []byte, to []llm.Event) ([]llm.Event, bool) {
	if !d.started || !utf8.Valid(data) {
		return to, false
	}
	chunk := wire.NewScanner(data)
	if chunk.Kind() != '{' {
		return to, false
	}
	var choice quickChoice
	for name := range chunk.Members() {
		var plain bool
		switch string(name) {
		case "choices":
			choice, plain = scanChoices(&chunk, data)
		case "usage", "error":
			plain = chunk.Kind() == 'n'
		case "id":
			plain = d.hasID || string(chunk.Value()) == `""`
		case "model":
			plain = d.hasModel || string(chunk.Value()) == `""`
		case "created":
			plain = d.hasCreated || wire.ParseCount(chunk.Value()) <= 0
		case "object", "obfuscation":
			plain = true
		default:
			plain = d.seen.repeats(name, chunk.Value())
		}
		if !plain {
			return to, false
		}
	}
	r := d.choices[choice.index]
	if chunk.End() != nil || r == nil || choice.delta == nil || choice.others && !r.repeats(choice.raw) {
		return to, false
	}
	return r.quick(choice.delta, to)
}

// quickChoice is what quick reads of a choice.
type quickChoice struct {
	raw, delta wire.Raw
	index      int
	others     bool // it has members besides those that quick knows
}

// scanChoices reads the choices of a chunk. It reports false unless there is exactly
// one, which adds only a delta.
func scanChoices(s *wire.Scanner, data []byte) (c quickChoice, ok bool) {
	c.index = -1
	if s.Kind() != '[' {
		return c, false
	}
	for i := range s.Items() {
		if i > 0 || s.Kind() != '{' {
			return c, false
		}
		start := s.Offset()
		for name := range s.Members() {
			switch string(name) {
			case "index":
				c.index = digits(s.Value())
			case "delta":
				c.delta = s.Value()
			case "finish_reason", "logprobs", "usage":
				if s.Kind() != 'n' {
					return c, false
				}
			default:
				c.others = true
			}
		}
		c.raw = data[start:s.Offset()]
	}
	return c, c.delta.Kind() == '{'
}

func (r *choiceDecoder) quick(delta wire.Raw, to []llm.Event) ([]llm.Event, bool) {
	kind, said, calls := textBlock, wire.Raw(nil), wire.Raw(nil)
	s := wire.NewScanner(delta)
	for name := range s.Members() {
		value := s.Value()
		switch {
		case isNull(value) || string(value) == `""` || string(name) == "role":
		case said != nil || calls != nil:
			return to, false
		case string(name) == "content" && value[0] == '"':
			said = value
		case string(name) == "reasoning_content" && value[0] == '"':
			kind, said = thoughtBlock, value
		case string(name) == "tool_calls" && value[0] == '[':
			calls = value
		default:
			return to, false
		}
	}
	switch {
	case said != nil:
		return r.appendText(kind, said, to), true
	case calls != nil:
		return r.quickArgs(onlyItem(calls), to)
	}
	return to, true // a chunk that holds nothing
}

// quickArgs reads a fragment of the arguments of a call that is known by its index.
func (r *choiceDecoder) quickArgs(item wire.Raw, to []llm.Event) ([]llm.Event, bool) {
	if item.Kind() != '{' {
		return to, false
	}
	index, args := -1, wire.Raw(nil)
	s := wire.NewScanner(item)
	for name := range s.Members() {
		switch string(name) {
		case "index":
			index = digits(s.Value())
		case "function":
			if s.Kind() != '{' {
				return to, false
			}
			for name := range s.Members() {
				switch value := s.Value(); {
				case string(name) == "arguments" && value[0] == '"':
					args = value[1 : len(value)-1]
				case !isNull(value):
					return to, false
				}
			}
		case "type":
		default:
			if s.Kind() != 'n' {
				return to, false
			}
		}
	}
	c := r.calls.byIndex[int64(index)]
	if c == nil || !r.callState(c).begun {
		return to, false
	}
	if len(args) == 0 {
		return to, true
	}
	t := wire.JoinedText(args)
	c.add(fragment{index: int64(index), hasIndex: true, text: t})
	return r.addArgs(c, r.callState(c), t, to), true
}

// onlyItem returns the item of an array that has exactly one, else nil.
func onlyItem(array wire.Raw) (item wire.Raw) {
	s := wire.NewScanner(array)
	if s.Kind() != '[' {
		return nil
	}
	for i := range s.Items() {
		if i > 0 {
			return nil
		}
		item = s.Value()
	}
	return item
}

func isNull(value []byte) bool { return string(value) == "null" }

// digits reads a small number; -1 of anything else.
func digits(value []byte) int {
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return -1
	}
	return n
}
