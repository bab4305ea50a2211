package relay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"time"
	"unicode/utf8"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// heldBack is how much of an answer's beginning is held at most.
const heldBack = 64 << 10

// translateStream passes a stream on in the client's dialect.
func (r *Relay) translateStream(x *exchange) *llm.Error {
	s := r.newTranslator(x)
	pass := func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		if err := s.encode(events); err != nil {
			return true, err
		}
		fault := s.flush(now)
		return s.done(), fault
	}
	err := r.eachEvent(x, pass)
	for err == nil && s.broken != nil {
		err = r.carryOn(x, s, pass)
	}
	if err == nil && x.seen.Err == nil {
		x.linger()
	}
	return err
}

// carryOn takes up a stream that broke off, or ends it with the error.
func (r *Relay) carryOn(x *exchange, s *translator, pass func([]llm.Event, time.Time) (bool, *llm.Error)) *llm.Error {
	fault := s.broken
	x.report(fault)
	x.brokeOff(fault)
	s.spoken.usage = x.translation.summary.Usage
	s.broken = nil
	if r.resume(x, s) {
		return r.eachEvent(x, pass)
	}
	s.spoken = nil
	_, err := pass([]llm.Event{llm.Failure{Err: fault}}, time.Now())
	return err
}

// eachEvent decodes the upstream's stream and hands out what each read has
// brought. It ends when do says so; the last event is an End or a Failure.
func (r *Relay) eachEvent(x *exchange, do func([]llm.Event, time.Time) (bool, *llm.Error)) *llm.Error {
	h := x.listen(do)
	for {
		h.batch, h.err = h.reader.Batch()
		if over, fault := h.hear(); over {
			h.buf.release()
			return fault
		}
		h.buf.fit(h.reader, len(h.batch.Raw))
	}
}

func (x *exchange) listen(do func([]llm.Event, time.Time) (bool, *llm.Error)) *hearing {
	reader, buf := x.events()
	h := &hearing{x: x, reader: reader, buf: buf, decoder: x.speaks.NewStreamDecoder(), do: do}
	x.translation.hearing = h
	return h
}

// hearing is a stream that is being decoded. It belongs to the translation and not
// to the loop, so that a stream does not wait on a larger stack than it needs.
type hearing struct {
	x       *exchange
	reader  *sse.Reader
	buf     *eventBuffer
	batch   sse.Batch // what the last read has brought
	err     error
	decoder protocol.StreamDecoder
	events  []llm.Event
	do      func([]llm.Event, time.Time) (bool, *llm.Error)
}

// hear hands out what one read has brought. It reports whether that was all.
func (h *hearing) hear() (over bool, fault *llm.Error) {
	now := time.Now()
	h.decode()
	if h.err != nil {
		h.events = h.x.lastEvents(h.reader, h.decoder, h.err, h.events)
	}
	over, fault = h.do(h.events, now)
	switch {
	case fault != nil || over:
		return true, fault
	case h.err != nil:
		return true, truncated(h.err)
	}
	return false, nil
}

func (h *hearing) decode() {
	h.events = h.events[:0]
	for e := range h.batch.Events() {
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
	out     *[]byte // what was encoded and not sent; nil if there is nothing
	visible bool
	over    bool
	token   bool  // something was said that was not counted yet
	kept    int64 // what the encoder keeps of the answer
	seals   *sealStore
	keeper  keeper
	talk    [sha256.Size]byte // digest of the conversation, once that is forgotten
	keeping *keeping          // nil unless the answer can be named later

	spoken *spoken // nil unless the stream can be continued
	joined []llm.Event
	broken *llm.Error // why it has to be
}

func (r *Relay) newTranslator(x *exchange) *translator {
	s := &translator{x: x, encoder: x.dialect.NewStreamEncoder(x.translation.ask), undo: &x.translation.undo, seals: r.seals, keeper: x.keeper(), keeping: r.keeping(x)}
	if a, ok := s.encoder.(interface{ Array() }); ok && x.endpoint.array {
		a.Array()
	}
	if x.continues() {
		s.spoken = &spoken{limit: int(x.state.Limits.Answer)}
	}
	return s
}

// encode takes events to the client's dialect. A failure before anything was
// visible is returned.
func (s *translator) encode(events []llm.Event) *llm.Error {
	for _, e := range s.join(events) {
		if s.done() {
			break
		}
		e, ok := s.note(e)
		if !ok {
			continue
		}
		s.keeper.event(e) // as the client will know it
		switch f := e.(type) {
		case llm.Failure:
			if f.Err = s.x.told(f.Err); !s.visible && !s.x.out.begun() {
				return f.Err
			}
			if s.fail(f.Err); s.broken != nil {
				continue
			}
			e = f
		case llm.End:
			s.over = true
			s.keeper.keep(s.seals, s.before)
		}
		if s.spoken != nil {
			s.spoken.hear(e)
		}
		if s.out == nil {
			s.out = outs.Get().(*[]byte)
		}
		*s.out = s.encoder.Encode(e, *s.out)
	}
	if s.over && s.x.seen.Err == nil {
		s.keepPast()
	}
	return nil
}

// fail ends the stream with an error, unless it can be taken up again.
func (s *translator) fail(err *llm.Error) {
	if s.spoken.resumable() && elsewhere(err, nil) {
		s.broken = err
		return
	}
	s.x.seen.Err, s.over = err, true
}

// done reports whether nothing more of this upstream's stream is passed on.
func (s *translator) done() bool { return s.over || s.broken != nil }

// join makes the events of a stream's later part go on from its first.
func (s *translator) join(events []llm.Event) []llm.Event {
	if s.spoken == nil || s.x.seen.Continued == 0 {
		return events
	}
	s.joined = s.joined[:0]
	for _, e := range events {
		var ok bool
		if s.joined, ok = s.spoken.join(e, s.joined); !ok {
			s.spoken = nil
			return append(s.joined, llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated",
				Message: "connection lost: the upstream broke off its answer, and the rest could not be had"}})
		}
	}
	return s.joined
}

// note learns from an event what the exchange is measured by, and completes it.
func (s *translator) note(e llm.Event) (llm.Event, bool) {
	t := s.x.translation
	switch e := e.(type) {
	case llm.Start:
		return s.start(e), true
	case llm.BlockStart:
		s.x.unplaced(e.Block)
	case llm.Delta:
		s.visible, s.token = true, true
		s.x.saidText(len(e.Text))
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

// unplaced notes what the client's dialect makes of a piece that is neither text nor
// thought nor call. Such pieces are rare, and only the dialect knows, so it writes this
// one as a whole answer, for what it reports. The header is out; the log has it.
func (x *exchange) unplaced(b llm.Block) {
	switch b.(type) {
	case *llm.Media, *llm.ToolResult, *llm.ServerCall, *llm.Opaque:
	default:
		return
	}
	t, report := x.translation, llm.Report{}
	if len(t.losses) >= maxLosses {
		return
	}
	x.dialect.EncodeResponse(&llm.Response{Choices: []llm.Choice{{Blocks: []llm.Block{llm.CopyBlock(b)}, Stop: llm.Stop{Kind: llm.EndTurn}}}}, &llm.Request{}, &report)
	t.losses = append(t.losses, report.Losses...)
	x.fidelity = fidelityOf(t.losses)
}

// maxLosses are as many as are told of a stream.
const maxLosses = 32

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
	if s.out == nil || !s.visible && !s.over && len(*s.out) < heldBack {
		return nil
	}
	s.visible = true
	if s.token {
		s.token = false
		s.x.seen.Token(now)
	}
	s.keeping.question(s.x)
	s.forget()
	if s.over {
		s.x.chargeStream()
	}
	err := s.x.send(*s.out, now)
	putOut(s.out)
	s.out = nil
	if err != nil {
		return clientGone(err)
	}
	if err := s.x.passed(); err != nil {
		return s.refuse(err, now)
	}
	return nil
}

// refuse ends a stream that nobody pays for any more. It ends as it began: in some
// dialects the last event has to fit those before it.
func (s *translator) refuse(err *llm.Error, now time.Time) *llm.Error {
	s.spoken = nil // nobody is asked for the rest
	if err := s.encode([]llm.Event{llm.Failure{Err: err}}); err != nil {
		return err
	}
	return s.flush(now)
}

// forget lets go of what the client asked, once it has some of the answer, unless
// the rest may have to be asked for. The sealed reasoning of an answer that calls
// tools is kept by the conversation before it; whoever has no tools calls none.
func (s *translator) forget() {
	t := s.x.translation
	if t.ask == nil || s.spoken != nil {
		return
	}
	if len(t.ask.Tools) > 0 {
		s.talk = digestOf(t.ask.Turns)
	}
	t.ask = nil
}

// before is the digest of the conversation that is answered.
func (s *translator) before() [sha256.Size]byte {
	if ask := s.x.translation.ask; ask != nil {
		return digestOf(ask.Turns)
	}
	return s.talk
}
