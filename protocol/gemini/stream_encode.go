package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamEncoder returns a *StreamEncoder, which writes server-sent events.
func (Codec) NewStreamEncoder(*llm.Request) protocol.StreamEncoder { return &StreamEncoder{} }

// StreamEncoder writes a stream. Every event is a whole answer in form; calls are
// written when they are complete, and finish reasons with the last event, which
// also has the usage. Another protocol's seals are in thoughtSignature, on an
// empty part at the end of a text, on the last piece of a thought, and on the part
// of a call.
type StreamEncoder struct {
	form    form
	begun   bool   // something was written
	over    bool   // nothing follows
	tail    []byte // the members at the end of every event
	choices []*written
	usage   *llm.Usage
}

// form is the framing of the events.
type form int

const (
	asEvents form = iota
	asArray
	asLines // one response per line, for tests
)

// Array makes the encoder write one JSON array instead of server-sent events, for
// clients that stream without alt=sse. Call it before the first event.
func (s *StreamEncoder) Array() { s.form = asArray }

// written is the state of one choice.
type written struct {
	index  int
	blocks []*writtenBlock // nil: it is written
	calls  []*writtenBlock // those that are not written, in the order in which they began
	stop   *llm.Stop
	said   int // bytes of text in blocks before
	cited  grounded
	ext    llm.Ext // of the choice
}

// writtenBlock is a block that is being written.
type writtenBlock struct {
	llm.Block
	prefix string // of a part with text; empty for blocks without deltas
	suffix string
	held   string // of a thought: its last piece, which is written with the seal
	args   strings.Builder
	ended  bool // of a call: it is complete and waits for earlier calls
	ruler  ruler
	cites  []llm.Citation
}

// seal adds a seal to the block; a later one of the same form replaces it.
func (b *writtenBlock) seal(with llm.Seal) {
	m := b.Common()
	m.Seals = slices.DeleteFunc(slices.Clone(m.Seals), func(s llm.Seal) bool { return s.Form == with.Form && s.Origin == with.Origin })
	m.Seals = append(m.Seals, with)
}

// Encode appends what an event means to the client, which may be nothing yet.
func (s *StreamEncoder) Encode(e llm.Event, to []byte) []byte {
	if s.over {
		return to
	}
	switch e := e.(type) {
	case llm.Start:
		s.usage = e.Usage
		s.start(e)
	case llm.BlockStart:
		return s.blockStart(e, to)
	case llm.Delta:
		return s.delta(e, to)
	case llm.SealDelta:
		if b := s.block(e.Choice, e.Index); b != nil {
			b.seal(e.Seal)
		}
	case llm.Cite:
		if b := s.block(e.Choice, e.Index); b != nil {
			b.cites = append(b.cites, e.Citation)
		}
	case llm.BlockEnd:
		return s.blockEnd(e, to)
	case llm.UsageUpdate:
		s.usage = &e.Usage
	case llm.ChoiceEnd:
		c := s.choice(e.Choice)
		c.stop, c.ext = &e.Stop, e.Ext
	case llm.End:
		return s.end(to)
	case llm.Failure:
		s.over = true
		to = s.open(s.flushThoughts(to))
		to = append(to, Codec{}.EncodeError(e.Err)...)
		return s.last(s.shut(to))
	case llm.Logprobs:
		return s.logprobs(e, to)
	case llm.Ping: // comment lines break Google's own clients
	}
	return to
}

func (s *StreamEncoder) start(e llm.Start) {
	s.tail = s.tail[:0]
	if e.Model != "" {
		s.tail = wire.AppendQuote(append(s.tail, `,"modelVersion":`...), e.Model)
	}
	if e.ID != "" {
		s.tail = wire.AppendQuote(append(s.tail, `,"responseId":`...), e.ID)
	}
	s.tail = appendCreated(s.tail, e.Created)
	s.tail = append(s.tail, '}')
}

func (s *StreamEncoder) choice(index int) *written {
	for _, c := range s.choices {
		if c.index == index {
			return c
		}
	}
	c := &written{index: index}
	s.choices = append(s.choices, c)
	return c
}

func (s *StreamEncoder) block(choice, index int) *writtenBlock {
	c := s.choice(choice)
	if index < 0 || index >= len(c.blocks) {
		return nil
	}
	return c.blocks[index]
}

// open begins a response object; shut ends it.
func (s *StreamEncoder) open(to []byte) []byte {
	switch {
	case s.form == asEvents:
		to = append(to, "data: "...)
	case s.form == asArray && !s.begun:
		to = append(to, '[')
	case s.form == asArray:
		to = append(to, ",\n"...)
	}
	s.begun = true
	return to
}

func (s *StreamEncoder) shut(to []byte) []byte {
	switch s.form {
	case asEvents:
		return append(to, "\n\n"...)
	case asLines:
		return append(to, '\n')
	case asArray:
	}
	return to
}

// last closes the array.
func (s *StreamEncoder) last(to []byte) []byte {
	if s.form == asArray {
		return append(to, ']')
	}
	return to
}

// part begins a response with one part.
func (s *StreamEncoder) part(to []byte) []byte {
	return append(s.open(to), `{"candidates":[{"content":{"parts":[`...)
}

func (s *StreamEncoder) partEnd(to []byte, choice int) []byte {
	to = append(to, `],"role":"model"},"index":`...)
	return s.answerEnd(strconv.AppendInt(to, int64(choice), 10))
}

// logprobs writes log probabilities with an empty part: SDKs treat a content
// without parts as no response.
func (s *StreamEncoder) logprobs(e llm.Logprobs, to []byte) []byte {
	list := appendLogprobs(nil, string(e.Raw))
	if len(list) == 0 {
		return to
	}
	to = append(s.part(to), `{"text":""}],"role":"model"},"index":`...)
	to = strconv.AppendInt(to, int64(e.Choice), 10)
	return s.answerEnd(append(to, list...))
}

// answerEnd ends a response with one candidate.
func (s *StreamEncoder) answerEnd(to []byte) []byte {
	to = append(append(to, "}]"...), s.tail...)
	if len(s.tail) == 0 { // no Start came
		to = append(to, '}')
	}
	return s.shut(to)
}

func (s *StreamEncoder) blockStart(e llm.BlockStart, to []byte) []byte {
	b := &writtenBlock{Block: e.Block}
	c := s.choice(e.Choice)
	c.blocks = append(c.blocks, b)
	switch block := e.Block.(type) {
	case *llm.Text:
		// This is a copy: others read the event's block too.
		b.Block, b.prefix, b.suffix = &llm.Text{Meta: llm.Meta{Seals: block.Seals}}, `{"text":`, "}"
		return s.text(e.Choice, b, block.Text, to)
	case *llm.Refusal:
		b.Block, b.prefix, b.suffix = &llm.Refusal{}, `{"text":`, "}"
		return s.text(e.Choice, b, block.Text, to)
	case *llm.Thought:
		b.Block, b.prefix, b.suffix = &llm.Thought{Meta: llm.Meta{Seals: block.Seals}}, `{"text":`, `,"thought":true}`
		return s.text(e.Choice, b, block.Text(""), to)
	case *llm.ToolCall:
		call := *block
		b.Block = &call
		b.args.WriteString(call.Args)
		c.calls = append(c.calls, b)
	default: // comes complete
		with := appendBlock(s.part(to), e.Block)
		if with[len(with)-1] == '[' {
			return to // it has no counterpart
		}
		return s.partEnd(with, e.Choice)
	}
	return to
}

func (s *StreamEncoder) delta(e llm.Delta, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	switch {
	case b == nil:
		return to
	case b.prefix == "":
		b.args.WriteString(e.Text)
		return to
	}
	return s.text(e.Choice, b, e.Text, to)
}

func (s *StreamEncoder) text(choice int, b *writtenBlock, text string, to []byte) []byte {
	if text == "" {
		return to
	}
	if b.suffix == "}" {
		b.ruler.add(text)
	}
	if _, ok := b.Block.(*llm.Thought); ok {
		// The seal follows the last piece and must be sent with some text:
		// clients skip an empty thought, even with a seal.
		if text, b.held = b.held, text; text == "" {
			return to
		}
	}
	to = append(s.part(to), b.prefix...)
	to = append(wire.AppendQuote(to, text), b.suffix...)
	return s.partEnd(to, choice)
}

func (s *StreamEncoder) blockEnd(e llm.BlockEnd, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	if b == nil {
		return to
	}
	switch block := b.Block.(type) {
	case *llm.ToolCall:
		block.Args, b.ended = b.args.String(), true
		s.choice(e.Choice).blocks[e.Index] = nil
		return s.flushCalls(e.Choice, to)
	case *llm.Text:
		if len(block.Seals) > 0 {
			to = s.partEnd(appendBlock(s.part(to), block), e.Choice)
		}
	case *llm.Thought:
		to = s.lastPiece(e.Choice, b, block, to)
	}
	s.settle(s.choice(e.Choice), b)
	s.choice(e.Choice).blocks[e.Index] = nil // its content is written
	return to
}

// lastPiece writes the held piece of a thought, with its seals.
func (s *StreamEncoder) lastPiece(choice int, b *writtenBlock, t *llm.Thought, to []byte) []byte {
	if b.held == "" && len(t.Seals) == 0 {
		return to
	}
	t.Parts = []llm.ThoughtPart{{Form: llm.SummaryReasoning, Text: b.held}}
	b.held = ""
	return s.partEnd(appendBlock(s.part(to), t), choice)
}

// flushThoughts writes the held pieces of thoughts without an end.
func (s *StreamEncoder) flushThoughts(to []byte) []byte {
	for _, c := range s.choices {
		for _, b := range c.blocks {
			if b != nil && b.held != "" {
				to = s.lastPiece(c.index, b, b.Block.(*llm.Thought), to)
			}
		}
	}
	return to
}

// flushCalls writes the complete calls in the order in which they began. Clients run them in
// this order.
func (s *StreamEncoder) flushCalls(choice int, to []byte) []byte {
	c := s.choice(choice)
	for len(c.calls) > 0 && c.calls[0].ended {
		to = s.partEnd(appendBlock(s.part(to), c.calls[0].Block), choice)
		c.calls = c.calls[1:]
	}
	return to
}

// settle converts the sources of a text into positions in the choice's whole
// text.
func (s *StreamEncoder) settle(c *written, b *writtenBlock) {
	for _, cite := range b.cites {
		if !citable(cite) {
			continue
		}
		start, end := b.ruler.byteOf(cite.Start), b.ruler.byteOf(cite.End)
		if cite.Start == 0 && cite.End == 0 {
			end = b.ruler.bytes
		}
		c.cited.add(cite, 0, c.said+start, c.said+end)
	}
	c.said += b.ruler.bytes
}

// end writes the last event: the finish reason of every choice, and the usage.
func (s *StreamEncoder) end(to []byte) []byte {
	s.over = true
	to = s.open(to)
	to = append(to, `{"candidates":[`...)
	first, feedback := len(to), ""
	for _, c := range s.choices {
		stop := llm.Stop{Kind: llm.Other}
		if c.stop != nil {
			stop = *c.stop
		}
		if stop.Kind == llm.PromptBlocked && len(c.blocks) == 0 {
			feedback = blockReason(stop)
			continue
		}
		if len(to) > first {
			to = append(to, ',')
		}
		to = append(to, `{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":`...)
		to = wire.AppendQuote(to, finishReason(stop))
		to = strconv.AppendInt(append(to, `,"index":`...), int64(c.index), 10)
		if stop.Explanation != "" {
			to = wire.AppendQuote(append(to, `,"finishMessage":`...), stop.Explanation)
		}
		before := len(to)
		if to = c.cited.appendTo(to); len(to) == before { // a source may have come when its text had ended
			to = appendMember(to, c.ext, "groundingMetadata")
			to = appendMember(to, c.ext, "citationMetadata")
		}
		to = append(appendMember(to, c.ext, "logprobsResult"), '}')
	}
	switch {
	case feedback == "":
		to = append(to, ']')
	case len(to) == first: // a blocked prompt has no candidate
		to = to[:first-len(`"candidates":[`)]
		to = wire.AppendQuote(append(to, `"promptFeedback":{"blockReason":`...), feedback)
		to = append(to, '}')
	default:
		to = wire.AppendQuote(append(to, `],"promptFeedback":{"blockReason":`...), feedback)
		to = append(to, '}')
	}
	if s.usage != nil {
		to = appendUsage(append(to, `,"usageMetadata":`...), s.usage, llm.Ext{})
	}
	to = append(to, s.tail...)
	if len(s.tail) == 0 {
		to = append(to, '}')
	}
	return s.last(s.shut(to))
}
