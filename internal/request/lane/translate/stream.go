package translate

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// maxHeld limits how many bytes of a response are held back before its first visible
// part.
const maxHeld = 64 << 10

// deliverStream sends a stream in the client's dialect.
func (a *attempt) deliverStream(d *exchange.Delivery) *llm.Error {
	w := a.newStreamWriter(d)
	write := func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		if err := w.encode(events); err != nil {
			return true, err
		}
		enough := !w.over && w.finished() && d.ReadRest(len(w.attempt.stream.batch.Raw), w.attempt.summary.Usage)
		err := w.flush(now)
		return enough || w.done(), err
	}
	err := a.readStream(d, write)
	for err == nil && w.broken != nil {
		err = w.resume(write)
	}
	if err == nil && d.Result.Err == nil {
		d.Trip.Drain()
	}
	return err
}

// eventFunc receives the neutral events of one read. It reports whether the stream is
// over.
type eventFunc func(events []llm.Event, now time.Time) (bool, *llm.Error)

// readStream decodes the upstream's stream and calls do with the events of each read,
// until do reports the end. The last event is an End or a Failure.
func (a *attempt) readStream(d *exchange.Delivery, do eventFunc) *llm.Error {
	r := a.newStreamReader(d, do)
	for {
		r.batch, r.err = r.events.Batch()
		if over, err := r.decodeBatch(); over {
			r.events.Close()
			return err
		}
	}
}

func (a *attempt) newStreamReader(d *exchange.Delivery, do eventFunc) *streamReader {
	a.stream = &streamReader{attempt: a, delivery: d, do: do,
		events: upstream.NewEvents(d.Trip.Response.Body, a.call.Settings.Limits.Event), decoder: a.pair.NewDecoder(), ends: pair.Ends{Choices: a.choices}}
	if mode := a.target.Provider.ThinkTags; mode.Parses() && !a.resumes {
		a.stream.decoder = &thinkDecoder{StreamDecoder: a.stream.decoder, think: newThinkSplitter(mode)}
	}
	return a.stream
}

// streamReader decodes a stream. It is allocated on the heap, so that a waiting stream
// needs a small stack.
type streamReader struct {
	attempt  *attempt
	delivery *exchange.Delivery
	do       eventFunc
	events   *upstream.Events
	decoder  protocol.StreamDecoder
	batch    sse.Batch // the last read
	err      error
	decoded  []llm.Event
	ends     pair.Ends
}

// decodeBatch decodes the events of one read. It reports whether the stream is over.
func (r *streamReader) decodeBatch() (over bool, err *llm.Error) {
	now := time.Now()
	r.decoded = r.decoded[:0]
	for e := range r.batch.Events() {
		r.decode(e)
	}
	r.decoded = r.attempt.pair.EndMalformed(r.decoded)
	r.ends.Add(r.decoded)
	left := r.err != nil && !errors.Is(r.err, io.EOF) && r.delivery.LeftFinished()
	if r.err != nil && !left {
		r.finish()
	}
	over, err = r.do(r.decoded, now)
	switch {
	case err != nil || over || left:
		return true, err
	case r.err != nil:
		return true, upstream.Truncated(r.err)
	}
	return false, nil
}

func (r *streamReader) decode(e sse.Event) {
	r.delivery.Result.Events++
	data := pair.EventData(e)
	if r.attempt.tap != nil {
		r.attempt.tap.Event(data)
	}
	if r.attempt.assemble != nil {
		r.attempt.assemble.Event(data)
	}
	r.decoded = r.decoder.Decode(e.Name, data, r.decoded)
}

// finish decodes the end of the stream. A stream whose final event arrived before its
// connection broke is complete.
func (r *streamReader) finish() {
	clean := errors.Is(r.err, io.EOF)
	if last, ok := r.events.Last(); ok && clean {
		r.decode(last)
	}
	before := len(r.decoded)
	r.decoded = r.attempt.pair.EndMalformed(r.decoder.Finish(r.decoded))
	r.ends.Require(r.decoded, min(before, len(r.decoded)))
	if n := len(r.decoded); n > before && !clean {
		if _, failed := r.decoded[n-1].(llm.Failure); failed {
			r.decoded[n-1] = llm.Failure{Err: r.delivery.Trip.StreamError(r.err, r.attempt.call.Settings.Limits.Event)}
		}
	}
}

// streamWriter encodes neutral events for the client. It holds back the events before the
// first visible part of the response, so that an error before it can still have a status.
type streamWriter struct {
	attempt  *attempt // the current attempt, which changes when a stream is resumed
	delivery *exchange.Delivery
	encoder  protocol.StreamEncoder
	undo     *llm.Undo // nil if the names are restored already
	progress
	lossReport
	recording
	resumable *resumable // nil if the stream cannot be resumed
	broken    *llm.Error // the error after which the stream is resumed
}

// progress says how far a response is encoded and sent.
type progress struct {
	buf     *[]byte      // encoded events not yet sent; nil: none
	visible bool         // a visible part was encoded
	over    bool         // no further event is sent
	pings   bool         // keep-alives were started
	token   bool         // content was encoded since the last flush
	ended   map[int]bool // choices that have a finish reason
	repeats int64        // bytes that the encoder keeps for its last event
}

// lossReport is what a stream tells its client of losses.
type lossReport struct {
	outline  pair.Outline
	declared bool   // the headers announce the trailer with the losses
	told     string // the losses in the headers
}

// recording keeps parts of a response for later requests of the conversation.
type recording struct {
	seals  conversation.SealRecorder
	digest conversation.Digest            // of the conversation; set when the request is released
	stored *conversation.ResponseRecorder // nil if the response is not stored
}

func (a *attempt) newStreamWriter(d *exchange.Delivery) *streamWriter {
	w := &streamWriter{attempt: a, delivery: d, encoder: a.codec.NewStreamEncoder(a.ask), undo: &a.undo}
	w.ended = make(map[int]bool, 1)
	w.outline = pair.NewOutline(a.codec.Name(), a.call.Complete != nil)
	w.seals, w.stored = a.recordSeals(), a.recordResponse()
	if a.call.Array {
		w.encoder = a.call.Dialect.NewArrayEncoder(a.ask)
	}
	if a.call.Continues() {
		w.resumable = &resumable{limit: int(a.call.Settings.Limits.Answer)}
	}
	return w
}

// encode encodes events. It returns an error that occurs before any visible part.
func (w *streamWriter) encode(events []llm.Event) *llm.Error {
	for _, e := range w.resumable.joinAll(events) {
		if w.done() {
			break
		}
		e, ok := w.note(e)
		if !ok {
			continue
		}
		w.seals.Event(e)
		w.outline.Add(e)
		switch f := e.(type) {
		case llm.Failure:
			if f.Err = w.attempt.clientError(f.Err); !w.visible && !w.delivery.Writer.Started() {
				return f.Err
			}
			if w.fail(f.Err); w.broken != nil {
				continue
			}
			e = f
			w.tellFidelity()
		case llm.End:
			w.over = true
			w.seals.Save(w.conversationDigest)
			w.attempt.reportRest(&w.outline)
			w.tellFidelity()
		}
		w.resumable.follow(e)
		*w.buffer() = w.encoder.Encode(e, *w.buffer())
	}
	if w.over && w.delivery.Result.Err == nil {
		w.stored.StreamEnd(w.encoder)
	}
	return nil
}

// fail ends the stream with an error, unless it can be resumed.
func (w *streamWriter) fail(err *llm.Error) {
	if w.resumable.ready() && w.delivery.Path.MayResume(err) {
		w.broken = err
		return
	}
	w.delivery.Result.Err, w.over = err, true
}

// done reports whether no further event of this upstream's stream is sent.
func (w *streamWriter) done() bool { return w.over || w.broken != nil }

// finished reports whether every choice has its finish reason.
func (w *streamWriter) finished() bool {
	return len(w.ended) >= max(1, w.attempt.call.Body.Choices)
}

// note records an event's contribution to the response and completes the event. It
// reports whether the event is sent.
func (w *streamWriter) note(e llm.Event) (llm.Event, bool) {
	a, d := w.attempt, w.delivery
	switch e := e.(type) {
	case llm.Start:
		return a.completeStart(e), true
	case llm.BlockStart:
		a.summary.Content = a.summary.Content || hasContent(e.Block)
		a.reportBlock(e.Block)
	case llm.Delta:
		w.visible, w.token = true, true
		a.summary.Content = a.summary.Content || e.Text != ""
		d.Account.CountText(len(e.Text))
		if w.tooLong(len(e.Text)) {
			return llm.Failure{Err: &llm.Error{Kind: llm.Upstream, Code: "upstream_too_large",
				Message: "the response is larger than limits.answer, " + upstream.SizeText(a.call.Settings.Limits.Answer) + ", and the last event of this dialect has to repeat it"}}, true
		}
	case llm.UsageUpdate:
		a.summary.Usage, a.summary.Tier = &e.Usage, cmp.Or(e.Tier, a.summary.Tier)
	case llm.ChoiceEnd:
		w.visible = true
		if e.Choice == 0 {
			a.summary.Finish = e.Stop.Raw
		}
		w.ended[e.Choice] = true
	case llm.End:
		a.summary.Complete = true
	case llm.Ping:
		if !w.visible && !d.Writer.Started() {
			return e, false
		}
	}
	if w.undo == nil {
		return e, true
	}
	return w.undo.Event(e)
}

// completeStart sets members that the client's dialect requires and the upstream did not
// send.
func (a *attempt) completeStart(e llm.Start) llm.Start {
	e.ID, e.Created, e.Model = cmp.Or(e.ID, a.call.ID), cmp.Or(e.Created, a.created), cmp.Or(e.Model, a.target.Model)
	a.summary.ID, a.summary.Model, a.summary.Tier = e.ID, e.Model, e.Tier
	if e.Usage != nil {
		a.summary.Usage = e.Usage
	}
	return e
}

// reportBlock reports the losses of a block. The header is already sent, so the losses are only
// logged.
func (a *attempt) reportBlock(b llm.Block) {
	if len(a.losses) >= pair.MaxLosses {
		return
	}
	if losses := pair.BlockLosses(a.codec, b); len(losses) > 0 {
		a.losses = append(a.losses, losses...)
		a.fidelity = exchange.FidelityOf(a.losses)
	}
}

// tooLong reports whether the last event of the stream would exceed the limit, in
// dialects whose last event repeats the whole response.
func (w *streamWriter) tooLong(n int) bool {
	if !w.attempt.call.Dialect.RepeatsResponse {
		return false
	}
	w.repeats += int64(n)
	return w.repeats > w.attempt.call.Settings.Limits.Answer
}

// flush sends the encoded events, once one is visible.
func (w *streamWriter) flush(now time.Time) *llm.Error {
	d := w.delivery
	if w.buf == nil || !w.visible && !w.over && len(*w.buf) < maxHeld {
		return nil
	}
	w.visible = true
	if w.token {
		w.token = false
		d.NoteToken(now)
	}
	w.releaseRequest()
	if w.over {
		d.ChargeStream()
	}
	err := d.SendEvents(*w.buf, now, w)
	free(w.buf)
	w.buf = nil
	if err != nil {
		return upstream.ClientGone(err)
	}
	w.startPings()
	if err := d.Extend(); err != nil {
		return w.refuse(err, now)
	}
	return nil
}

// startPings keeps a stream alive that has begun: clients that read pings give up on a silent
// one. A ping before the beginning would send the status, and so end failover.
func (w *streamWriter) startPings() {
	if ping := w.attempt.call.Dialect.Ping; ping != nil && !w.pings && !w.over && w.attempt.lane.Ping > 0 {
		w.pings = true
		w.delivery.Writer.KeepAlive(w.attempt.lane.Ping, ping, nil)
	}
}

// refuse ends a stream whose budget is exhausted. In some dialects the last event depends
// on the events before it, so the encoder writes it.
func (w *streamWriter) refuse(err *llm.Error, now time.Time) *llm.Error {
	w.resumable = nil
	if err := w.encode([]llm.Event{llm.Failure{Err: err}}); err != nil {
		return err
	}
	return w.flush(now)
}

// releaseRequest drops the neutral request after a part of the response is sent, unless
// the stream may be resumed. It keeps the conversation's digest, under which sealed
// reasoning is stored, for responses that may call tools.
func (w *streamWriter) releaseRequest() {
	a := w.attempt
	if a.ask == nil || w.resumable != nil {
		return
	}
	if len(a.ask.Tools) > 0 {
		w.digest = conversation.DigestOf(a.ask.Turns)
	}
	a.ask = nil
}

// conversationDigest returns the digest of the conversation before the response.
func (w *streamWriter) conversationDigest() conversation.Digest {
	if ask := w.attempt.ask; ask != nil {
		return conversation.DigestOf(ask.Turns)
	}
	return w.digest
}

// buffers hold encoded events. The first events of a stream may be large, so a stream
// holds a buffer only while it has something to send.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// free returns a buffer to the pool, unless it grew very large.
func free(b *[]byte) {
	if cap(*b) <= maxHeld {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}
