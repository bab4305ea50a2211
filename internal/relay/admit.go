package relay

import (
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/llm"
)

// criticalityHeader is how a client says how much a request matters.
const criticalityHeader = "Isogloss-Criticality"

// everyModel is what a key has to open for a path that is only forwarded: which
// model it leads to is not known.
const everyModel = "*"

// identify finds out who sends the request. Nothing of it was read until now.
func (r *Relay) identify(x *exchange) (err *llm.Error) {
	x.caller, err = x.state.Keys.Check(x.client)
	x.seen.Key = x.caller.Key
	return err
}

// admit lets the caller in or not, and takes a place for the request.
func (r *Relay) admit(x *exchange) (err *llm.Error) {
	model := everyModel
	if x.ask != nil {
		model = x.ask.model
	}
	if err := x.caller.May(x.endpoint.name, model); err != nil {
		return err
	}
	if x.class, err = x.classify(); err != nil {
		return err
	}
	permit, refusal := r.live.limits.Enter(x.ctx, x.limited())
	if refusal != nil {
		return refused(refusal)
	}
	x.permit = permit
	return nil
}

// limited is the caller as limits know it. Where no keys are configured nobody is
// told apart.
func (x *exchange) limited() limit.Caller {
	c := limit.Caller{Max: x.caller.Concurrency, Class: x.class}
	if x.caller.Criticality != "" {
		c.Key = x.caller.ID
	}
	return c
}

// classify is how much the request matters: what its key allows, or less where it
// says so itself. Without keys anything may be said.
func (x *exchange) classify() (limit.Class, *llm.Error) {
	most := limit.Critical
	class := limit.Normal
	if x.caller.Criticality != "" {
		most, _ = limit.ParseClass(x.caller.Criticality)
		class = most
	}
	said := x.client.Header.Get(criticalityHeader)
	if said == "" {
		return class, nil
	}
	class, ok := limit.ParseClass(said)
	if !ok {
		return 0, &llm.Error{Kind: llm.InvalidRequest, Code: "invalid_value", Param: criticalityHeader,
			Message: criticalityHeader + " is '" + printable(said) + "'; send critical, normal or sheddable"}
	}
	return max(class, most), nil
}
