package relay

import (
	"bytes"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// heldBack is how much of an answer's beginning is held at most.
const heldBack = 64 << 10

// translateStream passes a stream on in the client's dialect.
func (r *Relay) translateStream(x *exchange) *llm.Error {
	s := r.newTranslator(x)
	err := r.eachEvent(x, func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		if err := s.encode(events); err != nil {
			return true, err
		}
		return s.over, s.flush(now)
	})
	if err == nil && x.seen.Err == nil {
		x.linger()
	}
	return err
}

// eachEvent decodes the upstream's stream and hands out what each read has
// brought. It ends when do says so; the last event is an End or a Failure.
func (r *Relay) eachEvent(x *exchange, do func([]llm.Event, time.Time) (bool, *llm.Error)) *llm.Error {
	reader, buf := x.events()
	h := &hearing{x: x, reader: reader, decoder: x.speaks.NewStreamDecoder(), do: do}
	x.translation.hearing = h
	for {
		batch, err := reader.Batch()
		if over, fault := h.hear(batch, err); over {
			buf.release()
			return fault
		}
		buf.fit(reader, batch)
	}
}

// hearing is a stream that is being decoded. It belongs to the translation and not
// to the loop, so that a stream does not wait on a larger stack than it needs.
type hearing struct {
	x       *exchange
	reader  *sse.Reader
	decoder protocol.StreamDecoder
	events  []llm.Event
	do      func([]llm.Event, time.Time) (bool, *llm.Error)
}

// hear hands out what one read has brought. It reports whether that was all.
func (h *hearing) hear(batch sse.Batch, err error) (over bool, fault *llm.Error) {
	now := time.Now()
	h.decode(batch)
	if err != nil {
		h.events = h.x.lastEvents(h.reader, h.decoder, err, h.events)
	}
	over, fault = h.do(h.events, now)
	switch {
	case fault != nil || over:
		return true, fault
	case err != nil:
		return true, truncated(err)
	}
	return false, nil
}

func (h *hearing) decode(batch sse.Batch) {
	h.events = h.events[:0]
	for e := range batch.Events() {
		h.x.seen.Events++
		h.events = h.decoder.Decode(e.Name, dataOf(e), h.events)
	}
}

// lastEvents is what the end of a stream amounts to. An answer that was whole
// before its connection broke is whole.
func (x *exchange) lastEvents(reader *sse.Reader, decoder protocol.StreamDecoder, err error, to []llm.Event) []llm.Event {
	clean := errors.Is(err, io.EOF)
	if last, ok := lastEvent(reader); ok && clean {
		x.seen.Events++
		to = decoder.Decode(last.Name, dataOf(last), to)
	}
	before := len(to)
	to = decoder.Finish(to)
	if _, failed := at(to, len(to)-1).(llm.Failure); failed && len(to) > before && !clean {
		to[len(to)-1] = llm.Failure{Err: x.streamError(err)}
	}
	return to
}

func at(events []llm.Event, i int) llm.Event {
	if i < 0 {
		return nil
	}
	return events[i]
}

// dataOf is an event's data. A block without data that looks like JSON is an error
// that its sender forgot to frame, SSE-27.
func dataOf(e sse.Event) []byte {
	if !e.HasData && len(e.Raw) > 0 && e.Raw[0] == '{' {
		return readable(e.Raw)
	}
	return readable(e.Data)
}

// readable replaces bytes that are not UTF-8, SSE-28: engines cut characters in
// two, and one bad character is not worth an answer.
func readable(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}

// translator writes neutral events to the client. What comes before the first
// visible part of the answer is held back, so that a failure up to there can still
// have a status of its own.
type translator struct {
	x       *exchange
	encoder protocol.StreamEncoder
	undo    *llm.Undo
	out     []byte
	visible bool
	over    bool
	token   bool  // something was said that was not counted yet
	kept    int64 // what the encoder keeps of the answer
	seals   *sealStore
	keeper  keeper
}

func (r *Relay) newTranslator(x *exchange) *translator {
	s := &translator{x: x, encoder: x.dialect.NewStreamEncoder(x.translation.ask), undo: &x.translation.undo, seals: r.seals}
	if a, ok := s.encoder.(interface{ Array() }); ok && x.endpoint.array {
		a.Array()
	}
	return s
}

// encode takes events to the client's dialect. A failure before anything was
// visible is returned.
func (s *translator) encode(events []llm.Event) *llm.Error {
	for _, e := range events {
		if s.over {
			return nil
		}
		e, ok := s.note(e)
		if !ok {
			continue
		}
		s.keeper.event(e) // as the client will know it
		switch f := e.(type) {
		case llm.Failure:
			err := s.x.told(f.Err)
			if !s.visible && !s.x.out.begun() {
				return err
			}
			s.x.seen.Err, s.over = err, true
			e = llm.Failure{Err: err}
		case llm.End:
			s.over = true
			s.keeper.keep(s.seals, access.Caller(s.x.client), s.x.translation.ask.Turns)
		}
		s.out = s.encoder.Encode(e, s.out)
	}
	return nil
}

// note learns from an event what the exchange is measured by, and completes it.
func (s *translator) note(e llm.Event) (llm.Event, bool) {
	t := s.x.translation
	switch e := e.(type) {
	case llm.Start:
		return s.start(e), true
	case llm.Delta:
		s.visible, s.token = true, true
		if s.tooLong(len(e.Text)) {
			return llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_too_large",
				Message: "the answer is larger than limits.answer, " + sizeText(s.x.state.Limits.Answer) + ", and the last event of this dialect has to repeat it"}}, true
		}
	case llm.UsageUpdate:
		t.summary.Usage = &e.Usage
	case llm.ChoiceEnd:
		s.visible = true
		if e.Choice == 0 {
			t.summary.Finish = e.Stop.Raw
		}
	case llm.End:
		t.summary.Complete = true
	case llm.Ping:
		if !s.visible && !s.x.out.begun() {
			return e, false
		}
	}
	if s.undo == nil {
		return e, true
	}
	return s.undo.Event(e)
}

// start fills in what a dialect may want and the upstream has not said.
func (s *translator) start(e llm.Start) llm.Start {
	t := s.x.translation
	if e.ID == "" {
		e.ID = s.x.seen.ID
	}
	if e.Created == 0 {
		e.Created = t.created
	}
	if e.Model == "" {
		e.Model = s.x.target.Model
	}
	t.summary.ID, t.summary.Model = e.ID, e.Model
	if e.Usage != nil {
		t.summary.Usage = e.Usage
	}
	return e
}

// tooLong counts what the encoder has to keep: the last event of the Responses
// dialect repeats the whole answer, the others keep nothing.
func (s *translator) tooLong(n int) bool {
	if s.x.endpoint.dialect != protocol.OpenAIResponses {
		return false
	}
	s.kept += int64(n)
	return s.kept > s.x.state.Limits.Answer
}

// flush sends what was encoded, once something is visible.
func (s *translator) flush(now time.Time) *llm.Error {
	if !s.visible && !s.over && len(s.out) < heldBack {
		return nil
	}
	s.visible = true
	if s.token {
		s.token = false
		s.x.seen.Token(now)
	}
	err := s.x.send(s.out, now)
	s.out = s.out[:0]
	if err != nil {
		return clientGone(err)
	}
	return nil
}
