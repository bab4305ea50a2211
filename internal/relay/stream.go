package relay

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

const (
	afterDone     = 100 * time.Millisecond // how long the upstream may take to close after its last event
	afterDoneRead = 4 << 10
)

// relayStream passes the upstream's bytes on, event by event, while the tap looks
// at each. An event is passed on when it is here whole, so that a stream which is
// cut can still be ended with an error that the client can read.
func (r *Relay) relayStream(x *exchange) *llm.Error {
	events, buf := x.events()
	for {
		batch, err := events.Batch()
		whole := len(batch.Raw)
		if over, fault := x.passOrEnd(events, batch, err); over {
			buf.release()
			return fault
		}
		buf.fit(events, whole)
	}
}

// passOrEnd relays what a read has brought, or ends the answer. It reports whether
// the answer is over.
func (x *exchange) passOrEnd(events *sse.Reader, batch sse.Batch, err error) (bool, *llm.Error) {
	now := time.Now()
	over, fault := x.pass(batch, now)
	switch {
	case fault != nil:
		return true, fault
	case over:
		rest := x.linger()
		if bytes.HasSuffix(batch.Raw, []byte("\r")) && bytes.HasPrefix(rest, []byte("\n")) {
			_ = x.send(rest[:1], now) // the other half of a line end; the answer is whole without it
		}
		return true, nil
	case errors.Is(err, io.EOF):
		return true, x.end(events, now)
	case err != nil && x.tap.Summary().Complete:
		return true, nil // it was whole before the connection broke
	case err != nil:
		return true, x.streamError(err)
	}
	return false, nil
}

// pass relays one batch. It reports whether the answer is over.
func (x *exchange) pass(batch sse.Batch, now time.Time) (over bool, fault *llm.Error) {
	left, over, fault := x.look(batch, now)
	if fault != nil {
		return true, fault
	}
	if over {
		x.chargeStream()
	}
	if err := x.send(left, now); err != nil {
		return true, clientGone(err)
	}
	return over, x.passed()
}

// look shows the events of a batch to the tap and returns what is left to be sent.
func (x *exchange) look(batch sse.Batch, now time.Time) (left []byte, over bool, fault *llm.Error) {
	raw, from, to, token := batch.Raw, 0, len(batch.Raw), false
	for e := range batch.Events() {
		x.seen.Events++
		switch x.mark(e) {
		case protocol.Content:
			token = true
			x.said(len(e.Data))
		case protocol.UsageOnly:
			if x.hide {
				if err := x.send(raw[from:e.Start], now); err != nil {
					return nil, true, clientGone(err)
				}
				from = e.End
			}
		case protocol.Failed:
			return nil, true, x.passError(raw[from:e.Start], e, token, now)
		case protocol.Done:
			to, over = e.End, true
		}
		if over {
			break
		}
	}
	if token {
		x.seen.Token(now)
	}
	return raw[from:to], over, nil
}

// passError ends a stream with the error that the upstream sent in it. A client
// that has nothing of the answer gets a status. One that has gets the upstream's
// own words, if they are an event that it can read.
func (x *exchange) passError(before []byte, e sse.Event, token bool, now time.Time) *llm.Error {
	fault := x.failure()
	if !token && !x.out.begun() {
		return fault
	}
	if err := x.send(before, now); err != nil {
		return clientGone(err)
	}
	if !fault.Relayed || !e.HasData {
		return fault
	}
	x.seen.Err = fault
	x.charge()
	if err := x.send(redact(e.Raw, x.target.Provider), now); err != nil {
		return clientGone(err)
	}
	return nil
}

// mark is what an event means. A block without data that looks like JSON is an
// answer, most likely an error, that its sender forgot to frame, SSE-27.
func (x *exchange) mark(e sse.Event) protocol.Mark {
	if e.HasData {
		return x.tap.Event(e.Data)
	}
	if text := bytes.TrimSpace(e.Raw); len(text) > 0 && text[0] == '{' {
		x.tap.Event(text)
		return protocol.Failed
	}
	return protocol.Keepalive
}

// failure is the error of the event that was marked as failed.
func (x *exchange) failure() *llm.Error {
	if err := x.tap.Summary().Err; err != nil {
		return err
	}
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream sent JSON outside of the events of its stream"}
}

// send writes raw bytes and flushes them.
func (x *exchange) send(p []byte, now time.Time) error {
	if len(p) == 0 {
		return nil
	}
	x.out.lock()
	defer x.out.unlock()
	x.commitStream()
	x.out.said = true
	x.letGo()
	x.account.note()
	if err := x.out.write(p, now); err != nil {
		return err
	}
	if err := x.out.flush(); err != nil {
		return err
	}
	x.account.sent()
	return nil
}

// commitStream begins the answer of a stream.
func (x *exchange) commitStream() {
	if x.out.committed {
		x.seen.Status = http.StatusOK // the keep-alive may have been before us
		return
	}
	h := x.out.header()
	x.answerHeaders(h)
	streamHeaders(h)
	if x.continues() {
		h["Trailer"] = []string{continuedTrailer}
	}
	switch {
	case x.endpoint.array:
		h["Content-Type"] = []string{"application/json"}
	case mediaType(x.upstream.Header) != "text/event-stream":
		h["Content-Type"] = []string{"text/event-stream"}
	}
	x.seen.Status = http.StatusOK
	x.out.commit(http.StatusOK)
}

// keepAlive lets comment lines be sent from now on, if they are configured. They
// may begin the answer before anybody has answered: its headers then say who was
// asked, if only one can be.
func (x *exchange) keepAlive() {
	if x.out.keep != nil || x.ask == nil || !x.ask.stream || x.state.KeepAlive <= 0 || !x.endpoint.comments() {
		return
	}
	early := http.Header{"Content-Type": {"text/event-stream"}}
	streamHeaders(early)
	if len(x.line) == 1 {
		x.answerHeaders(early)
	}
	x.out.keepAlive(x.state.KeepAlive, early)
}

// end judges a stream that has come to its end. Its last event may lack the blank
// line, SSE-17; that is fine if its data is whole.
func (x *exchange) end(events *sse.Reader, now time.Time) *llm.Error {
	last, ok := lastEvent(events)
	if ok {
		x.seen.Events++
		mark := x.mark(last)
		if mark == protocol.Failed { // as it is, a client could not read it
			return x.failure()
		}
		if mark == protocol.UsageOnly && x.hide {
			last.Raw = nil
		}
		if mark == protocol.Content {
			x.said(len(last.Data))
		}
	}
	whole := x.tap.Summary().Complete
	if whole {
		x.chargeStream()
	}
	if len(last.Raw) > 0 && !whole { // the error that follows is an event of its own
		last.Raw = append(last.Raw, "\n\n"...)
	}
	if err := x.send(last.Raw, now); err != nil {
		return clientGone(err)
	}
	if !whole {
		return truncated(nil)
	}
	return nil
}

// lastEvent is what the end of a stream has cut off, if it is whole: an event
// without its blank line, or an object that was never framed.
func lastEvent(events *sse.Reader) (sse.Event, bool) {
	last, ok := events.Last()
	if !ok {
		last.Raw = bytes.TrimSpace(events.Rest())
	}
	if whole(last) {
		return last, true
	}
	return sse.Event{}, false
}

// whole reports whether an event's data is all there.
func whole(e sse.Event) bool {
	data := bytes.TrimSpace(e.Data)
	if !e.HasData {
		return jsontext.Value(e.Raw).Kind() == '{' && jsontext.Value(e.Raw).IsValid(scanOptions)
	}
	return string(data) == "[DONE]" || jsontext.Value(data).IsValid(scanOptions)
}

func truncated(cause error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_truncated", Message: "the upstream's stream ended without the rest of the answer", Cause: cause}
}

// streamError says why a stream could not be read on.
func (x *exchange) streamError(err error) *llm.Error {
	var long *sse.TooLongError
	if errors.As(err, &long) {
		return &llm.Error{Kind: llm.Upstream, Code: "upstream_event_too_large", Message: "the upstream sent an event larger than limits.event, " + sizeText(x.state.Limits.Event), Cause: err}
	}
	return x.upstreamError(err)
}

// linger reads to the end of a finished stream, so that the connection can be
// used again, and returns what was left. An upstream that does not close is not
// waited for.
func (x *exchange) linger() []byte {
	x.total.Reset(afterDone)
	rest, _ := io.ReadAll(io.LimitReader(x.upstream.Body, afterDoneRead)) // the answer was whole before it
	return rest
}

// writeEvents sends a stream that was made from a whole answer.
func (x *exchange) writeEvents(events [][]byte) *llm.Error {
	var b []byte
	for _, data := range events {
		switch x.tap.Event(data) {
		case protocol.UsageOnly:
			if !x.ask.usage {
				continue
			}
		case protocol.Content:
			x.said(len(data))
		default:
		}
		b = sse.AppendEvent(b, "", data)
		x.seen.Events++
	}
	b = sse.AppendEvent(b, "", []byte("[DONE]"))
	x.chargeStream()
	if err := x.send(b, time.Now()); err != nil {
		return clientGone(err)
	}
	return nil
}
