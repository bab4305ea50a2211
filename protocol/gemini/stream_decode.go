package gemini

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// NewStreamDecoder returns a decoder for one stream.
func (Codec) NewStreamDecoder() protocol.StreamDecoder { return &streamDecoder{} }

// streamDecoder decodes events. Finish reasons and usage may be in any event, and
// the last ones count (GEM-17, USE-14), so choices end only with the stream.
type streamDecoder struct {
	frame   frame
	started bool
	over    bool
	whole   bool // the data is one response and not a stream
	blocked string
	choices []*choice
	to      []llm.Event
}

// Decode decodes one event. A stream without alt=sse is one JSON array; Decode decodes each of
// its elements as an event.
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
	return codec.InvalidResponse("the upstream sent an event that is not a response chunk", cause)
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
	c := &choice{s: s, index: index, budget: freeCitations}
	s.choices = append(s.choices, c)
	return c
}

func (s *streamDecoder) candidate(in *candidate) {
	c := s.choice(in.index)
	c.events++
	if len(in.grounding) > 0 || len(in.citations) > 0 {
		c.sources = llm.Ext{}
		keepRaw(&c.sources, "groundingMetadata", bytes.Clone(in.grounding))
		keepRaw(&c.sources, "citationMetadata", bytes.Clone(in.citations))
		c.spans = nil
		if wire.CheckElements(in.grounding) == nil && wire.CheckElements(in.citations) == nil {
			c.spans = append(readGrounding(in.grounding), readCitations(in.citations)...)
		} else {
			c.missed = true
		}
		c.missed = c.missed || len(c.spans) >= wire.MaxElements(len(in.grounding))
		c.budget += costPerByte * (len(in.grounding) + len(in.citations))
		c.apart = s.whole && slices.ContainsFunc(c.spans, func(s span) bool { return s.part > 0 })
	}
	if len(in.logprobs) > 0 {
		c.addLogprobs(in.logprobs)
		c.lastLogprobs = bytes.Clone(in.logprobs)
	}
	for i := range in.parts {
		c.part(&in.parts[i])
	}
	if c.open == textBlock {
		c.emitLogprobs()
	}
	if in.finish != "" && in.finish != "FINISH_REASON_UNSPECIFIED" {
		c.finish, c.message = in.finish, in.message
	}
}

// Finish ends the stream. The response is complete if each choice has a finish
// reason, or if the prompt was blocked.
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
	if u := s.frame.usage.neutral(); s.frame.hasUsage && s.started && u != nil {
		s.emit(llm.UsageUpdate{Usage: *u, Tier: s.frame.usage.tier})
	}
	switch {
	case complete:
	case s.whole:
		s.fail(badAnswer(nil))
		return
	default:
		s.fail(codec.Truncated())
		return
	}
	if i := slices.IndexFunc(s.choices, func(c *choice) bool { return c.finish == missingSignature }); i >= 0 {
		said := s.choices[i].message
		s.fail(&llm.Error{Kind: llm.Upstream, Code: llm.MissingSignature, Relayed: said != "", Message: cmp.Or(said, "the model requires a thought signature that the request lacks")})
		return
	}
	for _, c := range s.choices {
		s.emit(llm.ChoiceEnd{Choice: c.index, Stop: c.stop(), Ext: c.rest()})
	}
	s.emit(llm.End{})
	s.over = true
}

const (
	noBlock blockKind = iota
	textBlock
	thoughtBlock
)
