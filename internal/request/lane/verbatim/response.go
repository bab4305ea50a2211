package verbatim

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// Deliver relays the upstream's response.
func (a *attempt) Deliver(d *exchange.Delivery) *llm.Error {
	deliver := a.chooseDelivery(d)
	return exchange.RedactError(deliver(a, d), a.target.Provider)
}

// chooseDelivery returns the function that delivers the response. It does not call it, so that
// an open stream has one stack frame less.
func (a *attempt) chooseDelivery(d *exchange.Delivery) func(*attempt, *exchange.Delivery) *llm.Error {
	streams, wanted := d.Trip.Streams(), a.call.Body.Stream
	switch status := d.Trip.Response.StatusCode; {
	case status < 200 || status >= 300:
		return (*attempt).relayStatus
	case wanted && streams:
		return (*attempt).relayStream
	case wanted != streams && a.call.Operation == codec.Generate:
		return (*attempt).reform
	}
	return (*attempt).relayBody
}

func (a *attempt) relayStatus(d *exchange.Delivery) *llm.Error { return d.SendStatus() }

// reform delivers a response if only one side streams.
func (a *attempt) reform(d *exchange.Delivery) *llm.Error {
	a.reformed = a.lane.Translate.SameDialect(a.call, a.target, a.tap, a.losses)
	return a.reformed.Deliver(d)
}

// relayBody relays a non-streaming response. It buffers the body, because only a complete
// body can be checked.
func (a *attempt) relayBody(d *exchange.Delivery) *llm.Error {
	body, err := d.Trip.ReadBody(a.call.Settings.Limits.Answer)
	if err != nil {
		return err
	}
	if err := a.tap.Body(body); err != nil {
		return err
	}
	d.SendBody(d.Trip.Response.StatusCode, body, d.CopyContentType)
	upstream.FreeBody(body) // the tap has copied what it keeps
	return nil
}

// relayStream relays the upstream's bytes event by event, and the tap reads each event.
// An event is sent only when it is complete, so that a truncated stream can still end
// with a readable error event.
func (a *attempt) relayStream(d *exchange.Delivery) *llm.Error {
	s := &stream{attempt: a, d: d, events: upstream.NewEvents(d.Trip.Response.Body, a.call.Settings.Limits.Event)}
	for {
		s.batch, s.err = s.events.Batch()
		if over, fault := s.relay(); over {
			s.events.Close()
			return fault
		}
	}
}

// stream is the state of a stream that is being relayed. The last read is a part of it, so
// that a waiting stream needs a small stack.
type stream struct {
	*attempt
	d      *exchange.Delivery
	events *upstream.Events
	batch  sse.Batch
	err    error
}

// SetStreamHeaders sets the lane's own headers of a stream.
func (s *stream) SetStreamHeaders(h http.Header) { s.d.CopyContentType(h) }

// relay relays the events of one read, or ends the response. It reports whether the
// response is over.
func (s *stream) relay() (over bool, fault *llm.Error) {
	now, batch, err := time.Now(), s.batch, s.err
	over, fault = s.relayBatch(batch, now)
	switch {
	case fault != nil:
		return true, fault
	case over:
		if bytes.HasSuffix(batch.Raw, []byte("\r")) && bytes.HasPrefix(s.d.Trip.ReadRest(), []byte("\n")) {
			_ = s.d.SendEvents([]byte("\n"), now, s) // the second half of a line end; the response is complete without it
		}
		s.d.Trip.Drain()
		return true, nil
	case errors.Is(err, io.EOF):
		return true, s.end(now)
	case err != nil && (s.tap.Summary().Complete || s.d.LeftFinished()):
		return true, nil // complete before the connection broke
	case err != nil:
		return true, s.d.Trip.StreamError(err, s.call.Settings.Limits.Event)
	}
	return false, nil
}

// relayBatch relays a batch of events. It reports whether the response is over.
func (s *stream) relayBatch(batch sse.Batch, now time.Time) (over bool, fault *llm.Error) {
	left, over, fault := s.read(batch, now)
	if fault != nil {
		return true, fault
	}
	enough := false
	if over {
		s.d.ChargeStream()
	} else if s.tap.Finished() {
		enough = s.d.ReadRest(len(batch.Raw), s.tap.Summary().Usage)
	}
	if err := s.d.SendEvents(left, now, s); err != nil {
		return true, upstream.ClientGone(err)
	}
	return over || enough, s.d.Extend()
}

// read passes the events of a batch to the tap and returns the bytes to send.
func (s *stream) read(batch sse.Batch, now time.Time) (left []byte, over bool, fault *llm.Error) {
	raw, kept, from, to, token := batch.Raw, 0, 0, len(batch.Raw), false // raw[:kept] and raw[from:] are sent
	for e := range batch.Events() {
		s.d.Result.Events++
		switch s.mark(e) {
		case protocol.Content:
			token = true
			s.d.Account.CountEvent(len(e.Data))
		case protocol.UsageOnly:
			if s.request.AddedUsage { // the client did not request usage; the events behind it move over it
				kept += copy(raw[kept:], raw[from:e.Start])
				from = e.End
			}
		case protocol.Failed:
			kept += copy(raw[kept:], raw[from:e.Start])
			return nil, true, s.relayFailure(raw[:kept], e, token, now)
		case protocol.Done:
			to, over = e.End, true
		}
		if over {
			break
		}
	}
	if token {
		s.d.NoteToken(now)
	}
	if kept == 0 {
		return raw[from:to], over, nil
	}
	kept += copy(raw[kept:], raw[from:to])
	return raw[:kept], over, nil
}

// relayFailure ends a stream with the error event that the upstream sent. If the client
// has received nothing yet it gets a status. Otherwise it gets the upstream's event, if
// that is in its dialect's format.
func (s *stream) relayFailure(before []byte, e sse.Event, token bool, now time.Time) *llm.Error {
	fault := s.failure()
	if !token && !s.d.Writer.Started() {
		return fault
	}
	if err := s.d.SendEvents(before, now, s); err != nil {
		return upstream.ClientGone(err)
	}
	if !fault.Relayed || !e.HasData {
		return fault
	}
	s.d.Result.Err = exchange.RedactError(fault, s.target.Provider)
	s.d.Path.Charge()
	if err := s.d.SendEvents(exchange.Redact(e.Raw, s.target.Provider), now, s); err != nil {
		return upstream.ClientGone(err)
	}
	return nil
}

// mark returns the tap's classification of an event. A block without a data field that
// looks like JSON is usually an error response that was not framed as an event (SSE-27).
func (s *stream) mark(e sse.Event) protocol.Mark {
	if e.HasData {
		return s.tap.Event(e.Data)
	}
	if text := bytes.TrimSpace(e.Raw); len(text) > 0 && text[0] == '{' {
		s.tap.Event(text)
		return protocol.Failed
	}
	return protocol.Keepalive
}

// failure returns the error of the event that the tap marked as failed.
func (s *stream) failure() *llm.Error {
	if err := s.tap.Summary().Err; err != nil {
		return err
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream sent JSON outside of the events of its stream"}
}

// end ends a stream. The last event may lack its blank line if its data is complete
// (SSE-17).
func (s *stream) end(now time.Time) *llm.Error {
	last, ok := s.events.Last()
	if ok {
		s.d.Result.Events++
		switch s.mark(last) {
		case protocol.Failed: // a client could not parse it without its blank line
			return s.failure()
		case protocol.UsageOnly:
			if s.request.AddedUsage {
				last.Raw = nil
			}
		case protocol.Content:
			s.d.Account.CountEvent(len(last.Data))
		default:
		}
	}
	complete := s.tap.Summary().Complete
	if complete {
		s.d.ChargeStream()
	}
	if len(last.Raw) > 0 && !complete { // separates the error event from the incomplete one
		last.Raw = append(last.Raw, "\n\n"...)
	}
	if err := s.d.SendEvents(last.Raw, now, s); err != nil {
		return upstream.ClientGone(err)
	}
	if !complete {
		return upstream.Truncated(nil)
	}
	return nil
}
