package translate

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/codec/conversation"
	"github.com/isogloss-gateway/isogloss/internal/codec/pair"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// SameDialect returns the attempt that delivers a response of the client's own dialect if
// only one side streams: a stream for a non-streaming client, or the reverse. The
// upstream has accepted the request, so a request that cannot be decoded is not an error.
// The tap also reads the stream.
func (l *Lane) SameDialect(c *exchange.Call, t *exchange.Target, tap protocol.Tap, losses []llm.Loss) exchange.Prepared {
	ask, err := c.Dialect.Codec.DecodeRequest(c.Incoming())
	if err != nil {
		ask = &llm.Request{Model: c.Body.Model, IncludeUsage: c.Body.Usage}
	}
	ask.Stream = c.Body.Stream
	a := l.newAttempt(c, t)
	a.ask, a.created, a.tap, a.losses, a.fidelity = ask, time.Now().Unix(), tap, losses, exchange.FidelityOf(losses)
	if c.Dialect.NewAssembler != nil && !ask.Stream {
		a.assemble = c.Dialect.NewAssembler()
	}
	return a
}

// Deliver sends the upstream's response in the client's dialect.
func (a *attempt) Deliver(d *exchange.Delivery) *llm.Error {
	deliver := a.chooseDelivery(d)
	return a.clientError(deliver(a, d))
}

// chooseDelivery returns the function that delivers the response. It does not call it, so that
// an open stream has one stack frame less.
func (a *attempt) chooseDelivery(d *exchange.Delivery) func(*attempt, *exchange.Delivery) *llm.Error {
	streams := d.Trip.Streams()
	switch status := d.Trip.Response.StatusCode; {
	case status < 200 || status >= 300:
		return (*attempt).deliverError
	case a.rewrite != nil:
		return (*attempt).deliverRewritten
	case streams && a.ask.Stream:
		return (*attempt).deliverStream
	case streams:
		return (*attempt).deliverCollected
	}
	return (*attempt).deliverBody
}

// deliverBody sends a non-streaming response.
func (a *attempt) deliverBody(d *exchange.Delivery) *llm.Error {
	body, err := d.Trip.ReadBody(a.call.Settings.Limits.Answer)
	if err != nil {
		return err
	}
	release, err := a.lane.reserve(a.call, body)
	if err != nil {
		return err
	}
	resp, err := a.target.Dialect.Codec.DecodeResponse(pair.ValidUTF8(body))
	release() // not later, because a slow client would keep it
	if err != nil {
		return err
	}
	a.pair.Relabel(resp)
	if mode := a.target.Provider.ThinkTags; mode.Parses() {
		if resp, err = splitThinking(mode, resp); err != nil {
			return err
		}
	}
	if err := a.pair.CheckOutput(resp); err != nil {
		a.summary.Usage = resp.Usage
		return err
	}
	if a.ask.Stream {
		a.complete(resp)
		return a.sendAsStream(d, resp)
	}
	a.sendResponse(d, resp)
	return nil
}

// deliverError returns the error of an error response.
func (a *attempt) deliverError(d *exchange.Delivery) *llm.Error {
	status := d.Trip.Response.StatusCode
	if status < 400 || status == http.StatusUnauthorized {
		return d.SendStatus()
	}
	if status == a.request.RejectedKey {
		return exchange.RejectedCredential(a.target.Provider)
	}
	body, err := d.Trip.ReadError()
	if err != nil {
		return err
	}
	e := a.target.Dialect.Codec.DecodeError(status, d.Trip.Response.Header, body)
	d.SetNoRetry(e)
	return e
}

// deliverRewritten sends a response that is not generated text.
func (a *attempt) deliverRewritten(d *exchange.Delivery) *llm.Error {
	body, err := d.Trip.ReadBody(a.call.Settings.Limits.Answer)
	if err != nil {
		return err
	}
	if body, err = a.rewrite(body); err != nil {
		return err
	}
	d.SendBody(http.StatusOK, body, setJSON)
	return nil
}

// deliverCollected collects a stream and sends it as one non-streaming response. It ends with
// an error when the caller's budget is exhausted.
func (a *attempt) deliverCollected(d *exchange.Delivery) *llm.Error {
	all := llm.Collector{Limit: int(a.call.Settings.Limits.Answer)}
	d.Account.RestartCount()
	var counted *llm.Usage
	err := a.readStream(d, func(events []llm.Event, now time.Time) (bool, *llm.Error) {
		for _, e := range events {
			switch e := e.(type) {
			case llm.Failure:
				return true, e.Err
			case llm.Delta:
				d.NoteToken(now)
				d.Account.CountText(len(e.Text))
			case llm.Start:
				counted = e.Usage
			case llm.UsageUpdate:
				counted = &e.Usage
			}
			if err := all.Add(e); err != nil {
				return true, notCollected(err)
			}
			if _, end := e.(llm.End); end {
				return true, nil
			}
		}
		err := d.Account.ExtendHeld(d.Call.Client.Context())
		if err != nil {
			a.summary.Usage = counted // the client pays for what was generated
		}
		return false, err
	})
	if err != nil {
		return err
	}
	resp, cause := all.Response()
	switch {
	case a.tap != nil && !a.tap.Summary().Complete:
		return upstream.Truncated(nil) // some of the choices are missing
	case errors.Is(cause, llm.ErrIncomplete):
		return upstream.Truncated(cause)
	case cause != nil:
		return notCollected(cause)
	}
	a.sendResponse(d, resp)
	d.Trip.Drain()
	return nil
}

func notCollected(err error) *llm.Error {
	return &llm.Error{Kind: llm.Upstream, Code: "upstream_invalid_response", Message: "the upstream's stream cannot be collected into one response", Cause: err}
}

// complete restores tool names and sets members that the client's dialect requires and
// the upstream did not send.
func (a *attempt) complete(resp *llm.Response) {
	a.undo.Response(resp)
	resp.ID, resp.Created, resp.Model = cmp.Or(resp.ID, a.call.ID), cmp.Or(resp.Created, a.created), cmp.Or(resp.Model, a.target.Model)
	a.summary.ID, a.summary.Model, a.summary.Usage, a.summary.Complete = resp.ID, resp.Model, resp.Usage, true
	a.summary.Tier = cmp.Or(resp.Tier, resp.UsageTier)
	if len(resp.Choices) > 0 {
		a.summary.Finish = resp.Choices[0].Stop.Raw
	}
	for _, c := range resp.Choices {
		a.summary.Content = a.summary.Content || slices.ContainsFunc(c.Blocks, hasContent)
	}
}

// hasContent reports whether a block is not an empty text.
func hasContent(b llm.Block) bool {
	t, isText := b.(*llm.Text)
	return !isText || t.Text != ""
}

func (a *attempt) sendResponse(d *exchange.Delivery, resp *llm.Response) {
	a.complete(resp)
	d.Account.CountResponse(resp)
	seals := a.recordSeals()
	seals.Response(resp)
	seals.Save(func() conversation.Digest { return conversation.DigestOf(a.ask.Turns) })
	report := llm.Report{Losses: a.losses}
	body := a.codec.EncodeResponse(resp, a.ask, &report)
	a.losses = report.Losses
	a.fidelity = exchange.FidelityOf(a.losses)
	if a.assemble != nil {
		body = a.assemble.Complete(body)
	}
	a.recordResponse().Response(body)
	d.SendBody(http.StatusOK, body, setJSON)
}

// sendAsStream sends a non-streaming response as a stream.
func (a *attempt) sendAsStream(d *exchange.Delivery, resp *llm.Response) *llm.Error {
	w := a.newStreamWriter(d)
	w.undo = nil // complete has restored the names
	if err := w.encode(llm.Explode(resp)); err != nil {
		return err
	}
	return w.flush(time.Now())
}

// recordSeals returns a recorder for the sealed reasoning of the response.
func (a *attempt) recordSeals() conversation.SealRecorder {
	return a.lane.Seals.NewRecorder(a.caller(), a.call.Dialect.OptionalCallIDs)
}

// recordResponse stores the request and returns the recorder of its response. It returns
// nil if nothing is stored: the upstream stores the response, the client sent store:
// false, limits.conversations is 0, or the client's dialect has no references.
func (a *attempt) recordResponse() *conversation.ResponseRecorder {
	dialect := a.call.Dialect.Stored
	if dialect == nil || a.call.Settings.Limits.Conversations == 0 || a.call.Dialect == a.target.Dialect {
		return nil
	}
	if store := a.ask.State.Store; store != nil && !*store {
		return nil
	}
	input := a.call.Stored
	if input == nil {
		input = dialect.Input(a.call.Body.Member)
	}
	return a.lane.Responses.Record(dialect, a.caller(), a.call.ID, input)
}
