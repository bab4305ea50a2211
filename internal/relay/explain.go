package relay

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/observe"
	"github.com/isogloss-gateway/isogloss/internal/route"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// Explanation is who would be asked for a request, and why.
type Explanation struct {
	Model   string            `json:"model"`
	Dialect string            `json:"dialect"`
	Route   string            `json:"route"` // the row of the configuration, which may be a pattern
	Balance string            `json:"balance"`
	Targets []ExplainedTarget `json:"targets"` // those that would be asked, in their order, then the rest
}

// ExplainedTarget is one target in an Explanation.
type ExplainedTarget struct {
	Target   string `json:"target"`
	Protocol string `json:"protocol"`
	Place    int    `json:"place,omitempty"` // 1 is asked first; 0 is not asked at all
	Why      string `json:"why,omitempty"`   // why it comes late or not at all
	Lane     string `json:"lane"`            // verbatim or translated
	Fidelity string `json:"fidelity,omitempty"`
	Refusal  string `json:"refusal,omitempty"` // why the request cannot be written for it

	Until      time.Time `json:"until,omitzero"` // when it will be asked again
	Open       int       `json:"open"`
	FirstToken string    `json:"first_token,omitempty"` // how long it usually takes
}

// explainPaths are where a dialect's requests for text come in.
var explainPaths = map[protocol.Name]string{
	protocol.OpenAIChat: "/v1/chat/completions", protocol.OpenAIResponses: "/v1/responses", protocol.Anthropic: "/v1/messages",
}

// Explain goes the way of a request up to the point where it would be sent. The
// order may be another the next time, where the balance leaves it to chance.
func (r *Relay) Explain(dialect protocol.Name, model string, body []byte) (*Explanation, *llm.Error) {
	path, ok := explainPaths[dialect]
	if !ok && dialect != protocol.Gemini {
		return nil, &llm.Error{Kind: llm.InvalidRequest, Message: "there is no dialect '" + printable(string(dialect)) + "'; write openai-chat, openai-responses, anthropic or gemini"}
	}
	if dialect == protocol.Gemini {
		path = "/v1beta/models/" + model + ":generateContent"
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://localhost"+path, http.NoBody)
	if err != nil {
		return nil, noSuchModel(model)
	}
	e, ok := endpointOf(req)
	if !ok {
		return nil, noSuchModel(model)
	}
	ask, fault := e.project(body)
	if fault != nil {
		return nil, fault
	}
	x := &exchange{state: r.state.Load(), endpoint: e, client: req, ctx: req.Context(), ask: ask, seen: &observe.Exchange{}}
	x.attempt = &x.first
	if fault := r.plan(x); fault != nil {
		return nil, fault
	}
	return r.explain(x), nil
}

func (r *Relay) explain(x *exchange) *Explanation {
	out := &Explanation{Model: x.ask.model, Dialect: string(x.endpoint.dialect), Route: x.route.Name, Balance: string(x.route.Balance)}
	late := map[string]string{}
	for _, s := range x.skipped {
		late[s.target] = s.why
	}
	for i, c := range x.line {
		t := r.explainTarget(x, c.target)
		t.Place, t.Why = i+1, late[t.Target]
		delete(late, t.Target)
		out.Targets = append(out.Targets, t)
	}
	match, _ := x.state.Routes.Find(x.ask.model) // it was found before
	for _, target := range match.Targets {
		name := target.String()
		why, left := late[name]
		switch {
		case left:
		case x.endpoint.servedBy(target.Provider):
			continue // it is in the line
		default:
			why = "has nothing like " + x.endpoint.name
		}
		t := r.explainTarget(x, target)
		t.Why = why
		out.Targets = append(out.Targets, t)
	}
	return out
}

func (r *Relay) explainTarget(x *exchange, target route.Target) ExplainedTarget {
	state := target.Live.State()
	t := ExplainedTarget{Target: target.String(), Protocol: string(target.Provider.Protocol), Lane: "verbatim", Until: state.Until, Open: target.Live.InFlight()}
	if d := target.Live.FirstToken(); d > 0 {
		t.FirstToken = strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
	if !x.endpoint.verbatim(target.Provider) || x.continues() {
		t.Lane = "translated"
	}
	if len(x.parts().Turns) == 0 { // only a name: there is nothing to lose
		return t
	}
	x.attempt = &attempt{fidelity: exact}
	err := r.prepare(x, &target)
	t.Fidelity = x.fidelity
	if err != nil {
		t.Fidelity, t.Refusal = "", err.Message
	}
	return t
}
