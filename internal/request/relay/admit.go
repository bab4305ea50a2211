package relay

import (
	"cmp"

	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
)

// criticalityHeader is the header in which a client sets a request's criticality.
const criticalityHeader = "Isogloss-Criticality"

// everyModel is the scope that a key needs for a forwarded path, whose model is unknown.
const everyModel = "*"

// identify authenticates the caller. It runs before the body is read.
func (q *request) identify() (err *llm.Error) {
	q.caller, err = q.state.Keys.Check(q.Call.Client)
	q.Call.CallerID, q.Call.Tenant, q.Call.Limited = q.caller.ID, q.caller.Tenant, len(q.caller.Accounts) > 0
	return cmp.Or(err, q.Call.CheckHops())
}

// admit checks the caller's scopes and takes a slot for the request.
func (q *request) admit() (err *llm.Error) {
	model := everyModel
	if q.Call.Body != nil {
		model = q.Call.Body.Model
	}
	if err := cmp.Or(q.caller.Begin(q.Call.ID, model), q.caller.May(q.Call.Name, model)); err != nil {
		return err
	}
	if q.class, err = q.classify(); err != nil {
		return err
	}
	permit, refusal := q.relay.fleet.Enter(q.ctx, q.limited())
	if refusal != nil {
		return fleet.Overloaded(refusal)
	}
	q.slot = permit
	return nil
}

// limited returns the caller for fair queueing. Without configured keys all requests have
// the same caller.
func (q *request) limited() limit.Caller {
	c := limit.Caller{Max: q.caller.Concurrency, Class: q.class}
	if q.caller.Criticality != "" {
		c.Key = q.caller.ID
	}
	return c
}

// classify returns the request's criticality: the maximum of its key, or a lower one from
// the header. Without keys the header may set any.
func (q *request) classify() (limit.Class, *llm.Error) {
	most := limit.Critical
	class := limit.Normal
	if q.caller.Criticality != "" {
		most, _ = limit.ParseClass(q.caller.Criticality)
		class = most
	}
	said := q.Call.Client.Header.Get(criticalityHeader)
	if said == "" {
		return class, nil
	}
	class, ok := limit.ParseClass(said)
	if !ok {
		return 0, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: criticalityHeader,
			Message: criticalityHeader + " is '" + exchange.Printable(said) + "'; send critical, normal or sheddable"}
	}
	return max(class, most), nil
}
