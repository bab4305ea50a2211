package relay

import (
	"cmp"
	"maps"
	"net/http"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/request/capture"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// userAgent replaces the client's User-Agent.
var userAgent = []string{"isogloss"}

// attempt is one try to get a response from a target. A retry or a hedge is another
// attempt of the same call.
type attempt struct {
	target   *exchange.Target
	prepared exchange.Prepared   // set even if encoding the request failed
	trip     *upstream.RoundTrip // nil until it is sent
	slot     limit.Permit
	sentAt   time.Time  // zero if the request was not sent
	reported bool       // its outcome is in the target's live state
	counted  bool       // the target's live state counts it as in flight
	rejected bool       // the response has an error status that may be relayed to the client
	missing  bool       // the upstream does not have the model
	noStream bool       // the upstream refuses the stream that the client has not requested
	early    *llm.Usage // reported before the first token
	taped    *capture.Attempt
}

// response returns the status and the headers of the response, or 0 and nil if none
// arrived.
func (a *attempt) response() (status int, header http.Header) {
	if a.trip == nil || a.trip.Response == nil {
		return 0, nil
	}
	return a.trip.Response.StatusCode, a.trip.Response.Header
}

// status returns the status of the response, or 0.
func (a *attempt) status() int {
	status, _ := a.response()
	return status
}

// upstreamID returns the upstream's id for the request. It is logged, so it is empty if it
// contains a secret of the provider.
func (a *attempt) upstreamID() string {
	_, header := a.response()
	id := cmp.Or(header.Get("X-Request-Id"), header.Get("Request-Id"))
	if id == "" || exchange.HasPrivate(a.target.Provider, id) {
		return ""
	}
	return id
}

// fidelity returns the value of the Isogloss-Fidelity header.
func (a *attempt) fidelity() string { return exchange.FidelityIn(a.prepared) }

// summary returns the id, model, finish reason and usage of the response.
func (a *attempt) summary() protocol.Summary {
	if a.prepared == nil {
		return protocol.Summary{}
	}
	return a.prepared.Summary()
}

// start counts the attempt as in flight.
func (a *attempt) start() {
	a.target.Live.Begin()
	a.counted, a.sentAt = true, time.Now()
}

// cancel ends the round trip, if there is one.
func (a *attempt) cancel(cause error) {
	if a.trip != nil {
		a.trip.Cancel(cause)
	}
}

// close releases the slot and the connection.
func (a *attempt) close() {
	if a.counted {
		a.counted = false
		a.target.Live.End()
	}
	a.slot.Release()
	if a.trip != nil {
		a.trip.Close()
	}
}

// newAttempt encodes the call for a target, in the lane that the target needs.
func (q *request) newAttempt(t *exchange.Target, slot limit.Permit) (*attempt, *llm.Error) {
	a := &attempt{target: t, slot: slot}
	if err := q.Call.CheckVersion(t, len(q.route.Targets)); err != nil {
		return a, err
	}
	var err *llm.Error
	a.prepared, err = q.relay.lane(q.Call, t).Prepare(q.Call, t, exchange.Options{IncludeUsage: q.includesUsage(t), Stream: q.streamsForBudget(t)})
	return a, err
}

// streamsForBudget reports whether the gateway requests a stream for a non-streaming client,
// so that the response ends with the caller's budget.
func (q *request) streamsForBudget(t *exchange.Target) bool {
	b := q.Call.Body
	return !b.Stream && !b.NoStream && !q.whole && q.Account.Extensible() && (b.Generated < 2 || !t.Dialect.StreamsOneChoice)
}

// lane returns the lane of a call for a target.
func (r *Relay) lane(c *exchange.Call, t *exchange.Target) exchange.Lane {
	if c.Verbatim(t.Provider) && !c.Continues() {
		return r.verbatim
	}
	return r.translate
}

// includesUsage reports whether the gateway requests usage for a stream even if the
// client did not: if the provider's configuration says so, if the request is billed, or
// if the stream is collected into a non-streaming response, which has usage.
func (q *request) includesUsage(t *exchange.Target) bool {
	return t.Provider.IncludeUsage || q.Account.NeedsUsage() || !q.Call.Body.Stream
}

// send sends the attempt and waits for the response. If another target could take over,
// it also waits for the first token of a stream. It writes only to its own attempt, so
// that two can run concurrently.
func (q *request) send(a *attempt, req *http.Request) *llm.Error {
	upstream.SetBody(req, a.prepared.Request().Body)
	if q.tape != nil {
		a.taped = q.tapeAttempt(a, req)
	}
	if err := a.trip.Do(req); err != nil {
		return err
	}
	if err := a.target.Unwrap(q.Call, a.trip); err != nil {
		return err
	}
	if a.taped != nil {
		a.taped.Response(a.trip.Response)
	}
	if a.trip.Response.StatusCode >= http.StatusBadRequest {
		return q.readError(a)
	}
	if !q.awaitsFirstToken(a) {
		return nil
	}
	return a.trip.AwaitFirstToken(exchange.NewFirstToken(q.Call, a.target, &a.early), q.state.Limits.Event)
}

// newHTTPRequest builds the upstream request, with the provider's credential and without
// a body, and its round trip.
func (q *request) newHTTPRequest(a *attempt) *http.Request {
	p, sent := a.target.Provider, a.prepared.Request()
	return q.withCredential(a, &http.Request{Method: http.MethodPost, URL: p.ModelURL(sent.Path, a.target.Model), Header: q.Call.UpstreamHeaders(sent.Header), ProtoMajor: 1, ProtoMinor: 1})
}

func (q *request) withCredential(a *attempt, req *http.Request) *http.Request {
	p, h := a.target.Provider, req.Header
	maps.Copy(h, p.Headers)
	h["User-Agent"] = userAgent
	// An empty list sends no header, but makes net/http resend the request when an idle
	// connection turns out to be closed before the first response byte.
	h["X-Idempotency-Key"] = []string{}
	p.Authorize(h)
	q.Record.Inject(h)
	a.trip = q.relay.client.RoundTrip(q.ctx, a.target.Timeouts, q.elapsed())
	a.trip.Provider, a.trip.HTTP, a.trip.Credential = p.Name, p.HTTP, p.Credential
	return req
}

// readError returns the error of an error response. It marks the response as one that may
// be relayed to the client if no other target is tried. A missing model is the client's
// error only if the client named it, by a pattern's name or as provider/model.
func (q *request) readError(a *attempt) *llm.Error {
	status := a.trip.Response.StatusCode
	body, err := a.trip.ReadError()
	if err != nil {
		return err
	}
	fault := a.target.Dialect.Codec.DecodeError(status, a.trip.Response.Header, body)
	if fault.Kind == llm.UpstreamAuth || status == a.prepared.Request().RejectedKey {
		return exchange.RejectedCredential(a.target.Provider) // the response is not for the client
	}
	a.noStream = a.prepared.Request().Stream && !q.Call.Body.Stream && exchange.RefusesStream(fault, status)
	a.missing = exchange.NamesModel(fault, status, a.target.Model)
	if a.missing && !q.route.Pattern() && q.route.Name != a.target.String() {
		return exchange.MissingModel(q.route.Name, a.target)
	}
	a.rejected = true
	return exchange.RedactError(fault, a.target.Provider)
}

// awaitsFirstToken reports whether a stream is held back until its first token: if
// another target could take over, or if a first token timeout is set.
func (q *request) awaitsFirstToken(a *attempt) bool {
	switch {
	case !a.trip.Streams():
		return false
	case a.target.Timeouts.FirstToken > 0, q.route.Hedge.Quantile > 0:
		return true
	}
	return q.Call.Body.Stream && len(q.candidates) > 1 && q.state.Retries.Attempts > 1
}

// safeToRetry reports whether the request may be sent to the same target again after the error.
func (a *attempt) safeToRetry(err *llm.Error) bool {
	return !a.missing && exchange.SafeToRetrySameTarget(err, a.status(), a.rejected)
}
