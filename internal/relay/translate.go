package relay

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/provider"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/sse"
)

// translation is what an exchange between two dialects gathers.
type translation struct {
	ask     *llm.Request // what the client asked, in no dialect
	out     protocol.Outgoing
	undo    llm.Undo
	summary protocol.Summary
	created int64 // for dialects that want a time, where the upstream gave none
}

// translate writes the client's request in the upstream's dialect.
func (r *Relay) translate(x *exchange) *llm.Error {
	ask, err := x.dialect.DecodeRequest(x.incoming())
	if err != nil {
		return err
	}
	p := x.target.Provider
	send := *ask
	send.Stream = ask.Stream || p.UpstreamStream == provider.Always
	send.IncludeUsage = true // for the books; the client's own wish decides what it sees
	report := llm.Report{Mode: x.mode()}
	target := protocol.Target{Model: x.target.Model, Version: p.APIVersion, Gates: provider.GatesFor(p, x.target.Model)}
	out, err := x.speaks.EncodeRequest(&send, target, &report)
	if err != nil {
		return err
	}
	if out.Body, err = applyQuirks(out.Body, p.Quirks); err != nil {
		return err
	}
	x.translation = &translation{ask: ask, out: out, undo: llm.Undo{Names: out.Names}, created: time.Now().Unix()}
	x.body, x.path = out.Body, out.Path
	x.fidelity = fidelityOf(report.Losses)
	x.seen.UpstreamStream = send.Stream
	return nil
}

// incoming is the client's request as it came.
func (x *exchange) incoming() protocol.Incoming {
	return protocol.Incoming{Body: x.ask.body, Path: x.endpoint.path, Stream: x.ask.stream, Version: x.endpoint.version}
}

// otherForm answers where the upstream speaks the client's dialect but did not
// stream what was to be streamed, or streamed what was not.
func (r *Relay) otherForm(x *exchange) *llm.Error {
	ask, err := x.dialect.DecodeRequest(x.incoming())
	if err != nil {
		return err
	}
	ask.Stream = x.ask.stream
	x.translation = &translation{ask: ask, created: time.Now().Unix()}
	return r.answerTranslated(x)
}

// applyQuirks renames members as the provider wants them.
func applyQuirks(body []byte, quirks []provider.Quirk) ([]byte, *llm.Error) {
	if len(quirks) == 0 {
		return body, nil
	}
	o, err := index(body, span{0, len(body)}, nil)
	if err != nil {
		return nil, err
	}
	p := projection{object: o}
	return patch(body, p.applyQuirks(quirks)), nil
}

// modeHeader is how a client asks for a mode for one request.
const modeHeader = "Isogloss-Fidelity-Mode"

// mode is what is done about losses: as the client asks, else as configured.
func (x *exchange) mode() llm.Mode {
	switch m := llm.Mode(strings.ToLower(x.client.Header.Get(modeHeader))); m {
	case llm.Strict, llm.Default, llm.Loose:
		return m
	}
	if x.state.Fidelity != "" {
		return x.state.Fidelity
	}
	return llm.Default
}

// fidelityOf is the header that says what could not be carried: the worst verdict,
// how many there are of each, and their codes.
func fidelityOf(losses []llm.Loss) string {
	if len(losses) == 0 {
		return "exact"
	}
	var approximated, dropped int
	var codes []string
	for _, l := range losses {
		if l.Verdict == llm.Dropped {
			dropped++
		} else {
			approximated++
		}
		if !slices.Contains(codes, l.Code) {
			codes = append(codes, l.Code)
		}
	}
	worst := "approximated"
	if dropped > 0 {
		worst = "dropped"
	}
	return worst + ";a=" + strconv.Itoa(approximated) + ";d=" + strconv.Itoa(dropped) + `;codes="` + strings.Join(codes, " ") + `"`
}

// answerTranslated writes the upstream's answer in the client's dialect.
func (r *Relay) answerTranslated(x *exchange) *llm.Error {
	events := mediaType(x.upstream.Header) == "text/event-stream"
	switch status := x.upstream.StatusCode; {
	case status < 200 || status >= 300:
		return r.translateError(x)
	case events && x.translation.ask.Stream:
		return r.translateStream(x)
	case events:
		return r.translateCollected(x)
	}
	resp, err := r.readResponse(x)
	if err != nil {
		return err
	}
	if x.translation.ask.Stream {
		return r.writeExploded(x, resp)
	}
	return r.writeResponse(x, resp)
}

// translateError tells the client of an upstream's error answer in its own
// dialect.
func (r *Relay) translateError(x *exchange) *llm.Error {
	status := x.upstream.StatusCode
	if status < 400 || status == http.StatusUnauthorized {
		return r.answerStatus(x)
	}
	body, err := io.ReadAll(io.LimitReader(x.upstream.Body, maxErrorBody))
	if err != nil {
		return x.upstreamError(err)
	}
	e := x.speaks.DecodeError(status, x.upstream.Header, body)
	if e.Kind == llm.UpstreamAuth {
		return x.badCredential()
	}
	e.Message = string(redact([]byte(e.Message), x.target.Provider))
	return e
}

// readResponse reads a whole answer into the neutral model.
func (r *Relay) readResponse(x *exchange) (*llm.Response, *llm.Error) {
	body, err := x.readAnswer()
	if err != nil {
		return nil, err
	}
	resp, err := x.speaks.DecodeResponse(body)
	if err != nil {
		return nil, err
	}
	x.complete(resp)
	return resp, nil
}

// complete fills in what a dialect may want and the upstream has not said, and
// gives calls the names that the client knows.
func (x *exchange) complete(resp *llm.Response) {
	t := x.translation
	t.undo.Response(resp)
	if resp.ID == "" {
		resp.ID = x.seen.ID
	}
	if resp.Created == 0 {
		resp.Created = t.created
	}
	if resp.Model == "" {
		resp.Model = x.target.Model
	}
	t.summary.Model, t.summary.Usage, t.summary.Complete = resp.Model, resp.Usage, true
	if len(resp.Choices) > 0 {
		t.summary.Finish = resp.Choices[0].Stop.Raw
	}
}

func (r *Relay) writeResponse(x *exchange, resp *llm.Response) *llm.Error {
	var report llm.Report
	body := x.dialect.EncodeResponse(resp, x.translation.ask, &report)
	if len(report.Losses) > 0 && x.fidelity == "exact" {
		x.fidelity = fidelityOf(report.Losses)
	}
	x.writeWhole(http.StatusOK, body)
	return nil
}

// writeExploded streams an answer that came whole.
func (r *Relay) writeExploded(x *exchange, resp *llm.Response) *llm.Error {
	s := r.newTranslator(x)
	s.undo = nil // it was done on the whole
	if err := s.encode(llm.Explode(resp)); err != nil {
		return err
	}
	return s.flush(time.Now())
}

// translateCollected makes one answer of the upstream's stream.
func (r *Relay) translateCollected(x *exchange) *llm.Error {
	all := llm.Collector{Limit: int(x.state.Limits.Answer)}
	var fault *llm.Error
	err := r.eachEvent(x, func(events []llm.Event, _ time.Time) (bool, *llm.Error) {
		for _, e := range events {
			switch e := e.(type) {
			case llm.Failure:
				return true, e.Err
			case llm.End:
				return true, collected(all.Add(e))
			}
			if err := all.Add(e); err != nil {
				return true, collected(err)
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	resp, cause := all.Response()
	if cause != nil {
		if fault = collected(cause); errors.Is(cause, llm.ErrIncomplete) {
			fault = truncated(cause)
		}
		return fault
	}
	x.complete(resp)
	return r.writeResponse(x, resp)
}

// translateStream passes a stream on in the client's dialect.
func (r *Relay) translateStream(x *exchange) *llm.Error {
	s := r.newTranslator(x)
	return r.eachEvent(x, func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		if err := s.encode(events); err != nil {
			return true, err
		}
		return s.over, s.flush(now)
	})
}

// eachEvent decodes the upstream's stream and hands out what each read has
// brought. It ends when do says so.
func (r *Relay) eachEvent(x *exchange, do func([]llm.Event, time.Time) (bool, *llm.Error)) *llm.Error {
	buf := buffers.Get().(*[streamBuffer]byte)
	defer buffers.Put(buf)
	reader := sse.NewReader(x.upstream.Body, sse.Options{MaxEvent: int(x.state.Limits.Event), Buffer: buf[:]})
	decoder := x.speaks.NewStreamDecoder()
	var events []llm.Event
	for {
		batch, err := reader.Batch()
		now := time.Now()
		x.idle.Reset(x.target.Timeouts.Idle)
		events = events[:0]
		for e := range batch.Events() {
			x.seen.Events++
			events = decoder.Decode(e.Name, dataOf(e), events)
		}
		switch {
		case errors.Is(err, io.EOF):
			if last, ok := reader.Last(); ok && whole(last) {
				events = decoder.Decode(last.Name, dataOf(last), events)
			}
			events = decoder.Finish(events)
		case err != nil:
			events = append(events, llm.Failure{Err: x.streamError(err)})
		}
		over, fault := do(events, now)
		switch {
		case fault != nil:
			return fault
		case over:
			x.linger()
			return nil
		case err != nil:
			return truncated(err)
		}
	}
}

// dataOf is an event's data. A block without data that looks like JSON is an error
// that its sender forgot to frame, SSE-27.
func dataOf(e sse.Event) []byte {
	if !e.HasData && len(e.Raw) > 0 && e.Raw[0] == '{' {
		return e.Raw
	}
	return e.Data
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
}

func (r *Relay) newTranslator(x *exchange) *translator {
	s := &translator{x: x, encoder: x.dialect.NewStreamEncoder(x.translation.ask), undo: &x.translation.undo}
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
		switch e := e.(type) {
		case llm.Failure:
			if !s.visible && !s.x.out.committed {
				return e.Err
			}
			s.x.seen.Err, s.over = e.Err, true
		case llm.End:
			s.over = true
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
		return e, true
	case llm.Delta:
		s.visible = true
		s.x.token = true
	case llm.UsageUpdate:
		t.summary.Usage = &e.Usage
	case llm.ChoiceEnd:
		s.visible = true
		t.summary.Finish = e.Stop.Raw
	case llm.End:
		t.summary.Complete = true
	case llm.Ping:
		if !s.x.out.committed {
			return e, false
		}
	}
	if s.undo == nil {
		return e, true
	}
	return s.undo.Event(e)
}

// flush sends what was encoded, once something is visible.
func (s *translator) flush(now time.Time) *llm.Error {
	if !s.visible && !s.over {
		return nil
	}
	if s.x.token {
		s.x.token = false
		s.x.seen.Token(now)
	}
	err := s.x.send(s.out, now)
	s.out = s.out[:0]
	if err != nil {
		return clientGone(err)
	}
	return nil
}
