package relay

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// await holds a stream back until it says something, where somebody else could be
// asked if it does not: headers, a role and a ping are promises and no answer. What
// was read is read again by whoever passes it on.
func (x *exchange) await() *llm.Error {
	if !x.holds() {
		return nil
	}
	if limit := x.target.Timeouts.FirstToken; limit > 0 {
		hangUp := x.hangUp
		late := time.AfterFunc(limit-time.Since(x.asked), func() { hangUp(errNoToken) })
		defer late.Stop()
	}
	var held bytes.Buffer
	body := x.upstream.Body
	err := x.watch(io.TeeReader(body, &held))
	x.upstream.Body = readCloser{io.MultiReader(&held, body), body}
	return err
}

// holds reports whether a stream's beginning is worth holding back. One that is
// collected is held back anyway.
func (x *exchange) holds() bool {
	switch {
	case mediaType(x.upstream.Header) != "text/event-stream":
		return false
	case x.target.Timeouts.FirstToken > 0, x.route.Hedge.Quantile > 0:
		return true
	}
	return x.ask.stream && len(x.line) > 1 && x.state.Retries.Attempts > 1
}

// watch reads a stream up to the first part of an answer, or so far that it is
// not worth the memory.
func (x *exchange) watch(stream io.Reader) *llm.Error {
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	reader := sse.NewReader(stream, sse.Options{MaxEvent: int(x.state.Limits.Event), Buffer: buf[:]})
	first := x.newFirst()
	for read := 0; read < heldBack; {
		batch, err := reader.Batch()
		read += len(batch.Raw)
		for e := range batch.Events() {
			if said, fault := first.event(e); said || fault != nil {
				return fault
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if last, ok := lastEvent(reader); ok {
				if said, fault := first.event(last); said || fault != nil {
					return fault
				}
			}
			return first.end()
		case err != nil:
			return x.streamError(err)
		}
	}
	return nil
}

// first looks for the first part of an answer in a stream.
type first interface {
	event(sse.Event) (said bool, fault *llm.Error)
	end() *llm.Error // what it means that nothing came
}

func (x *exchange) newFirst() first {
	if x.endpoint.generates {
		return &firstDecoded{x: x, decoder: x.speaks.NewStreamDecoder()}
	}
	return &firstTapped{x: x, tap: x.speaks.NewTap(x.ask.n)}
}

// firstDecoded reads the events of an answer.
type firstDecoded struct {
	x       *exchange
	decoder protocol.StreamDecoder
	events  []llm.Event
}

func (f *firstDecoded) event(e sse.Event) (bool, *llm.Error) {
	f.events = f.decoder.Decode(e.Name, dataOf(e), f.events[:0])
	return f.judge()
}

func (f *firstDecoded) end() *llm.Error {
	f.events = f.decoder.Finish(f.events[:0])
	_, fault := f.judge()
	return fault
}

func (f *firstDecoded) judge() (bool, *llm.Error) {
	for _, e := range f.events {
		switch e := e.(type) {
		case llm.Start:
			f.x.early = e.Usage
		case llm.Delta, llm.ChoiceEnd, llm.End:
			return true, nil
		case llm.Failure:
			return true, f.x.told(e.Err)
		}
	}
	return false, nil
}

// firstTapped reads what is like an answer, such as text completions.
type firstTapped struct {
	x   *exchange
	tap protocol.Tap
}

func (f *firstTapped) event(e sse.Event) (bool, *llm.Error) {
	if !e.HasData {
		return false, nil
	}
	switch f.tap.Event(e.Data) {
	case protocol.Content, protocol.Done:
		return true, nil
	case protocol.Failed:
		return true, f.x.told(f.tap.Summary().Err)
	case protocol.Keepalive, protocol.UsageOnly:
	}
	return false, nil
}

func (f *firstTapped) end() *llm.Error { return truncated(nil) }
