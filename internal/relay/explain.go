package relay

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/exchange"
	"github.com/isogloss-gateway/isogloss/internal/fleet"
	"github.com/isogloss-gateway/isogloss/internal/limit"
	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Explanation lists the targets of a request in the order in which they would be
// tried.
type Explanation struct {
	Model   string            `json:"model"`
	Dialect string            `json:"dialect"`
	Route   string            `json:"route"` // the name in the configuration, which may be a pattern
	Balance string            `json:"balance"`
	Params  json.RawMessage   `json:"params,omitempty"` // that the configuration sets for the model
	Targets []ExplainedTarget `json:"targets"`          // first those that would be tried
}

// ExplainedTarget is one target in an Explanation.
type ExplainedTarget struct {
	Target   string `json:"target"`
	Protocol string `json:"protocol"`
	Place    int    `json:"place,omitempty"` // 1 is tried first; 0 is not tried
	Why      string `json:"why,omitempty"`   // why it is tried late or skipped
	Lane     string `json:"lane"`            // verbatim or translated
	Fidelity string `json:"fidelity,omitempty"`
	Refusal  string `json:"refusal,omitempty"` // why the request cannot be translated for it
	fleet.TargetState
}

// Explain runs the steps of a request without sending it. If the balancing policy is
// random, the order of the targets may differ the next time.
func (r *Relay) Explain(dialect protocol.Name, model string, body []byte) (*Explanation, *llm.Error) {
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
	if fault := q.choose(); fault != nil {
		if fault.Code == unknownModel { // an operator may see every model
			fault = q.state.noSuchModel(q.Call.Body.Model, func(string) bool { return true })
		}
		return nil, fault
	}
	return q.explain(), nil
}

func (q *request) explain() *Explanation {
	out := &Explanation{Model: q.Call.Body.Model, Dialect: string(q.Call.Dialect.Name), Route: q.route.Name, Balance: string(q.route.Balance), Params: q.route.Params.JSON()}
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

func (q *request) explainTarget(target *exchange.Target) ExplainedTarget {
	t := ExplainedTarget{Target: target.String(), Protocol: string(target.Provider.Protocol), Lane: "verbatim", TargetState: fleet.Explain(&target.Target)}
	if q.relay.lane(q.Call, target) == exchange.Lane(q.relay.translate) {
		t.Lane = "translated"
	}
	if len(promptParts(q.Call).Turns) == 0 { // there is no request body, only a model's name
		return t
	}
	a, err := q.newAttempt(target, limit.Permit{})
	t.Fidelity = a.fidelity()
	if err != nil {
		t.Fidelity, t.Refusal = "", err.Message
	}
	return t
}
