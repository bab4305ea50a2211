package openaichat

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// Tap reads chat completions, text completions, embeddings and rerank results,
// which share their id, model, usage and error members.
type Tap struct {
	known    bool           // id and model have come; Azure's first event has none, CST-24
	open     int            // choices that have not finished
	finished map[int64]bool // choices that have finished before the last one
	token    wire.Template  // of the last event without a finish reason, usage or an error
	summary  protocol.Summary
}

// Finished reports whether every choice has its finish reason.
func (t *Tap) Finished() bool { return t.summary.Complete }

// Summary returns what the tap has read so far.
func (t *Tap) Summary() protocol.Summary { return t.summary }

// Event reads one event. Most events hold one token and nothing that the tap
// needs; they are not decoded.
func (t *Tap) Event(data []byte) protocol.Mark {
	data = bytes.TrimLeft(data, " \t")
	switch {
	case len(data) == 0, data[0] == ':': // a heartbeat sent as data, SSE-08
		return protocol.Keepalive
	case data[0] == '[' && string(bytes.TrimSpace(data)) == "[DONE]":
		t.summary.Complete = true
		return protocol.Done
	case t.known && t.isToken(data):
		t.summary.Content = true
		return protocol.Content
	}
	return t.chunk(data)
}

// isToken reports whether an event holds nothing that the tap needs.
func (t *Tap) isToken(data []byte) bool {
	if t.token.Matches(data) {
		return true
	}
	if mayMatter(data) {
		return false
	}
	t.token.Learn(data)
	return true
}

// mayMatter reports whether an event may hold a finish reason, usage, audio or an error.
// Quotes inside JSON strings are escaped, so text cannot look like a member.
func mayMatter(data []byte) bool {
	return hasMember(data, `"`, `finish_reason"`) || hasMember(data, `"`, `usage"`) || hasMember(data, `"`, `audio"`) || hasMember(data, `"er`, `ror"`)
}

// hasMember reports whether an object in data has the member with a value other
// than null. The quoted name is given in two parts; the search is for the second,
// because its first letter is rarer than a quote.
func hasMember(data []byte, first, second string) bool {
	for {
		i := bytes.Index(data, []byte(second))
		if i < 0 {
			return false
		}
		end := i + len(second)
		if !bytes.HasSuffix(data[:i], []byte(first)) {
			data = data[end-1:] // its quote may begin the name
			continue
		}
		data = bytes.TrimLeft(data[end:], " \t\r\n")
		if len(data) == 0 || data[0] != ':' {
			continue
		}
		data = bytes.TrimLeft(data[1:], " \t\r\n")
		if len(data) > 0 && data[0] != 'n' {
			return true
		}
	}
}

// answer holds the members of a chunk or body that the tap reads, as slices of its text.
type answer struct {
	id, model, tier, choices, usage, err wire.Raw
	content                              bool // the choices have text
	finished                             []finished
}

// finished is a choice with a finish reason.
type finished struct {
	index  wire.Count
	reason string
}

// read reads a text once, without a copy: a response may be long.
func (a *answer) read(text []byte) error {
	s := wire.NewScanner(text)
	if s.Kind() != '{' {
		return errors.New("it is not an object")
	}
	for name := range s.Members() {
		switch string(wire.Name(name)) {
		case "id":
			a.id = s.Value()
		case "model":
			a.model = s.Value()
		case "service_tier":
			a.tier = s.Value()
		case "usage":
			a.usage = s.Value()
		case "error":
			a.err = s.Value()
		case "choices":
			start := s.Offset()
			a.readChoices(&s)
			a.choices = text[start:s.Offset()]
		}
	}
	return s.End()
}

func (a *answer) readChoices(s *wire.Scanner) {
	for range s.Items() {
		var index, reason wire.Raw
		for name := range s.Members() {
			switch string(wire.Name(name)) {
			case "index":
				index = s.Value()
			case "finish_reason":
				reason = s.Value()
			case "role", "native_finish_reason", "stop_reason":
			default:
				a.content = a.content || codec.ReadContent(s, "role")
			}
		}
		if r := wire.Scalar(reason); r != "" { // "" is null to some servers, CST-17
			a.finished = append(a.finished, finished{wire.ParseCount(index), r}) // absent or unreadable: the first choice
		}
	}
}

// usage holds the counts of a usage object.
type usage struct {
	prompt, completion, total  wire.TokenCount
	cached, written, reasoning wire.TokenCount
	cacheHit                   wire.TokenCount // DeepSeek's own name for cached tokens
}

// readUsage reads a usage object . Every response has one, so that it is read without the JSON library. It
// reports false if the text or one of its details is of another kind.
func readUsage(text wire.Raw) (u usage, ok bool) {
	if text.Kind() != '{' {
		return u, false
	}
	s, ok := wire.NewScanner(text), true
	for name := range s.Members() {
		switch string(wire.Name(name)) {
		case "prompt_tokens":
			u.prompt = wire.ParseTokenCount(s.Value())
		case "completion_tokens":
			u.completion = wire.ParseTokenCount(s.Value())
		case "total_tokens":
			u.total = wire.ParseTokenCount(s.Value())
		case "prompt_cache_hit_tokens":
			u.cacheHit = wire.ParseTokenCount(s.Value())
		case "prompt_tokens_details":
			ok = ok && mayBeDetails(&s)
			for name := range s.Members() {
				switch string(wire.Name(name)) {
				case "cached_tokens":
					u.cached = wire.ParseTokenCount(s.Value())
				case "cache_write_tokens":
					u.written = wire.ParseTokenCount(s.Value())
				}
			}
		case "completion_tokens_details":
			ok = ok && mayBeDetails(&s)
			for name := range s.Members() {
				if string(wire.Name(name)) == "reasoning_tokens" {
					u.reasoning = wire.ParseTokenCount(s.Value())
				}
			}
		}
	}
	return u, ok && s.End() == nil
}

// mayBeDetails reports whether the next value is an object or null.
func mayBeDetails(s *wire.Scanner) bool { return s.Kind() == '{' || s.Kind() == 'n' }

// neutral converts OpenAI's overlapping counts into neutral counts that do not
// overlap. It returns nil if one of them is impossible.
func (u *usage) neutral() *llm.Usage {
	if min(u.prompt, u.completion, u.cached, u.written, u.reasoning, u.cacheHit) < 0 {
		return nil
	}
	n := &llm.Usage{
		CacheRead:  int64(max(u.cached, u.cacheHit)),
		CacheWrite: int64(u.written),
		Reasoning:  int64(u.reasoning),
	}
	n.Input = max(0, int64(u.prompt)-n.CacheRead-n.CacheWrite)
	n.Output = max(0, int64(u.completion)-n.Reasoning)
	return n
}

func (t *Tap) chunk(data []byte) protocol.Mark {
	var a answer
	if err := a.read(data); err != nil {
		return t.fail(codec.InvalidResponse("the upstream sent an event that is not a chat completion chunk", err))
	}
	t.read(&a)
	t.known = t.summary.ID != ""
	switch {
	case openai.HasValue(a.err): // before choices: an error may come with an empty list, ERR-09
		return t.fail(decodeError(a.err))
	case a.usage.Kind() == '{' && empty(a.choices):
		return protocol.UsageOnly
	}
	return protocol.Content
}

// empty reports whether a list is absent, null or without items.
func empty(list jsontext.Value) bool {
	if list.Kind() == '[' {
		return len(bytes.TrimSpace(list[1:len(list)-1])) == 0
	}
	return len(list) == 0 || list.Kind() == 'n'
}

func (t *Tap) fail(e *llm.Error) protocol.Mark {
	t.summary.Err, t.summary.Complete = e, false
	return protocol.Failed
}

func (t *Tap) read(a *answer) {
	if t.summary.ID == "" {
		t.summary.ID = wire.Scalar(a.id)
	}
	if t.summary.Model == "" {
		t.summary.Model = wire.Scalar(a.model)
	}
	if tier := wire.Scalar(a.tier); tier != "" {
		t.summary.Tier = tier
	}
	for _, f := range a.finished {
		t.finish(int64(f.index), f.reason)
	}
	t.summary.Content = t.summary.Content || a.content
	if bytes.Contains(a.choices, []byte(`"audio"`)) {
		t.summary.Keep(codec.FindIDs(a.choices, "message.audio.id")...)
		t.summary.Keep(codec.FindIDs(a.choices, "delta.audio.id")...)
	}
	if u, ok := readUsage(a.usage); ok {
		t.summary.Usage = u.neutral()
	}
}

// finish notes that a choice has ended. A server may say so twice, CST-18.
func (t *Tap) finish(index int64, reason string) {
	t.summary.Finish = reason
	if t.finished[index] {
		return
	}
	if t.open > 1 {
		if t.finished == nil {
			t.finished = make(map[int64]bool, 1)
		}
		t.finished[index] = true
	}
	t.open--
	t.summary.Complete = t.summary.Complete || t.open <= 0
}

// Body reads a non-streaming response.
func (t *Tap) Body(body []byte) *llm.Error {
	var a answer
	if err := a.read(body); err != nil {
		t.fail(codec.InvalidResponse("the upstream's response is not a complete JSON object", err))
		return t.summary.Err
	}
	t.read(&a)
	if openai.HasValue(a.err) {
		t.fail(decodeError(a.err))
		return t.summary.Err
	}
	t.summary.Complete = true
	return nil
}
