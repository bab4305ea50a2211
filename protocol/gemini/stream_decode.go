package gemini

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamDecoder reads an upstream's stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

// streamDecoder turns events into neutral ones. Finish reasons and usage may be
// in any event and the last ones count (GEM-17, USE-14), so that choices end
// only with the stream.
type streamDecoder struct {
	frame   frame
	started bool
	over    bool
	whole   bool // the data is one answer and not a stream
	blocked string
	choices []*choice
	to      []llm.Event
}

// Decode reads one event. An array, as a stream without alt=sse is, counts as the
// events in it.
func (s *streamDecoder) Decode(_, data []byte, to []llm.Event) []llm.Event {
	data = bytes.TrimSpace(data)
	if s.over || len(data) == 0 || data[0] == ':' || string(data) == "[DONE]" {
		return to
	}
	s.to = to
	if data[0] == '[' {
		items, ok := elements(data)
		if !ok {
			s.fail(badAnswer(nil))
		}
		for _, item := range items {
			s.event(item)
		}
	} else {
		s.event(data)
	}
	to, s.to = s.to, nil
	return to
}

func badAnswer(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response",
		Message: "the upstream sent something that is no part of an answer", Cause: cause}
}

func (s *streamDecoder) emit(e llm.Event) {
	if !s.over {
		s.to = append(s.to, e)
	}
}

func (s *streamDecoder) fail(e *llm.Error) {
	s.emit(llm.Failure{Err: e})
	s.over = true
}

func (s *streamDecoder) event(data []byte) {
	if s.over {
		return
	}
	f := &s.frame
	if err := f.read(data); err != nil {
		s.fail(badAnswer(err))
		return
	}
	if len(f.err) > 0 {
		s.fail(errorIn(f.err))
		return
	}
	if !s.started {
		s.started = true
		f.named = f.id != "" || f.model != ""
		s.emit(s.start())
	}
	if f.blocked != "" {
		s.blocked = f.blocked
	}
	for i := range f.candidates {
		s.candidate(&f.candidates[i])
	}
}

func (s *streamDecoder) start() llm.Start {
	f := &s.frame
	e := llm.Start{ID: f.id, Model: f.model}
	if at, err := time.Parse(time.RFC3339Nano, f.created); err == nil {
		e.Created = at.Unix()
	}
	if f.hasUsage {
		e.Usage = f.usage.neutral()
	}
	return e
}

func (s *streamDecoder) choice(index int) *choice {
	for _, c := range s.choices {
		if c.index == index {
			return c
		}
	}
	c := &choice{s: s, index: index}
	s.choices = append(s.choices, c)
	return c
}

func (s *streamDecoder) candidate(in *candidate) {
	c := s.choice(in.index)
	c.events++
	if len(in.grounding) > 0 || len(in.citations) > 0 {
		c.spans = append(readGrounding(in.grounding), readCitations(in.citations)...)
		c.apart = s.whole && slices.ContainsFunc(c.spans, func(s span) bool { return s.part > 0 })
	}
	for i := range in.parts {
		c.part(&in.parts[i])
	}
	if in.finish != "" && in.finish != "FINISH_REASON_UNSPECIFIED" {
		c.finish, c.message = in.finish, in.message
	}
}

// Finish is called at the end of the stream. The proof of its end is a finish
// reason for each choice, or a blocked prompt.
func (s *streamDecoder) Finish(to []llm.Event) []llm.Event {
	if s.over {
		return to
	}
	s.to = to
	s.finish()
	to, s.to = s.to, nil
	return to
}

func (s *streamDecoder) finish() {
	if len(s.choices) == 0 && s.blocked != "" {
		c := s.choice(0)
		c.finish, c.blocked = s.blocked, true
	}
	cut := len(s.choices) == 0 || slices.ContainsFunc(s.choices, func(c *choice) bool { return c.finish == "" })
	complete := !cut || s.whole && len(s.choices) > 0
	if complete {
		for _, c := range s.choices {
			c.close()
		}
	}
	if s.frame.hasUsage && s.started {
		s.emit(llm.UsageUpdate{Usage: *s.frame.usage.neutral()})
	}
	switch {
	case complete:
	case s.whole:
		s.fail(badAnswer(nil))
		return
	default:
		s.fail(&llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without the rest of the answer"})
		return
	}
	for _, c := range s.choices {
		s.emit(llm.ChoiceEnd{Choice: c.index, Stop: c.stop()})
	}
	s.emit(llm.End{})
	s.over = true
}

// choice is the state of one candidate.
type choice struct {
	s       *streamDecoder
	index   int
	events  int
	blocks  int // that have begun
	open    blockKind
	call    *pendingCall
	calls   int // that are complete
	finish  string
	message string
	blocked bool
	apart   bool // sources are told by the number of a part, so that parts are not joined

	said  int   // bytes of text before the open block
	bases []int // where the parts of the first event begin in the text
	ruler ruler
	spans []span
}

// blockKind is what the open block is.
type blockKind int

const (
	nothing blockKind = iota
	aText
	aThought
)

func (c *choice) part(p *part) {
	if c.events == 1 {
		c.bases = append(c.bases, c.said+c.ruler.bytes)
	}
	if p.raw != nil {
		c.other(p)
		return
	}
	kind := aText
	if p.thought {
		kind = aThought
	}
	if p.signature == "" {
		if p.text == "" {
			return // an empty delta opens nothing
		}
		if c.open != kind || c.call != nil || c.apart {
			c.begin(kind)
		}
		c.delta(p.text)
		return
	}
	// What is signed stands alone, also if it is empty (GEM-09, GEM-11).
	c.begin(kind)
	if p.text != "" {
		c.delta(p.text)
	}
	c.s.emit(llm.SealDelta{Choice: c.index, Index: c.blocks - 1, Seal: seal(p.signature)})
	c.close()
}

func seal(signature string) llm.Seal {
	return llm.Seal{Form: llm.Signature, Data: signature, Origin: own}
}

func (c *choice) begin(kind blockKind) {
	c.close()
	c.open = kind
	var b llm.Block = &llm.Text{}
	if kind == aThought {
		b = &llm.Thought{}
	}
	c.start(b)
}

func (c *choice) start(b llm.Block) {
	c.s.emit(llm.BlockStart{Choice: c.index, Index: c.blocks, Block: b})
	c.blocks++
}

func (c *choice) delta(text string) {
	e := llm.Delta{Choice: c.index, Index: c.blocks - 1, Text: text}
	if c.open == aThought {
		e.Form = llm.SummaryReasoning // what Google shows of thinking is a summary
	} else {
		c.ruler.add(text)
	}
	c.s.emit(e)
}

// close ends the block that is open, and gives a text its sources before.
func (c *choice) close() {
	c.closeCall()
	if c.open == nothing {
		return
	}
	if c.open == aText {
		c.cite()
		c.said += c.ruler.bytes
		c.ruler.reset()
	}
	c.open = nothing
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}

func (c *choice) cite() {
	c.spans = slices.DeleteFunc(c.spans, func(s span) bool {
		base := 0 // of a stream only the joined text is known
		if c.events == 1 && s.part > 0 {
			if s.part >= len(c.bases) {
				return false
			}
			base = c.bases[s.part]
		}
		start, end := base+s.start-c.said, base+s.end-c.said
		cite := s.citation
		switch {
		case s.end == 0: // the whole text is meant
		case start < 0 || start >= c.ruler.bytes:
			return false
		default:
			cite.Start, cite.End = c.ruler.chars(start), c.ruler.chars(end)
		}
		c.s.emit(llm.Cite{Choice: c.index, Index: c.blocks - 1, Citation: cite})
		return true
	})
}

// other takes a part that is not just text.
func (c *choice) other(p *part) {
	if p.raw[0] != '{' {
		return
	}
	var w Part
	if err := partShape.UnmarshalLenient(p.raw, &w); err != nil {
		c.s.fail(badAnswer(err)) // a call that cannot be read must not vanish
		return
	}
	if f := w.FunctionCall.Ptr(); f != nil {
		c.functionCall(f, p.signature)
		return
	}
	if w.Text.IsSet() && !w.InlineData.IsSet() && !w.FileData.IsSet() && serverPart(&w) == "" {
		plain := *p
		plain.raw = nil
		c.part(&plain) // text with a remark of a kind that nobody here knows
		return
	}
	b := readPart(&w)
	if t, ok := b.(*llm.Text); ok && t.Text == "" && len(t.Seals) == 0 {
		return
	}
	c.close()
	c.start(b)
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}

// functionCall takes a call, which mostly comes whole. One without arguments may
// get them in the parts that follow, which have no name then (GEM-03).
func (c *choice) functionCall(f *FunctionCall, signature string) {
	partial, _ := f.Extra.Get("partialArgs")
	more, _ := f.Extra.Get("willContinue")
	args := readArgs(f.Args)
	if f.Name.Value() != "" {
		c.close()
		b := &llm.ToolCall{CallID: f.ID.Value(), Kind: llm.FunctionTool, Name: f.Name.Value()}
		if b.CallID == "" {
			b.Synthetic = true
			b.CallID = llm.MintID("call_", c.s.frame.id, strconv.Itoa(c.index), strconv.Itoa(c.blocks), b.Name)
		}
		c.start(b)
		c.call = &pendingCall{args: "{}"}
	}
	if c.call == nil {
		return // arguments of nothing
	}
	bare := len(partial) == 0 && string(wire.Compact(wire.Raw(args))) == "{}"
	if !bare {
		c.call.add(args, partial)
	}
	if c.call.signature == "" {
		c.call.signature = signature
	}
	continues := string(more) == "true" || len(partial) > 0
	if !continues && (!bare || f.Name.Value() == "") {
		c.closeCall()
	}
}

func (c *choice) closeCall() {
	if c.call == nil {
		return
	}
	call := c.call
	c.call = nil
	c.calls++
	c.s.emit(llm.Delta{Choice: c.index, Index: c.blocks - 1, Text: call.text()})
	if call.signature != "" {
		c.s.emit(llm.SealDelta{Choice: c.index, Index: c.blocks - 1, Seal: seal(call.signature)})
	}
	c.s.emit(llm.BlockEnd{Choice: c.index, Index: c.blocks - 1})
}
