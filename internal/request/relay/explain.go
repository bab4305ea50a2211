package relay

import (
	"context"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/base/observe"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/targets/fleet"
	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Explain runs the steps of a request without sending it. If the balancing policy is
// random, the order of the targets may differ the next time.
func (r *Relay) Explain(dialect protocol.Name, model string, body []byte) (*fleet.Explanation, *llm.Error) {
	e, ok := r.dialects.Generate(dialect, model)
	if !ok {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Message: "there is no dialect '" + exchange.Printable(string(dialect)) + "'; write " + r.dialects.Names()}
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost"+e.URLPath, http.NoBody)
	if err != nil {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Message: "the model's name cannot be part of a path", Cause: err}
	}
	q := &request{relay: r, state: r.state.Load(), ctx: req.Context()}
	call := &exchange.Call{Dialect: e.Dialect, Location: e.Location, Client: req, Settings: &q.state.Settings}
	q.Delivery = exchange.Delivery{Call: call, Record: &observe.Exchange{}}
	if fault := q.Call.ReadBody(body); fault != nil {
		return nil, fault
	}
	fault := q.match()
	if fault == nil {
		fault = q.choose()
	}
	if fault != nil {
		if fault.Code == models.UnknownModel { // an operator may see every model
			fault = q.state.Models.NotFound(q.Call.Body.Model, func(string) bool { return true })
		}
		return nil, fault
	}
	return q.explain(), nil
}

func (q *request) explain() *fleet.Explanation {
	out := &fleet.Explanation{Model: q.Call.Body.Model, Dialect: string(q.Call.Dialect.Name), Route: q.route.Name, Balance: string(q.route.Balance), Params: q.route.Params.JSON()}
	if q.hasPrompt() {
		out.MaxPrompt, out.MaxOutput, out.Unlimited = q.estimate().MaxPrompt, q.estimate().MaxOutput, !q.estimate().Bounded
	}
	late := map[string]string{}
	for _, s := range q.skipped {
		late[s.target] = s.reason
	}
	for i := range q.candidates {
		t := q.explainTarget(&q.candidates[i].Target)
		t.Place, t.Why = i+1, late[t.Target]
		delete(late, t.Target)
		out.Targets = append(out.Targets, t)
	}
	match, _ := q.state.Routes.Find(q.Call.Body.Model) // choose has found it before
	for _, target := range match.Targets {
		dialect := q.relay.dialects.ByName[target.Provider.Protocol]
		why, left := late[target.String()]
		switch {
		case left:
		case servable(q.Call, dialect):
			continue // it is a candidate already
		default:
			why = "has no equivalent of " + q.Call.Name
		}
		t := q.explainTarget(&exchange.Target{Target: target, Dialect: dialect})
		t.Why = why
		out.Targets = append(out.Targets, t)
	}
	return out
}

func (q *request) explainTarget(target *exchange.Target) fleet.ExplainedTarget {
	t := fleet.ExplainedTarget{Target: target.String(), Protocol: string(target.Provider.Protocol), Lane: "verbatim", TargetState: fleet.Explain(&target.Target)}
	if q.relay.lane(q.Call, target) == exchange.Lane(q.relay.translate) {
		t.Lane = "translated"
	}
	if !q.hasPrompt() {
		return t
	}
	a, err := q.newAttempt(target, limit.Permit{})
	t.Fidelity = a.fidelity()
	if a.prepared != nil {
		t.Losses = q.Call.NameLosses(a.prepared.Losses())
	}
	if cost, known := q.state.Books.MaxCost(q.estimate(), q.Call.AppendBilled(nil, &target.Target)); known {
		t.MaxCost = cost.Decimal()
	}
	if err != nil {
		t.Fidelity, t.MaxCost, t.Refusal = "", "", err.Message
	}
	return t
}

// hasPrompt reports whether there is a request to explain, and not only the name of a model.
func (q *request) hasPrompt() bool { return len(promptParts(q.Call).Turns) > 0 }
