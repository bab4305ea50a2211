package openaichat

import (
	"strconv"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder writes chunks for the client that asked.
func (Codec) NewStreamEncoder(ask *llm.Request) protocol.StreamEncoder {
	return &streamEncoder{usage: ask.IncludeUsage, legacy: legacy(ask), choices: map[int]*written{}}
}

// streamEncoder writes neutral events as chunks.
type streamEncoder struct {
	usage   bool   // the client asked for it
	legacy  bool   // the client knows only function_call
	head    []byte // what every chunk begins with
	choices map[int]*written
	counts  *llm.Usage
	over    bool
}

// written is what the client has got of one choice.
type written struct {
	begun   bool
	blocks  []block
	calls   int
	runes   int // code points of the content so far
	details int // elements of reasoning_details so far
	refused bool
}

// block is what later events of a block need.
type block struct {
	kind     blockKind
	call     int  // the call's index among the choice's calls
	args     bool // some were written
	start    int  // where a text begins in the content
	callKind llm.ToolKind
	seals    []llm.Seal
}

type blockKind int

const (
	textBlock blockKind = iota
	refusalBlock
	thoughtBlock
	callBlock
	otherBlock
)

// Encode appends what an event means to the client.
func (s *streamEncoder) Encode(e llm.Event, to []byte) []byte {
	if s.over {
		return to
	}
	switch e := e.(type) {
	case llm.Start:
		s.start(e)
	case llm.BlockStart:
		return s.begin(e, to)
	case llm.Delta:
		return s.delta(e, to)
	case llm.SealDelta:
		b := s.block(e.Choice, e.Index)
		b.seals = append(b.seals, e.Seal)
	case llm.Cite:
		return s.cite(e, to)
	case llm.Logprobs:
		return s.logprobs(e, to)
	case llm.BlockEnd:
		return s.end(e, to)
	case llm.UsageUpdate:
		s.counts = &e.Usage
	case llm.ChoiceEnd:
		return s.finish(e, to)
	case llm.End:
		s.over = true
		return s.close(to)
	case llm.Failure:
		s.over = true
		return append(to, Codec{}.EncodeStreamError(e.Err)...)
	case llm.Ping:
		return sse.AppendComment(to, "keep-alive")
	}
	return to
}

func (s *streamEncoder) start(e llm.Start) {
	b := appendString([]byte(`data: {"id":`), e.ID)
	b = append(b, `,"object":"chat.completion.chunk","created":`...)
	b = strconv.AppendInt(b, e.Created, 10)
	b = appendString(append(b, `,"model":`...), e.Model)
	if e.Tier != "" {
		b = appendString(append(b, `,"service_tier":`...), e.Tier)
	}
	b = append(b, `,"choices":[`...)
	s.head = b
}

func (s *streamEncoder) choice(index int) *written {
	c := s.choices[index]
	if c == nil {
		c = &written{}
		s.choices[index] = c
	}
	return c
}

func (s *streamEncoder) block(choice, index int) *block {
	c := s.choice(choice)
	for len(c.blocks) <= index {
		c.blocks = append(c.blocks, block{kind: otherBlock})
	}
	return &c.blocks[index]
}

// open begins a chunk up to the delta's members, the role among them in a choice's
// first chunk.
func (s *streamEncoder) open(choice int, to []byte) []byte {
	to = append(to, s.head...)
	to = append(to, `{"index":`...)
	to = strconv.AppendInt(to, int64(choice), 10)
	to = append(to, `,"delta":{`...)
	if c := s.choice(choice); !c.begun {
		c.begun = true
		to = append(to, `"role":"assistant",`...)
	}
	return to
}

// shut ends a chunk after the delta's last member.
func (s *streamEncoder) shut(to []byte) []byte {
	return append(to, `},"logprobs":null,"finish_reason":null}]}`+"\n\n"...)
}

func (s *streamEncoder) begin(e llm.BlockStart, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	c := s.choice(e.Choice)
	b.seals = e.Block.Common().Seals
	switch x := e.Block.(type) {
	case *llm.Text:
		b.kind, b.start = textBlock, c.runes
	case *llm.Refusal:
		b.kind, c.refused = refusalBlock, true
	case *llm.Thought:
		b.kind = thoughtBlock
	case *llm.ToolCall:
		if s.legacy && c.calls > 0 {
			return to // the deprecated form has room for one call
		}
		b.kind, b.call, b.callKind = callBlock, c.calls, x.Kind
		c.calls++
		return s.beginCall(e.Choice, b, x, to)
	}
	return to
}

// beginCall writes a call's head at once: a client may wait for its name.
func (s *streamEncoder) beginCall(choice int, b *block, x *llm.ToolCall, to []byte) []byte {
	to = s.open(choice, to)
	if s.legacy {
		to = appendString(append(to, `"function_call":{"name":`...), x.Name)
		return s.shut(append(to, `,"arguments":""}`...))
	}
	to = appendIndex(to, b)
	to = appendString(append(to, `,"id":`...), x.CallID)
	kind, member := "function", "arguments"
	if x.Kind == llm.CustomTool {
		kind, member = "custom", "input"
	}
	to = append(to, `,"type":"`+kind+`","`+kind+`":{"name":`...)
	to = appendString(to, x.Name)
	return s.shut(append(to, `,"`+member+`":""}}]`...))
}

func appendIndex(to []byte, b *block) []byte {
	return strconv.AppendInt(append(to, `"tool_calls":[{"index":`...), int64(b.call), 10)
}

func (s *streamEncoder) delta(e llm.Delta, to []byte) []byte {
	if e.Text == "" {
		return to
	}
	b := s.block(e.Choice, e.Index)
	switch b.kind {
	case textBlock:
		s.choice(e.Choice).runes += utf8.RuneCountInString(e.Text)
		return s.shut(appendString(append(s.open(e.Choice, to), `"content":`...), e.Text))
	case refusalBlock:
		return s.shut(appendString(append(s.open(e.Choice, to), `"refusal":`...), e.Text))
	case thoughtBlock:
		return s.shut(appendString(append(s.open(e.Choice, to), `"reasoning_content":`...), e.Text))
	case callBlock:
		return s.args(e.Choice, b, e.Text, to)
	case otherBlock:
	}
	return to
}

func (s *streamEncoder) args(choice int, b *block, text string, to []byte) []byte {
	b.args = true
	to = s.open(choice, to)
	if s.legacy {
		return s.shut(append(appendString(append(to, `"function_call":{"arguments":`...), text), '}'))
	}
	to = appendIndex(to, b)
	if b.callKind == llm.CustomTool {
		to = append(to, `,"custom":{"input":`...)
	} else {
		to = append(to, `,"function":{"arguments":`...)
	}
	return s.shut(append(appendString(to, text), "}}]"...))
}

func (s *streamEncoder) cite(e llm.Cite, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	c := e.Citation
	switch same, ok := sameAnnotation(c); {
	case ok && b.start == 0:
		to = append(append(s.open(e.Choice, to), `"annotations":[`...), rawOf(same)...)
		return s.shut(append(to, ']'))
	case c.URL == "":
		return to // there is no place for it
	}
	if c.End == 0 {
		c.End = s.choice(e.Choice).runes - b.start
	}
	to = append(s.open(e.Choice, to), `"annotations":[{"type":"url_citation","url_citation":{"start_index":`...)
	to = strconv.AppendInt(to, int64(b.start+c.Start), 10)
	to = strconv.AppendInt(append(to, `,"end_index":`...), int64(b.start+c.End), 10)
	to = appendString(append(to, `,"title":`...), c.Title)
	to = appendString(append(to, `,"url":`...), c.URL)
	return s.shut(append(to, "}}]"...))
}

func (s *streamEncoder) logprobs(e llm.Logprobs, to []byte) []byte {
	member := `"content"`
	if s.block(e.Choice, e.Index).kind == refusalBlock {
		member = `"refusal"`
	}
	to = append(to, s.head...)
	to = append(to, `{"index":`...)
	to = strconv.AppendInt(to, int64(e.Choice), 10)
	to = append(to, `,"delta":{},"logprobs":{`+member+`:[`...)
	to = append(to, e.Raw...)
	return append(to, `]},"finish_reason":null}]}`+"\n\n"...)
}

// end gives a call without arguments an empty object, and the client the seals of
// what has ended.
func (s *streamEncoder) end(e llm.BlockEnd, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	if b.kind == callBlock && !b.args && b.callKind != llm.CustomTool {
		to = s.args(e.Choice, b, "{}", to)
	}
	if b.kind == thoughtBlock {
		return s.details(e.Choice, b, to)
	}
	carried := protocol.Carry(b.seals, protocol.OpenAIChat)
	if carried == "" {
		return to
	}
	to = s.open(e.Choice, to)
	if b.kind == callBlock {
		to = append(appendIndex(to, b), `,"`+protocol.CarrierMember+`":`...)
		to = append(to, carried...)
		if b.callKind == llm.CustomTool { // some SDKs want every fragment to have one
			return s.shut(append(to, `,"custom":{"input":""}}]`...))
		}
		return s.shut(append(to, `,"function":{"arguments":""}}]`...))
	}
	return s.shut(append(append(to, `"`+protocol.CarrierMember+`":`...), carried...))
}

func (s *streamEncoder) details(choice int, b *block, to []byte) []byte {
	c := s.choice(choice)
	list := detailsOf(b.seals, c.details)
	if len(list) == 0 {
		return to
	}
	c.details += len(list)
	to = append(s.open(choice, to), `"reasoning_details":[`...)
	for i, d := range list {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, d...)
	}
	return s.shut(append(to, ']'))
}

func (s *streamEncoder) finish(e llm.ChoiceEnd, to []byte) []byte {
	c := s.choice(e.Choice)
	reason := finishOf(e.Stop, c.refused, c.calls > 0)
	if reason == FinishToolCalls && s.legacy {
		reason = FinishFunctionCall
	}
	to = s.open(e.Choice, to)
	if to[len(to)-1] == ',' { // nothing came before: the role is all there is
		to = append(to, `"content":""`...)
	}
	to = append(to, `},"logprobs":null,"finish_reason":`...)
	to = appendString(to, string(reason))
	return append(to, `}]}`+"\n\n"...)
}

// close writes the usage, if it was asked for, and the last event.
func (s *streamEncoder) close(to []byte) []byte {
	if s.usage && s.counts != nil {
		u := encodeUsage(s.counts)
		if b, err := usageShape.Marshal(&u); err == nil {
			to = append(to, s.head...)
			to = append(to, `],"usage":`...)
			to = append(to, b...)
			to = append(to, "}\n\n"...)
		}
	}
	return append(to, "data: [DONE]\n\n"...)
}
