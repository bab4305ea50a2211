package relay

import (
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/base/crash"
	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/refuse"
	"github.com/isogloss-gateway/isogloss/internal/request/replay"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
)

// record ends a request: it charges, meters and logs it. It runs once, also after a
// panic.
func (q *request) record() {
	if fault := recover(); fault != nil {
		q.sendError(exchange.Panicked())
		crash.Log(q.relay.observer.Logger(), "id", q.Call.ID)
	}
	q.Charge()
	q.Writer.Close()
	q.replay.Store(&q.Delivery, q.attempt.summary().Finish, q.cut)
	if q.tape != nil {
		q.endTape()
	}
	q.attempt.close()
	q.slot.Release()
	q.freeMemory()
	q.Record.Facts = q.facts()
	q.state.Books.Refusals.Add(refuse.Note(q.told(), &q.Delivery, &q.caller, q.status(), exchange.LossesIn(q.attempt.prepared)))
	q.Record.End()
	if q.cut {
		panic(http.ErrAbortHandler) // the only way to tell the client that the body is incomplete
	}
}

// facts returns what the record says of the request.
func (q *request) facts() observe.Facts {
	a, s := q.attempt, q.attempt.summary()
	f := q.Facts()
	f.Key, f.Team, f.Org = q.caller.Key, q.caller.Team, q.caller.Org
	f.Finish, f.Usage, f.ResponseModel, f.Fidelity = s.Finish, s.Usage, s.Model, a.fidelity()
	f.UpstreamID = a.upstreamID()
	f.UpstreamStream = a.prepared != nil && !a.sentAt.IsZero() && a.prepared.Request().Stream
	if q.route != nil {
		f.Model = q.route.Name
		if a.target != nil {
			f.UpstreamProtocol = string(a.target.Provider.Protocol)
		}
	}
	return f
}

// repeat sends the response to an earlier request with the same Idempotency-Key, if there is one.
func (q *request) repeat() (bool, *llm.Error) {
	answer, err := q.replay.Find(q.ctx, q.state.Books.Stores, replay.Caller{Key: q.caller.Key, Org: q.caller.Org}, q.route, &q.Delivery)
	if answer != nil {
		replay.Send(answer, &q.Delivery)
	}
	return answer != nil, err
}

// recall sends a cached response, if there is one. It reports whether it did.
func (q *request) recall() (bool, *llm.Error) {
	answer := q.replay.FindCached(q.ctx, replay.Caller{Key: q.caller.Key, Org: q.caller.Org}, q.route, &q.Delivery)
	if answer == nil {
		return false, nil
	}
	account, err := q.state.Books.OpenCached(q.ctx, q.billingRequest(), q.candidates[0].String())
	if q.Account = account; err == nil {
		replay.Send(answer, &q.Delivery)
	}
	return err == nil, err
}

// reserve opens the request's account, if there is a ledger.
func (q *request) reserve() (err *llm.Error) {
	if q.state.Books.Ledger == nil {
		return nil
	}
	targets := make([]billing.Target, 0, len(q.candidates))
	for i := range q.candidates {
		targets = q.Call.AppendBilled(targets, &q.candidates[i].Target.Target)
	}
	q.Account, err = q.state.Books.Reserve(q.ctx, q.billingRequest(), q.estimate(), targets)
	return err
}

// estimate returns the request's tokens as far as they are known before it is sent.
func (q *request) estimate() billing.Estimate {
	limit, choices := q.Call.OutputLimit()
	for i := range q.candidates {
		if d := q.candidates[i].Dialect; limit > 0 && d != q.Call.Dialect {
			limit = max(limit, d.LeastOutput)
		}
	}
	return billing.EstimateRequest(len(q.Call.Body.Text()), limit, choices)
}

// billingRequest returns the request as billing needs it.
func (q *request) billingRequest() billing.Request {
	r := billing.Request{ID: q.Call.ID, Key: q.caller.Key, KeyName: q.caller.Name, Team: q.caller.Team, Org: q.caller.Org, Accounts: q.caller.Accounts, Began: q.Record.Began(),
		Endpoint: q.Call.Name, Dialect: string(q.Call.Dialect.Name), Free: q.Call.Operation == codec.CountTokens, Sheddable: q.class == limit.Sheddable}
	if q.state.Books.Ledger != nil {
		r.Labels, q.Result.IgnoredTags = q.Call.Labels(&q.state.Books.Labels)
		r.Client = usage.Client{Person: q.caller.Person, Agent: usage.BoundAgent(q.Call.Client.UserAgent()), Trace: q.Record.Trace()}
	}
	if q.route != nil {
		r.Model, r.Stream, r.MaxOther = q.route.Name, q.Call.Body.Stream, q.Call.Body.MaxOther
	}
	return r
}

// Charge closes the request's account. It must be called before the client can know that
// the response is complete.
func (q *request) Charge() {
	q.Call.AddOwner(q.relay.Owners, q.Target, q.attempt.summary())
	if q.Account.Closed() {
		return
	}
	result := billing.Result{Status: q.status(), Outcome: q.outcome(), Last: q.billedAttempt(q.Result.Err), Fidelity: q.attempt.fidelity(), Losses: exchange.LossesIn(q.attempt.prepared), Told: q.told()}
	for _, f := range q.failed {
		if !f.sentAt.IsZero() && !f.billed {
			result.Failed = append(result.Failed, usage.Attempt{Target: f.target, Began: f.sentAt, Took: f.took, Status: f.status, Fault: f.reason, Times: f.times})
		}
	}
	q.Result.Cost = (*int64)(q.Account.Charge(result))
}

// billedAttempt returns the current attempt as billing needs it.
func (q *request) billedAttempt(err *llm.Error) billing.Attempt {
	a, summary := q.attempt, q.attempt.summary()
	b := billing.Attempt{Target: billing.Target{Name: q.Result.Target}, Began: a.sentAt, Status: a.status(), Fault: billing.FaultOf(err), Reported: summary.Usage, Early: a.early,
		Times:   exchange.TimesOf(a.trip, a.sentAt, q.Result.FirstToken),
		Content: summary.Content || !q.Call.Generates()}
	if a.target != nil && q.route != nil {
		b.Target = q.Call.BilledAs(&a.target.Target, summary.Model)
		b.Target.Name, b.Target.Tier = q.Result.Target, summary.Tier
	}
	return b
}

// Release frees the request body and other values that only further attempts need, after
// the first part of the response is sent.
func (q *request) Release() {
	if a := q.attempt; a.prepared != nil && a.prepared.Request().Body != nil {
		a.prepared.Request().Body = nil
		q.Call.Release()
		q.freeMemory()
	}
}

// status returns the status that the client received or will receive, or 0 if it has
// disconnected.
func (q *request) status() int {
	err := q.Result.Err
	switch {
	case q.Result.Status != 0:
		return q.Result.Status
	case err == nil, q.Writer.Started():
		return http.StatusOK
	case err.Kind == llm.Cancelled:
		return 0
	}
	return q.Call.Dialect.Codec.ErrorStatus(err)
}

// told returns the error that the client got, as far as the ledger may have it.
func (q *request) told() usage.Told {
	return refuse.Told(q.Result.Err, q.Result.Attempts > 0, q.attempt.fidelity())
}

// outcome returns how the request ended or is about to end.
func (q *request) outcome() usage.Outcome {
	switch err := q.Result.Err; {
	case q.replay.Cached:
		return usage.Cached
	case err == nil && !q.Call.Streams() && q.attempt.summary().Pending:
		return usage.Queued
	case err == nil:
		return usage.Answered
	case err.Kind == llm.Cancelled:
		return usage.Left
	case q.told().Reason != "":
		return usage.Refused
	}
	return usage.Failed
}
