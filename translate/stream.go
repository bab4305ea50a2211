package translate

import (
	"cmp"
	"errors"
	"io"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/eventstream"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Stream is an upstream's stream in the client's dialect. Reading it reads the upstream. A stream that breaks off, or that
// ends without proof of its end, ends with the error event of the client's dialect and io.EOF; Err then returns the error.
type Stream struct {
	exchange *Exchange
	source   eventSource
	closer   io.Closer // of the upstream; nil: there is nothing to close
	encoder  protocol.StreamEncoder
	undo     *llm.Undo // nil: the names are restored
	frames   *eventstream.Writer

	outline  pair.Outline
	seals    conversation.SealRecorder
	keeps    bool // seals are recorded
	stored   *conversation.ResponseRecorder
	repeated int // bytes of text that the last event repeats

	out     []byte // encoded events
	unread  []byte // the part of the result that was not read
	visible bool   // a part of the response was encoded
	over    bool
	closed  bool
	err     *llm.Error
	losses  []llm.Loss
	usage   *llm.Usage
}

// eventSource gives the neutral events of a stream, until it is over.
type eventSource interface{ next() []llm.Event }

// Stream translates an upstream's stream for a client that asked for one. If upstream is an io.Closer, closing the stream
// closes it.
func (x *Exchange) Stream(upstream io.Reader) *Stream {
	closer, _ := upstream.(io.Closer)
	if x.passes {
		return x.newStream(&passing{source: x.newSource(upstream), tap: x.translator.client.Codec.NewTap(x.choices)}, closer)
	}
	return x.newStream(x.newSource(upstream), closer)
}

func (x *Exchange) newStream(from eventSource, closer io.Closer) *Stream {
	client := x.translator.client
	s := &Stream{exchange: x, source: from, closer: closer, undo: &x.undo, encoder: client.Codec.NewStreamEncoder(x.request), outline: pair.NewOutline(client.Name, false)}
	if p, ok := from.(*passing); ok {
		p.stream = s
	} else {
		s.seals, s.keeps = x.recordSeals()
		s.stored = x.recordResponse()
	}
	if client.Frames != nil {
		s.frames = eventstream.NewWriter(client.Frames)
	}
	return s
}

// Begin reads up to the first part of the response that a client sees. If the stream fails before it, Begin returns the
// error, of type [*llm.Error], which [Translator.Error] writes with its status. Begin is optional: without it the client
// gets the status 200 and the error in the stream.
func (s *Stream) Begin() error {
	for !s.visible && !s.over && !s.closed && len(s.out) < maxHeld {
		s.encode(s.source.next())
	}
	if !s.visible && s.err != nil {
		return s.err
	}
	return s.frame()
}

// maxHeld is the size of the events that Begin holds back.
const maxHeld = 64 << 10

// Read reads the stream in the client's dialect.
func (s *Stream) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if s.closed {
			return 0, io.ErrClosedPipe
		}
		if s.over {
			return 0, io.EOF
		}
		s.out = s.out[:0]
		s.encode(s.source.next())
		if err := s.frame(); err != nil {
			return 0, err
		}
		if cap(s.out) > keepBuffer {
			s.out = nil
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// frame makes the encoded events readable, in the frames of the dialect.
func (s *Stream) frame() (err error) {
	if s.unread = s.out; s.frames != nil && len(s.out) > 0 {
		s.unread, err = s.frames.Frames(s.out)
	}
	return err
}

// keepBuffer is the size up to which a buffer is used again.
const keepBuffer = 64 << 10

// Close ends the translation and closes the upstream's stream.
func (s *Stream) Close() error {
	if s.closed {
		return nil
	}
	s.closed, s.unread = true, nil
	if s.closer == nil {
		return nil
	}
	return s.closer.Close()
}

// Err returns the error with which the stream has ended, or nil. It is of type [*llm.Error].
func (s *Stream) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Losses returns what the client's dialect cannot express of the response, once the stream has ended.
func (s *Stream) Losses() []llm.Loss { return s.losses }

// Usage returns the last usage that the upstream has reported, or nil.
func (s *Stream) Usage() *llm.Usage { return s.usage }

// encode encodes events up to the last one of the response.
func (s *Stream) encode(events []llm.Event) {
	for _, e := range events {
		if s.over {
			return
		}
		e, ok := s.note(e)
		if !ok {
			continue
		}
		if s.keeps {
			s.seals.Event(e)
		}
		s.outline.Add(e)
		switch e := e.(type) {
		case llm.Failure:
			s.err, s.over = e.Err, true
		case llm.End:
			s.over = true
			if s.keeps {
				s.seals.Save(func() conversation.Digest { return conversation.DigestOf(s.exchange.request.Turns) })
			}
			s.losses = append(s.losses, s.outline.Losses(s.exchange.translator.client.Codec)...)
		}
		s.out = s.encoder.Encode(e, s.out)
		if s.over && s.err == nil {
			s.stored.StreamEnd(s.encoder)
		}
	}
}

// note completes an event. It reports whether the event is sent.
func (s *Stream) note(e llm.Event) (llm.Event, bool) {
	x := s.exchange
	switch e := e.(type) {
	case llm.Start:
		e.ID, e.Created, e.Model = cmp.Or(e.ID, x.id), cmp.Or(e.Created, x.created), cmp.Or(e.Model, x.pair.Model)
		s.usage = cmp.Or(e.Usage, s.usage)
		return e, true
	case llm.BlockStart:
		if len(s.losses) < pair.MaxLosses {
			s.losses = append(s.losses, pair.BlockLosses(x.translator.client.Codec, e.Block)...)
		}
	case llm.Delta:
		s.visible = true
		if x.translator.client.RepeatsResponse {
			if s.repeated += len(e.Text); s.repeated > x.translator.options.MaxResponse {
				return llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_too_large", Message: "the response is too large, and the last event of this dialect has to repeat it"}}, true
			}
		}
	case llm.UsageUpdate:
		s.usage = &e.Usage
	case llm.ChoiceEnd:
		s.visible = true
	case llm.Ping:
		if !s.visible {
			return e, false
		}
	}
	if s.undo == nil {
		return e, true
	}
	return s.undo.Event(e)
}

// source decodes an upstream's stream.
type source struct {
	exchange *Exchange
	reader   *sse.Reader
	decoder  protocol.StreamDecoder
	ends     pair.Ends
	events   []llm.Event
	over     bool
}

func (x *Exchange) newSource(upstream io.Reader) *source {
	if frames := x.translator.upstream.Frames; frames != nil {
		upstream = eventstream.NewReader(io.NopCloser(upstream), frames)
	}
	return &source{exchange: x, reader: sse.NewReader(upstream, sse.Options{MaxEvent: x.translator.options.MaxEvent}), decoder: x.pair.NewDecoder(), ends: pair.Ends{Choices: x.choices}}
}

// next returns the events of the next read. The last event of a stream is an End or a Failure.
func (s *source) next() []llm.Event {
	if s.over {
		return s.events
	}
	s.events = s.events[:0]
	batch, err := s.reader.Batch()
	for e := range batch.Events() {
		s.decode(e)
	}
	s.events = s.exchange.pair.EndMalformed(s.events)
	s.ends.Add(s.events)
	if err != nil {
		s.finish(err)
	}
	return s.events
}

func (s *source) decode(e sse.Event) {
	s.events = s.decoder.Decode(e.Name, pair.EventData(e), s.events)
}

// finish decodes the end of the stream. A stream whose final event arrived before its connection broke is complete.
func (s *source) finish(err error) {
	clean := errors.Is(err, io.EOF)
	if last, ok := pair.Last(s.reader); ok && clean {
		s.decode(last)
	}
	before := len(s.events)
	s.events = s.exchange.pair.EndMalformed(s.decoder.Finish(s.events))
	s.ends.Require(s.events, min(before, len(s.events)))
	s.over = true
	n := len(s.events)
	if n > before && !clean {
		if _, failed := s.events[n-1].(llm.Failure); failed {
			s.events[n-1] = llm.Failure{Err: truncated(err)}
		}
	}
	if n == before { // the last event has come already, and nobody reads more
		s.events = append(s.events, llm.Failure{Err: truncated(err)})
	}
}

func truncated(err error) *llm.Error {
	var long *sse.TooLongError
	if errors.As(err, &long) {
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_event_too_large", Message: "the upstream sent an event that is too large", Cause: err}
	}
	e := codec.Truncated()
	e.Cause = err
	return e
}

// passing relays the stream of an upstream of the client's dialect.
type passing struct {
	*source
	tap    protocol.Tap
	stream *Stream
}

// next relays the bytes of the next read. It returns an event only for a stream that fails.
func (p *passing) next() []llm.Event {
	batch, err := p.reader.Batch()
	p.stream.out = append(p.stream.out, batch.Raw...)
	for e := range batch.Events() {
		mark := p.tap.Event(pair.EventData(e))
		p.stream.visible = p.stream.visible || mark == protocol.Content
	}
	if s := p.tap.Summary(); s.Err != nil && !p.stream.visible {
		p.stream.err, p.stream.over = s.Err, true
		return nil
	}
	if err == nil {
		return nil
	}
	if last, ok := pair.Last(p.reader); ok && errors.Is(err, io.EOF) {
		p.tap.Event(pair.EventData(last))
		p.stream.out = append(append(p.stream.out, last.Raw...), "\n\n"...)
	}
	s := p.tap.Summary()
	p.stream.usage, p.stream.over = s.Usage, true
	switch {
	case s.Err != nil:
		p.stream.err = s.Err
	case !s.Complete:
		p.stream.err = truncated(err)
		end := p.exchange.translator.client.Codec.EncodeStreamError
		if own := p.exchange.translator.client.EndStream; own != nil {
			end = func(e *llm.Error) []byte { return own(p.tap, e) }
		}
		p.stream.out = append(p.stream.out, end(p.stream.err)...)
	}
	return nil
}
