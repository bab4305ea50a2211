package relay

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/llm"
)

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

// answerTranslated writes the upstream's answer in the client's dialect.
func (r *Relay) answerTranslated(x *exchange) *llm.Error {
	events := mediaType(x.upstream.Header) == "text/event-stream"
	switch status := x.upstream.StatusCode; {
	case status < 200 || status >= 300:
		return r.translateError(x)
	case x.translation.rewrite != nil:
		return r.writeRewritten(x)
	case events && x.translation.ask.Stream:
		return r.translateStream(x)
	case events:
		return r.translateCollected(x)
	}
	return r.translateWhole(x)
}

// translateWhole writes an answer that came whole.
func (r *Relay) translateWhole(x *exchange) *llm.Error {
	body, err := x.readAnswer()
	if err != nil {
		return err
	}
	resp, err := x.speaks.DecodeResponse(readable(body))
	if err != nil {
		return err
	}
	if x.translation.ask.Stream {
		x.complete(resp)
		return r.writeExploded(x, resp)
	}
	r.writeResponse(x, resp)
	return nil
}

// translateError tells the client of an upstream's error answer in its own
// dialect.
func (r *Relay) translateError(x *exchange) *llm.Error {
	status := x.upstream.StatusCode
	if status < 400 || status == http.StatusUnauthorized {
		return r.answerStatus(x)
	}
	if status == x.translation.badKey {
		return x.badCredential()
	}
	body, err := io.ReadAll(io.LimitReader(x.upstream.Body, maxErrorBody))
	if err != nil {
		return x.upstreamError(err)
	}
	e := x.speaks.DecodeError(status, x.upstream.Header, body)
	x.discourage(e)
	return e
}

// discourage tells SDKs, which try again after a 429, that it will not help until
// somebody pays. VER-26
func (x *exchange) discourage(e *llm.Error) {
	if e.Kind == llm.Quota {
		x.out.header()["X-Should-Retry"] = []string{"false"}
	}
}

// told is an error as the client may hear it. In its own words an upstream may
// quote the gateway's credential, and what it says of that is not for the client.
func (x *exchange) told(err *llm.Error) *llm.Error {
	switch {
	case err == nil:
		return nil
	case err.Kind == llm.UpstreamAuth && x.translation != nil:
		return x.badCredential()
	case !err.Relayed:
		return err
	}
	e := *err
	for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
		*text = string(redact([]byte(*text), x.target.Provider))
	}
	return &e
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
	t.summary.ID, t.summary.Model, t.summary.Usage, t.summary.Complete = resp.ID, resp.Model, resp.Usage, true
	if len(resp.Choices) > 0 {
		t.summary.Finish = resp.Choices[0].Stop.Raw
	}
}

func (r *Relay) writeResponse(x *exchange, resp *llm.Response) {
	x.complete(resp)
	x.saidResponse(resp)
	r.seals.keepAnswer(x.keeper(), x.translation.ask.Turns, resp)
	t := x.translation
	report := llm.Report{Losses: t.losses}
	body := x.dialect.EncodeResponse(resp, t.ask, &report)
	t.losses = report.Losses
	x.fidelity = fidelityOf(t.losses)
	k := r.keeping(x)
	k.question(x)
	k.answer(body)
	x.writeWhole(http.StatusOK, body)
}

// writeRewritten passes on what is no generated text.
func (r *Relay) writeRewritten(x *exchange) *llm.Error {
	body, err := x.readAnswer()
	if err != nil {
		return err
	}
	if body, err = x.translation.rewrite(body); err != nil {
		return err
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
	err := r.eachEvent(x, func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		for _, e := range events {
			if f, failed := e.(llm.Failure); failed {
				return true, f.Err
			}
			if d, said := e.(llm.Delta); said {
				x.seen.Token(now)
				x.saidText(len(d.Text))
			}
			if err := all.Add(e); err != nil {
				return true, collected(err)
			}
			if _, over := e.(llm.End); over {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	resp, cause := all.Response()
	switch {
	case errors.Is(cause, llm.ErrIncomplete):
		return truncated(cause)
	case cause != nil:
		return collected(cause)
	}
	r.writeResponse(x, resp)
	if x.out.flush() == nil { // the client does not wait for the upstream to close
		x.linger()
	}
	return nil
}
