package openaichat

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// joiner makes text of a JSON string's fragments, which may be cut between the
// halves of a surrogate pair (JSN-07).
type joiner struct{ held string }

// next reads the body of one literal, without its quotation marks.
func (j *joiner) next(body []byte) string {
	if j.held == "" && bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	lit := append([]byte{'"'}, j.held...)
	lit = append(lit, body...)
	j.held = ""
	if n := len(lit) - len(`\ud800`); n > 0 && lit[n] == '\\' && lit[n+1] == 'u' && !escaped(lit[:n]) {
		if v, err := strconv.ParseUint(string(lit[n+2:]), 16, 16); err == nil && utf16.IsSurrogate(rune(v)) && v < 0xdc00 {
			lit, j.held = lit[:n], string(lit[n:])
		}
	}
	out, _ := jsontext.AppendUnquote(nil, append(lit, '"')) // a lone half becomes U+FFFD
	return string(out)
}

// rest is what a half that got no other half amounts to.
func (j *joiner) rest() string {
	if j.held == "" {
		return ""
	}
	j.held = ""
	return "\ufffd"
}

// escaped reports whether what follows b is part of an escape.
func escaped(b []byte) bool {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// quick reads the chunks that most of a stream consists of, one token of text or of
// arguments, without decoding the rest of them. It takes nothing on where a chunk
// is anything else.
func (s *streamDecoder) quick(data []byte, to []llm.Event) ([]llm.Event, bool) {
	if !s.started || !utf8.Valid(data) {
		return to, false
	}
	var choice []byte
	plain := eachMember(data, func(name, value []byte) bool {
		switch string(name) {
		case "choices":
			choice = onlyItem(value)
			return choice != nil
		case "usage", "error", "x_groq":
			return isNull(value)
		}
		return true
	})
	if !plain || choice == nil {
		return to, false
	}
	index, delta := -1, []byte(nil)
	plain = eachMember(choice, func(name, value []byte) bool {
		switch string(name) {
		case "index":
			index = digits(value)
		case "delta":
			delta = value
		case "finish_reason", "logprobs", "usage":
			return isNull(value)
		}
		return true
	})
	r := s.choices[index]
	if !plain || r == nil || delta == nil {
		return to, false
	}
	return r.quick(delta, to)
}

func (r *reading) quick(delta []byte, to []llm.Event) ([]llm.Event, bool) {
	kind, said, calls := textBlock, []byte(nil), []byte(nil)
	plain := eachMember(delta, func(name, value []byte) bool {
		switch {
		case isNull(value) || string(value) == `""` || string(name) == "role":
			return true
		case said != nil || calls != nil:
			return false
		case string(name) == "content" && value[0] == '"':
			said = value
			return isText(value)
		case string(name) == "reasoning_content" && value[0] == '"':
			kind, said = thoughtBlock, value
			return isText(value)
		case string(name) == "tool_calls" && value[0] == '[':
			calls = value
			return true
		}
		return false
	})
	switch {
	case !plain:
		return to, false
	case said != nil:
		return r.say(kind, said, to), true
	case calls != nil:
		return r.quickArgs(onlyItem(calls), to)
	}
	return to, true // a chunk that holds nothing
}

// quickArgs reads a fragment of the arguments of a call that is known by its index.
func (r *reading) quickArgs(item []byte, to []llm.Event) ([]llm.Event, bool) {
	index, args := -1, []byte(nil)
	plain := item != nil && eachMember(item, func(name, value []byte) bool {
		switch string(name) {
		case "index":
			index = digits(value)
			return true
		case "function":
			return value[0] == '{' && eachMember(value, func(name, value []byte) bool {
				if string(name) != "arguments" || value[0] != '"' {
					return isNull(value)
				}
				args = value[1 : len(value)-1]
				return isText(value)
			})
		case "type":
			return true
		}
		return isNull(value)
	})
	c := r.calls.byIndex[int64(index)]
	if !plain || c == nil || !r.slot(c).begun {
		return to, false
	}
	if len(args) == 0 {
		return to, true
	}
	t := wire.JoinedText(args)
	c.add(fragment{index: int64(index), hasIndex: true, text: t})
	return r.addArgs(c, r.slot(c), t, to), true
}

// eachMember walks the members of an object, without looking into them. It reports
// whether data is an object from its first to its last byte and do has taken every
// member.
func eachMember(data []byte, do func(name, value []byte) bool) bool {
	i := space(data, 0)
	if i == len(data) || data[i] != '{' {
		return false
	}
	for i = space(data, i+1); i < len(data) && data[i] == '"'; i = space(data, i+1) {
		end := skipString(data, i)
		name := data[i:max(i, end)]
		colon := space(data, max(i, end))
		if end < 0 || colon == len(data) || data[colon] != ':' {
			return false
		}
		from := space(data, colon+1)
		to := skipValue(data, from)
		if to < 0 || !do(name[1:len(name)-1], data[from:to]) {
			return false
		}
		if i = space(data, to); i == len(data) || data[i] != ',' {
			break
		}
	}
	return i < len(data) && data[i] == '}' && space(data, i+1) == len(data)
}

// onlyItem is the item of a list that has one; nil of any other.
func onlyItem(list []byte) []byte {
	if len(list) < 2 || list[0] != '[' {
		return nil
	}
	from := space(list, 1)
	to := skipValue(list, from)
	if to < 0 || space(list, to) != len(list)-1 {
		return nil
	}
	return list[from:to]
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i, or -1.
func skipString(b []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return -1
		}
		if from += n + 1; !escaped(b[i+1 : from-1]) {
			return from
		}
	}
}

// skipValue returns the end of the value that begins at i, or -1.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	from := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			end := skipString(b, i)
			if end < 0 {
				return -1
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// isText reports whether a string's escapes are good ones.
func isText(value jsontext.Value) bool {
	return bytes.IndexByte(value, '\\') < 0 || value.IsValid(jsontext.AllowInvalidUTF8(true))
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
