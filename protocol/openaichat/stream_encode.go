package openaichat

import (
	"strconv"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/openai"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
	"github.com/isogloss-gateway/isogloss/sse"
)

// NewStreamEncoder returns an encoder for one stream of chunks.
func (Codec) NewStreamEncoder(req *llm.Request) protocol.StreamEncoder {
	return &streamEncoder{usage: req.IncludeUsage, legacy: legacy(req), choices: map[int]*written{}}
}

// streamEncoder encodes neutral events as chunks.
type streamEncoder struct {
	usage   bool   // the client requested usage
	legacy  bool   // the client expects function_call
	head    []byte // the beginning of every chunk
	once    []byte // further members of the first chunk
	choices map[int]*written
	counts  *llm.Usage
	count   []byte // the token counts in the upstream's JSON
	over    bool
}

// written is the state of one choice.
type written struct {
	begun    bool
	blocks   []block
	calls    int
	runes    int // code points of the content so far
	thoughts int // so far
	details  int // elements of reasoning_details so far
	refused  bool
	legacy   bool            // there is a function_call
	carried  bool            // the carrier was written
	probs    map[string]bool // lists of log probabilities that were written
	cites    []citation
}

// block is the state of one block.
type block struct {
	kind     blockKind
	call     int  // index among the choice's calls
	args     bool // arguments were written
	start    int  // where the text begins in the content
	runes    int  // code points of the text
	callKind llm.ToolKind
	legacy   bool     // the call is a function_call
	noArgs   bool     // the arguments were cut off before they began
	names    []string // member names of a thought's text
	thought  int      // number of a thought in the choice
	text     []byte   // of the second and later thoughts
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

// Encode appends the chunks of an event.
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
		s.block(e.Choice, e.Index)
		c := s.choice(e.Choice)
		c.cites = append(c.cites, citation{e.Index, e.Citation})
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
	kept := keptResponse(e.Ext)
	b := wire.AppendQuote([]byte(`data: {"id":`), kept.ID.Or(e.ID))
	b = append(b, `,"object":"chat.completion.chunk","created":`...)
	b = append(b, kept.Created.Or(wire.Int(e.Created))...)
	b = wire.AppendQuote(append(b, `,"model":`...), kept.Model.Or(e.Model))
	if tier := openai.Tier(e.Tier, nil); tier != "" {
		b = wire.AppendQuote(append(b, `,"service_tier":`...), tier)
	} else {
		b = appendMember(b, "service_tier", kept.ServiceTier)
	}
	s.head = appendMember(b, "system_fingerprint", kept.SystemFingerprint)
	s.once = appendMember(s.once, "moderation", kept.Moderation)
	s.once = appendMember(s.once, "metadata", kept.Metadata)
	s.once = appendMembers(s.once, kept.Extra)
	if kept.Usage.Kind() == '{' {
		s.count = []byte(rawOf(kept.Usage))
	}
}

// chunk appends the beginning of a chunk, up to its choices.
func (s *streamEncoder) chunk(to []byte) []byte {
	to = append(to, s.head...)
	to = append(to, s.once...)
	s.once = nil
	return append(to, `,"choices":[`...)
}

// appendMember appends a member behind others, unless it is absent.
func appendMember[T any](to []byte, name string, v wire.Opt[T]) []byte {
	if v.IsAbsent() {
		return to
	}
	to = append(wire.AppendQuote(append(to, ','), name), ':')
	return append(to, rawOf(v)...)
}

// appendMembers appends unknown members behind others.
func appendMembers(to []byte, e wire.Extra) []byte {
	for _, m := range e.All() {
		to = append(wire.AppendQuote(append(to, ','), m.Name), ':')
		to = append(to, m.Value...)
	}
	return to
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

// open appends the beginning of a chunk, up to the delta's members. A choice's
// first chunk has the role.
func (s *streamEncoder) open(choice int, to []byte) []byte {
	to = append(s.chunk(to), `{"index":`...)
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
		var parts wire.List[Part]
		if b.names, parts = reasoningNames(x.Ext); parts.Len() == 0 {
			b.kind, b.thought = thoughtBlock, c.thoughts
			if x.Ext.Protocol != own {
				c.thoughts++
			}
			return to
		}
		to = append(s.open(e.Choice, to), `"content":`...)
		return s.shut(append(to, rawOf(parts)...))
	case *llm.ToolCall:
		if s.legacy && c.calls > 0 {
			return to // the deprecated form holds one call
		}
		b.kind, b.call, b.callKind = callBlock, c.calls, x.Kind
		b.legacy, c.legacy = s.legacy || isLegacy(x.Ext), c.legacy || s.legacy || isLegacy(x.Ext)
		b.noArgs = x.Ext.Get(noArgsMark) != ""
		c.calls++
		return s.beginCall(e.Choice, b, x, to)
	case *llm.Opaque:
		if x.Protocol == own {
			to = append(s.open(e.Choice, to), `"content":[`...)
			return s.shut(append(append(to, x.Raw...), ']'))
		}
	}
	return to
}

// beginCall writes a call's id and name at once, since clients may wait for them.
func (s *streamEncoder) beginCall(choice int, b *block, x *llm.ToolCall, to []byte) []byte {
	to = s.open(choice, to)
	kind, member := "function", "arguments"
	if x.Kind == llm.CustomTool {
		kind, member = "custom", "input"
	}
	outer, inner := extrasOf(x.Ext, kind)
	if b.legacy {
		to = wire.AppendQuote(append(to, `"function_call":{"name":`...), x.Name)
		return s.shut(append(appendMembers(append(to, `,"arguments":""`...), inner), '}'))
	}
	to = appendIndex(to, b)
	to = wire.AppendQuote(append(to, `,"id":`...), x.CallID)
	to = append(to, `,"type":"`+kind+`","`+kind+`":{"name":`...)
	to = wire.AppendQuote(to, x.Name)
	to = appendMembers(append(to, `,"`+member+`":""`...), inner)
	return s.shut(append(appendMembers(append(to, '}'), outer), "}]"...))
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
		n := utf8.RuneCountInString(e.Text)
		b.runes += n
		s.choice(e.Choice).runes += n
		return s.shut(wire.AppendQuote(append(s.open(e.Choice, to), `"content":`...), e.Text))
	case refusalBlock:
		return s.shut(wire.AppendQuote(append(s.open(e.Choice, to), `"refusal":`...), e.Text))
	case thoughtBlock:
		if b.thought > 0 {
			b.text = append(b.text, e.Text...)
		}
		to = s.open(e.Choice, to)
		for i, name := range b.names {
			if i > 0 {
				to = append(to, ',')
			}
			to = wire.AppendQuote(append(wire.AppendQuote(to, name), ':'), e.Text)
		}
		return s.shut(to)
	case callBlock:
		return s.args(e.Choice, b, e.Text, to)
	case otherBlock:
	}
	return to
}

func (s *streamEncoder) args(choice int, b *block, text string, to []byte) []byte {
	b.args = true
	to = s.open(choice, to)
	if b.legacy {
		return s.shut(append(wire.AppendQuote(append(to, `"function_call":{"arguments":`...), text), '}'))
	}
	to = appendIndex(to, b)
	if b.callKind == llm.CustomTool {
		to = append(to, `,"custom":{"input":`...)
	} else {
		to = append(to, `,"function":{"arguments":`...)
	}
	return s.shut(append(wire.AppendQuote(to, text), "}}]"...))
}

// citation is a citation of a block. It is written at the end of its choice, because SDKs join the lists of several
// chunks only by an index, which annotations do not have, and because a source may come before the text that it is of.
type citation struct {
	block int
	llm.Citation
}

// annotations writes the citations of a choice in one chunk, with the annotations that were kept in a message.
func (s *streamEncoder) annotations(choice int, message *Message, to []byte) []byte {
	c := s.choice(choice)
	var list wire.List[Annotation]
	for _, cite := range c.cites {
		b := &c.blocks[cite.block]
		switch a, ok := originalAnnotation(cite.Citation); {
		case ok && b.start == 0:
			list.Append(&a)
		case cite.URL != "": // chunks have no place for others
			a = annotation(cite.Citation, b.start, b.runes)
			list.Append(&a)
		}
	}
	c.cites = nil
	if list.Len() == 0 {
		return to
	}
	list.Join(message.Annotations.Value())
	message.Annotations = wire.Opt[wire.List[Annotation]]{}
	to = append(s.open(choice, to), `"annotations":`...)
	return s.shut(append(to, rawOf(list)...))
}

func (s *streamEncoder) logprobs(e llm.Logprobs, to []byte) []byte {
	member := "content"
	if s.block(e.Choice, e.Index).kind == refusalBlock {
		member = "refusal"
	}
	c := s.choice(e.Choice)
	if c.probs == nil {
		c.probs = map[string]bool{}
	}
	c.probs[member] = true
	to = append(s.chunk(to), `{"index":`...)
	to = strconv.AppendInt(to, int64(e.Choice), 10)
	to = append(to, `,"delta":{},"logprobs":{"`+member+`":[`...)
	to = append(to, e.Raw...)
	return append(to, `]},"finish_reason":null}]}`+"\n\n"...)
}

// end writes an empty object for a call without arguments, and the block's seals.
func (s *streamEncoder) end(e llm.BlockEnd, to []byte) []byte {
	b := s.block(e.Choice, e.Index)
	if b.kind == callBlock && !b.args && !b.noArgs && b.callKind != llm.CustomTool {
		to = s.args(e.Choice, b, "{}", to)
	}
	if b.kind == thoughtBlock {
		return s.details(e.Choice, b, to)
	}
	carried := codec.Carry(b.seals, protocol.OpenAIChat)
	if carried == "" {
		return to
	}
	to = s.open(e.Choice, to)
	if b.kind == callBlock {
		to = append(appendIndex(to, b), `,"`+codec.CarrierMember+`":`...)
		to = append(to, carried...)
		if b.callKind == llm.CustomTool { // some SDKs require it in every fragment
			return s.shut(append(to, `,"custom":{"input":""}}]`...))
		}
		return s.shut(append(to, `,"function":{"arguments":""}}]`...))
	}
	s.choice(e.Choice).carried = true
	return s.shut(append(append(to, `"`+codec.CarrierMember+`":`...), carried...))
}

func (s *streamEncoder) details(choice int, b *block, to []byte) []byte {
	c := s.choice(choice)
	list := detailsOf(b.seals, b.thought, string(b.text))
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

// finish writes a choice's last chunk, with the members that were kept.
func (s *streamEncoder) finish(e llm.ChoiceEnd, to []byte) []byte {
	c, kept := s.choice(e.Choice), keptChoice(e.Ext)
	message := kept.Message.Value()
	to = s.annotations(e.Choice, &message, to)
	reason := finishOf(e.Stop, c.refused, c.calls > 0, c.legacy)
	if f := kept.FinishReason.Value(); f != "" && isKind(f, llm.ToolUse) == (c.calls > 0) { // clients miss a call before a plain stop (INV-12)
		reason = f
	}
	to = s.open(e.Choice, to)
	if c.carried {
		message.Extra.Delete(codec.CarrierMember)
	}
	if c.details > 0 {
		message.ReasoningDetails = wire.Opt[wire.List[wire.Raw]]{}
	}
	rest, err := wire.Marshal(&message)
	switch {
	case err == nil && len(rest) > len("{}"):
		to = append(to, rest[1:len(rest)-1]...)
	case to[len(to)-1] == ',': // the choice is empty, so only the role was written
		to = append(to, `"content":""`...)
	}
	to = append(to, `},"logprobs":`...)
	if l, ok := kept.Logprobs.Get(); ok {
		if c.probs["content"] {
			l.Content = wire.Opt[wire.List[wire.Raw]]{}
		}
		if c.probs["refusal"] {
			l.Refusal = wire.Opt[wire.List[wire.Raw]]{}
		}
		to = append(to, rawOf(l)...)
	} else {
		to = append(to, "null"...)
	}
	to = wire.AppendQuote(append(to, `,"finish_reason":`...), string(reason))
	to = appendMembers(to, kept.Extra)
	return append(to, `}]}`+"\n\n"...)
}

// close writes the usage, if the client requested it, and [DONE].
func (s *streamEncoder) close(to []byte) []byte {
	if s.usage && s.count == nil && s.counts != nil {
		s.count = appendUsage(nil, s.counts)
	}
	if s.usage && s.count != nil {
		to = append(s.chunk(to), `],"usage":`...)
		to = append(to, s.count...)
		to = append(to, "}\n\n"...)
	}
	return append(to, "data: [DONE]\n\n"...)
}
